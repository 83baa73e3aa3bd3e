/* tests/fuzz/fuzz_session.c: a whole analysis of a damaged core with a glibc heap in it.
 *
 * Input: a byte that chooses the release, one of shape (bits 0-1: heap_core.h; bits 2-4: which
 * command; bit 5: no holes, so no residency), then patches of 4 + 0..8 bytes:
 *
 *     op | place | index (u16) | value
 *
 * A place is a word of the ELF header, the program headers, the notes, a block, an arena, a heap's
 * head, mp_, a cache, a thread's TLS or any memory; op writes a raw word, an address of the heap,
 * an odd number, adds, flips a bit, writes zeros or a run of one byte; the last patch may cut the
 * file. The oracle is analysis_wrong() and analysis_outputs_wrong(), and that of
 * effort.h. */
#include "analysis_check.h"
#include "effort.h"
#include "fuzz_input.h"
#include "heap_core.h"

#include "base/io.h"

#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PATCHES_MAX = 64, RUN_MAX = 4096, PAGE = HEAP_PAGE };

static const mw_addr FIRST_HEAP = 0x7f0040000000;

/* A core that is made once, and mended after each input. */
struct subject {
    struct heap_builder *heap;
    uint8_t *pristine;
    bool *is_hole; /* page by page */
    size_t length, notes_at;
    int fd;
    char path[32];
};

static void must(int good)
{
    if (!good)
        abort();
}

static struct subject *subject_of(size_t family, unsigned shape, bool has_holes)
{
    static struct subject *subjects[16][HEAP_CORE_SHAPES][2];
    struct subject **slot = &subjects[family][shape][has_holes];
    if (*slot)
        return *slot;
    struct subject *subject = *slot = calloc(1, sizeof *subject);
    must(subject != NULL);
    subject->heap = heap_core_build(&heap_families[family], shape);
    subject->pristine = heap_core_file(subject->heap, &subject->length);
    subject->notes_at = 64 + (subject->heap->region_count + 1) * 56;
    subject->fd = memfd_create("core", MFD_CLOEXEC);
    must(subject->fd >= 0);
    must(mw_io_write_full(subject->fd, subject->pristine, subject->length) == 0);
    if (has_holes)
        heap_core_punch(subject->fd, subject->pristine, subject->length);
    subject->is_hole = calloc(subject->length / PAGE + 1, sizeof *subject->is_hole);
    must(subject->is_hole != NULL);
    for (size_t at = 0; at < subject->length; at += PAGE)
        subject->is_hole[at / PAGE] = lseek(subject->fd, (off_t)at, SEEK_DATA) != (off_t)at;
    snprintf(subject->path, sizeof subject->path, "/proc/self/fd/%d", subject->fd);
    return subject;
}

/* Where an address is in the file; the last word of it when nowhere. */
static size_t offset_of(const struct subject *subject, mw_addr address)
{
    for (size_t i = 1; i <= subject->heap->region_count; i++) {
        Elf64_Phdr segment;
        memcpy(&segment, subject->pristine + 64 + i * sizeof segment, sizeof segment);
        if (address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz)
            return segment.p_offset + (address - segment.p_vaddr);
    }
    return subject->length - 8;
}

/* An address that a patch is about: most of them where the walker looks. */
static mw_addr address_of(const struct heap_builder *heap, unsigned place, size_t index)
{
    const struct heap_family *family = heap->family;
    const struct heap_expect *block = &heap->expects[index / 8 % heap->expect_count];
    const struct heap_arena *arena = &heap->arenas[index / 512 % heap->arena_count];
    const struct heap_region *region = &heap->regions[index % heap->region_count];
    switch (place) {
    case 3:
        return arena->address + index % 16 * 8;
    case 4:
        return arena->address + family->bins + 1984 + index % 20 * 8;
    case 5:
        return heap->mp + index % (family->par_size / 8) * 8;
    case 6:
        return FIRST_HEAP + index / 8 % 3 * ((mw_addr)64 << 20) + index % 8 * 8;
    case 7:
        if (heap->tcache_count > 0)
            return heap->tcaches[index / 256 % heap->tcache_count].chunk + 16 + index % 96 * 8;
        return heap->main_arena + index % 270 * 8;
    case 8:
        if (heap->thread_count > 0)
            return heap->thread_pointers[index / 32 % heap->thread_count] - 0x80 + index % 32 * 8;
        return heap->data + index * 8 % (2 * PAGE);
    case 9:
        return region->start + index * 8 % region->size;
    default:
        return block->block.address + index % 4 * 8;
    }
}

