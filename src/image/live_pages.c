/* image/live_pages.c: which pages of a live process are in memory.
 *
 * Linux 6.7 and later answer by ioctl PAGEMAP_SCAN in runs of equal pages; before that each page
 * is a 64-bit word of /proc/PID/pagemap. Neither makes the target touch anything.
 *
 * The trap is the zero page: an untouched page that was read is mapped to one shared frame of
 * zeros. It is present, but not in RSS. PAGEMAP_SCAN names it. In pagemap it is known by its frame
 * number when we may see those (CAP_SYS_ADMIN since 4.2), else as a page that is neither of a file
 * nor mapped by us alone and holds only zeros. The huge zero page has bit 61 like a page of a
 * file, in an anonymous mapping too.
 *
 * References: Linux Documentation/admin-guide/mm/pagemap.rst, include/uapi/linux/fs.h and
 * fs/proc/task_mmu.c of 6.18. */
#include "image/live.h"

#include "base/bytes.h"
#include "base/io.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* struct pm_scan_arg of linux/fs.h, 6.7: Debian 12's headers do not have it yet. */
struct scan_argument {
    uint64_t size, flags, start, end, walk_end, vec, vec_length, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
struct scan_run {
    uint64_t start, end, categories;
};
#define SCAN_IOCTL _IOWR('f', 16, struct scan_argument)
enum {
    SCAN_FILE = 1 << 2,
    SCAN_PRESENT = 1 << 3,
    SCAN_SWAPPED = 1 << 4,
    SCAN_ZERO = 1 << 5,
    SCAN_HUGE = 1 << 6,
    SCAN_GUARD = 1 << 8, /* since 6.16 */
    SCAN_RUNS = 256,
};

#define WORD_PRESENT ((uint64_t)1 << 63)
#define WORD_SWAPPED ((uint64_t)1 << 62)
#define WORD_FILE ((uint64_t)1 << 61)
#define WORD_GUARD ((uint64_t)1 << 58)
#define WORD_EXCLUSIVE ((uint64_t)1 << 56)
#define WORD_FRAME (((uint64_t)1 << 55) - 1)
enum {
    WORDS_STEP = 4096,
    HUGE_STEP_BYTES = 2 << 20, /* the smallest size of a huge page */
};

static bool read_word(const struct mw_live_source *source, mw_addr address, uint32_t page_size,
                      uint64_t *word_out)
{
    return mw_io_pread_full(source->pagemap_fd, word_out, sizeof *word_out,
                            address / page_size * sizeof *word_out) == sizeof *word_out;
}

static uint8_t flags_of_scan(uint64_t categories)
{
    unsigned flags = 0;
    if (categories & SCAN_PRESENT)
        flags |= MW_PAGE_PRESENT;
    if (categories & SCAN_SWAPPED)
        flags |= MW_PAGE_SWAPPED;
    if (categories & SCAN_FILE)
        flags |= MW_PAGE_FILE;
    if (categories & SCAN_ZERO)
        flags |= MW_PAGE_ZERO;
    if (categories & SCAN_HUGE)
        flags |= MW_PAGE_HUGE;
    if (categories & SCAN_GUARD) /* the marker is a kind of swap entry: not swapped */
        flags = MW_PAGE_GUARD;
    return (uint8_t)flags;
}

/* Huge pages of a run that are the huge zero page, which older kernels do not mark. */
static void mark_huge_zero(const struct mw_image *image, const struct mw_live_source *source,
                           const struct scan_run *run, uint8_t *flags)
{
    mw_addr at = run->start;
    while (at < run->end) {
        mw_addr next = (at & ~(mw_addr)(HUGE_STEP_BYTES - 1)) + HUGE_STEP_BYTES;
        if (next > run->end)
            next = run->end;
        size_t first = (size_t)((at - run->start) / image->page_size);
        size_t last = (size_t)((next - run->start) / image->page_size);
        uint64_t word;
        if (read_word(source, at, image->page_size, &word) && word & WORD_FILE &&
            word & WORD_PRESENT)
            for (size_t i = first; i < last; i++)
                flags[i] |= MW_PAGE_ZERO;
        at = next;
    }
}

/* Runs of one answer → flags. A run outside the range asked for is not believed. */
static void store_runs(const struct mw_image *image, const struct mw_live_source *source,
                       const struct scan_run *runs, size_t count, mw_addr start, size_t page_count,
                       uint8_t *flags_out)
{
    mw_addr end = start + (uint64_t)page_count * image->page_size;
    for (size_t i = 0; i < count; i++) {
        const struct scan_run *run = &runs[i];
        if (run->start < start || run->end > end || run->start > run->end)
            continue;
        uint8_t *flags = flags_out + (run->start - start) / image->page_size;
        uint8_t value = flags_of_scan(run->categories);
        memset(flags, value, (size_t)((run->end - run->start) / image->page_size));
        unsigned kind = value & (MW_PAGE_HUGE | MW_PAGE_PRESENT | MW_PAGE_FILE | MW_PAGE_ZERO);
        if (kind == (MW_PAGE_HUGE | MW_PAGE_PRESENT))
            mark_huge_zero(image, source, run, flags);
    }
}

/* One call: up to SCAN_RUNS runs from start; negative errno. */
static long scan_once(const struct mw_live *live, const struct mw_live_source *source,
                      mw_addr start, mw_addr end, struct scan_run runs[SCAN_RUNS],
                      mw_addr *walked_out)
{
    uint64_t any = SCAN_PRESENT | SCAN_SWAPPED;
    uint64_t wanted = any | SCAN_FILE | SCAN_ZERO | SCAN_HUGE;
    if (live->scan_knows_guards) {
        any |= SCAN_GUARD;
        wanted |= SCAN_GUARD;
    }
    struct scan_argument argument = {
        .size = sizeof argument,
        .start = start,
        .end = end,
        .vec = (uintptr_t)runs,
        .vec_length = SCAN_RUNS,
        .category_anyof_mask = any,
        .return_mask = wanted,
    };
    long count = ioctl(source->pagemap_fd, SCAN_IOCTL, &argument);
    if (count < 0)
        return -errno;
    assert(count <= SCAN_RUNS);
    *walked_out = argument.walk_end;
    return count;
}

static enum mw_status pages_scan(const struct mw_image *image, const struct mw_live_source *source,
                                 mw_addr start, size_t page_count, uint8_t *flags_out,
                                 struct mw_error *err)
{
    const struct mw_live *live = image->state;
    mw_addr end = start + (uint64_t)page_count * image->page_size;
    struct scan_run runs[SCAN_RUNS];
    for (mw_addr at = start; at < end;) {
        mw_addr walked = at;
        long count = scan_once(live, source, at, end, runs, &walked);
        if (count == -EINTR)
            continue;
        if (count == -EFAULT) /* beyond what a process can map: nothing there */
            return MW_OK;
        if (count < 0)
            return mw_fail_errno(err, (int)-count, "cannot scan the pages of process %d",
                                 live->pid);
        store_runs(image, source, runs, (size_t)count, start, page_count, flags_out);
        if (walked <= at || walked > end)
            break;
        at = walked;
    }
    return MW_OK;
}

/* A candidate for the zero page whose frame we cannot see: does it hold only zeros? */
static bool page_is_all_zeros(struct mw_image *image, mw_addr address)
{
    uint8_t bytes[4096];
    for (uint32_t done = 0; done < image->page_size; done += (uint32_t)sizeof bytes) {
        size_t got;
        mw_live_read(image, address + done, bytes, sizeof bytes, &got);
        if (got < sizeof bytes || !mw_bytes_are_zero(bytes, sizeof bytes))
            return false;
    }
    return true;
}

static uint8_t flags_of_word(struct mw_image *image, uint64_t word, mw_addr address,
                             bool is_anonymous)
{
    const struct mw_live *live = image->state;
    if (word & WORD_GUARD)
        return MW_PAGE_GUARD;
    unsigned flags = 0;
    if (word & WORD_SWAPPED)
        flags |= MW_PAGE_SWAPPED;
    if (!(word & WORD_PRESENT))
        return (uint8_t)flags;
    flags |= MW_PAGE_PRESENT;
    if (word & WORD_FILE)
        flags |= is_anonymous ? MW_PAGE_ZERO | MW_PAGE_HUGE : MW_PAGE_FILE;
    else if (live->zero_pfn != 0)
        flags |= (word & WORD_FRAME) == live->zero_pfn ? MW_PAGE_ZERO : 0u;
    else if (!(word & WORD_EXCLUSIVE) && image->can & MW_CAN_READ &&
             page_is_all_zeros(image, address))
        flags |= MW_PAGE_ZERO;
    return (uint8_t)flags;
}

static bool is_private_anonymous(const struct mw_mapping *map)
{
    return map && mw_mapping_is_anonymous(map) && !(map->perms & MW_PERM_SHARED);
}

static enum mw_status pages_words(struct mw_image *image, const struct mw_live_source *source,
                                  mw_addr start, size_t page_count, uint8_t *flags_out,
                                  struct mw_error *err)
{
    const struct mw_live *live = image->state;
    uint64_t words[WORDS_STEP];
    const struct mw_mapping *map = NULL;
    for (size_t done = 0; done < page_count;) {
        size_t step = page_count - done < WORDS_STEP ? page_count - done : WORDS_STEP;
        mw_addr at = start + done * image->page_size;
        ssize_t got = mw_io_pread_full(source->pagemap_fd, words, step * sizeof *words,
                                       at / image->page_size * sizeof *words);
        if (got < 0)
            return mw_fail_errno(err, errno, "cannot read '/proc/%d/pagemap'", live->pid);
        size_t count = (size_t)got / sizeof *words;
        for (size_t i = 0; i < count; i++, at += image->page_size) {
            if (words[i] == 0)
                continue;
            if (!map || at < map->start || at >= map->end)
                map = mw_image_region(image, at);
            flags_out[done + i] = flags_of_word(image, words[i], at, is_private_anonymous(map));
        }
        if (count < step)
            break; /* beyond what the architecture can map */
        done += step;
    }
    return MW_OK;
}

enum mw_status mw_live_source_pages(struct mw_image *image, const struct mw_live_source *source,
                                    mw_addr start, size_t page_count, uint8_t *flags_out,
                                    struct mw_error *err)
{
    struct mw_live *live = mw_live_of(image);
    enum mw_status status = live->scan_works
                                ? pages_scan(image, source, start, page_count, flags_out, err)
                                : pages_words(image, source, start, page_count, flags_out, err);
    /* A scan of an address space that is gone finds nothing; a read of pagemap then ends at 0. */
    uint64_t word;
    if (!read_word(source, start, image->page_size, &word) && mw_live_is_gone(live))
        return mw_fail(err, MW_GONE, "process %d has exited", live->pid);
    return status;
}

enum mw_status mw_live_pages(struct mw_image *image, mw_addr start, size_t page_count,
                             uint8_t *flags_out, struct mw_error *err)
{
    struct mw_live *live = mw_live_of(image);
    if (start >> 63) /* the kernel's half: [vsyscall] has no page that counts */
        return MW_OK;
    return live->snapshot
               ? mw_live_snapshot_pages(image, start, page_count, flags_out, err)
               : mw_live_source_pages(image, &live->source, start, page_count, flags_out, err);
}

/* The frame of the zero page, from a page of our own that was read and never written. */
static uint64_t find_zero_pfn(uint32_t page_size)
{
    uint64_t word = 0;
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    volatile uint8_t *page = mmap(NULL, page_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED) {
        (void)page[0];
        uint64_t offset = (uintptr_t)page / page_size * sizeof word;
        if (mw_io_pread_full(fd, &word, sizeof word, offset) != sizeof word)
            word = 0;
        munmap((void *)page, page_size);
    }
    close(fd);
    return word & WORD_PRESENT ? word & WORD_FRAME : 0;
}

void mw_live_pages_probe_words(struct mw_image *image)
{
    struct mw_live *live = mw_live_of(image);
    live->scan_works = false;
    live->zero_pfn = find_zero_pfn(image->page_size);
}

void mw_live_pages_probe(struct mw_image *image)
{
    struct mw_live *live = mw_live_of(image);
    live->source.pagemap_fd = openat(live->memory_fd, "pagemap", O_RDONLY | O_CLOEXEC);
    if (live->source.pagemap_fd < 0 || image->regions.count == 0)
        return;
    struct scan_run runs[SCAN_RUNS];
    const struct mw_mapping *map = &image->regions.items[0];
    mw_addr walked;
    live->scan_knows_guards = true;
    long count =
        scan_once(live, &live->source, map->start, map->start + image->page_size, runs, &walked);
    if (count == -EINVAL) {
        live->scan_knows_guards = false;
        count = scan_once(live, &live->source, map->start, map->start + image->page_size, runs,
                          &walked);
    }
    live->scan_works = count >= 0;
    uint64_t word;
    if (!live->scan_works && !read_word(&live->source, map->start, image->page_size, &word))
        return;
    if (!live->scan_works)
        mw_live_pages_probe_words(image);
    image->can |= MW_CAN_PAGES;
}