static size_t place_of(const struct subject *subject, unsigned place, size_t index)
{
    size_t headers = 64 + (subject->heap->region_count + 1) * 56;
    switch (place % 14) {
    case 0:
        return index % 8 * 8;
    case 1:
        return 64 + index * 4 % (headers - 64 - 8);
    case 2:
        return subject->notes_at + index * 4 % 2048;
    default:
        return offset_of(subject, address_of(subject->heap, place % 14, index));
    }
}

static uint64_t new_word(const struct subject *subject, unsigned op, uint64_t word, size_t at,
                         struct input *input)
{
    uint64_t what;
    switch (op) {
    case 0:
        return take(input, 8);
    case 1:
        what = take(input, 3);
        return address_of(subject->heap, what & 15, what >> 8) & ~(uint64_t)7;
    case 2:
        return take_odd(input);
    case 3:
        return word + (uint64_t)(int64_t)(int8_t)take(input, 1) * 16;
    case 4:
        return word ^ (uint64_t)1 << take(input, 1) % 64;
    default: /* as a safe link */
        return address_of(subject->heap, 10, (size_t)take(input, 2)) ^ at >> 12;
    }
}

struct undo {
    size_t at, length;
};

/* One patch; what it touched. */
static struct undo patch(struct subject *subject, struct input *input, size_t *cut_out)
{
    unsigned op = (unsigned)take(input, 1) % 9, place = (unsigned)take(input, 1);
    size_t index = (size_t)take(input, 2), at = place_of(subject, place, index), length = 8;
    if (at > subject->length - 8)
        at = subject->length - 8;
    if (op == 8) {
        *cut_out = at + index % 8;
        return (struct undo){at, 0};
    }
    if (op >= 6) { /* a run of bytes */
        length = ((size_t)take(input, 1) + 1) * 16;
        length = length < subject->length - at ? length : subject->length - at;
        uint8_t run[RUN_MAX];
        memset(run, op == 6 ? 0 : (int)take(input, 1), length);
        must(pwrite(subject->fd, run, length, (off_t)at) == (ssize_t)length);
        return (struct undo){at, length};
    }
    uint64_t word;
    must(mw_io_pread_full(subject->fd, &word, sizeof word, at) == sizeof word);
    word = new_word(subject, op, word, at, input);
    must(pwrite(subject->fd, &word, sizeof word, (off_t)at) == sizeof word);
    return (struct undo){at, length};
}

/* Back to what it was, holes too. */
static void mend(struct subject *subject, const struct undo *undo)
{
    for (size_t at = undo->at / PAGE * PAGE; at < undo->at + undo->length; at += PAGE) {
        size_t length = subject->length - at < PAGE ? subject->length - at : PAGE;
        if (subject->is_hole[at / PAGE])
            must(fallocate(subject->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
                           PAGE) == 0);
        else
            must(pwrite(subject->fd, subject->pristine + at, length, (off_t)at) == (ssize_t)length);
    }
}

static void analyse(const struct subject *subject, enum analysis_kind kind)
{
    /* One input claims a heap of 64 GiB of zeros: words of which are nine seconds. */
    struct analysis_run run = {.kind = kind, .skips_reach = true};
    double began = effort_now();
    analysis_run_target(&run, subject->path);
    const char *wrong = effort_wrong(began);
    if (!wrong)
        wrong = analysis_wrong(&run);
    if (!wrong)
        wrong = analysis_outputs_wrong(&run, NULL);
    if (wrong) {
        fprintf(stderr, "fuzz_session: glibc %s, %s: %s\n", subject->heap->family->name,
                analysis_kind_name(kind), wrong);
        abort();
    }
    analysis_run_deinit(&run);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct input input = {bytes, size, 0};
    size_t family = (size_t)take(&input, 1) % heap_family_count;
    unsigned choice = (unsigned)take(&input, 1);
    bool has_holes = !(choice & 32);
    struct subject *subject = subject_of(family, choice % HEAP_CORE_SHAPES, has_holes);
    struct undo undos[PATCHES_MAX];
    size_t count = 0, cut = subject->length;
    while (input.at < size && count < PATCHES_MAX)
        undos[count++] = patch(subject, &input, &cut);
    if (cut < subject->length)
        must(ftruncate(subject->fd, (off_t)cut) == 0);
    analyse(subject, (choice >> 2) % ANALYSIS_KINDS);
    if (cut < subject->length) {
        must(ftruncate(subject->fd, (off_t)subject->length) == 0);
        mend(subject, &(struct undo){cut, subject->length - cut});
    }
    for (size_t i = 0; i < count; i++)
        mend(subject, &undos[i]);
    return 0;
}
