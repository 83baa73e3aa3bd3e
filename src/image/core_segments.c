/* image/core_segments.c: ELF header and program headers of a core.
 *
 * e_phnum has 16 bits. With 65,535 segments and more it is PN_XNUM and section 0 has the number;
 * the kernel writes that section behind all memory, so a cut file has lost it: then the headers go
 * on to where the first content begins.
 *
 * Trusts nothing: at most MW_LIMIT_ELF_SEGMENTS headers are read, in steps; what is behind the end
 * of the file is counted, not believed. References: elf(5); Linux 6.18 fs/binfmt_elf.c
 * fill_extnum_info(). */
#include "image/core.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/vec.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

enum { HEADERS_STEP = 512 };

/* An ELF file that we do not read: say what it is. */
static enum mw_status check_header(const struct mw_elf_header *header, const char *name,
                                   struct mw_error *err)
{
    if (header->class_ != ELFCLASS64)
        return mw_fail(err, MW_UNSUPPORTED, "'%s' is a 32-bit ELF file; only 64-bit cores are read",
                       name);
    if (header->data != ELFDATA2LSB)
        return mw_fail(err, MW_UNSUPPORTED, "'%s' is a big-endian ELF file", name);
    if (header->type != ET_CORE) {
        mw_fail(err, MW_UNSUPPORTED, "'%s' is a program or a library, not a core", name);
        mw_error_hint(err, "memwhy PID of a process that runs it, or a core: gcore PID");
        return MW_UNSUPPORTED;
    }
    if (header->machine != EM_X86_64 && header->machine != EM_AARCH64)
        return mw_fail(err, MW_UNSUPPORTED, "'%s' is of machine %u; x86-64 and aarch64 are read",
                       name, header->machine);
    if (header->segment_bytes != MW_ELF_SEGMENT_BYTES)
        return mw_fail(err, MW_CORRUPT, "'%s' has program headers of %u bytes", name,
                       header->segment_bytes);
    return MW_OK;
}

/* Header `index`; false where the file ends. */
static bool read_segment(const struct mw_core *core, const struct mw_elf_header *header,
                         uint64_t index, struct mw_elf_segment *segment_out)
{
    uint8_t bytes[MW_ELF_SEGMENT_BYTES];
    uint64_t offset;
    if (__builtin_add_overflow(header->segments_offset, index * sizeof bytes, &offset))
        return false;
    ssize_t got = mw_io_pread_full(core->fd, bytes, sizeof bytes, offset);
    return mw_elf_segment_parse(bytes, got > 0 ? (size_t)got : 0, segment_out) == MW_OK;
}

/* Section 0 is lost: headers go on up to the first content. At most `step` of them are looked at,
 * since a file's first segments begin first. */
static uint32_t guess_segment_count(const struct mw_core *core, const struct mw_elf_header *header)
{
    uint64_t first = UINT64_MAX;
    for (uint64_t i = 0; i < HEADERS_STEP; i++) {
        struct mw_elf_segment segment;
        if (!read_segment(core, header, i, &segment))
            break;
        if (segment.offset > header->segments_offset && segment.offset < first)
            first = segment.offset;
    }
    if (first == UINT64_MAX)
        return PN_XNUM;
    uint64_t count = (first - header->segments_offset) / MW_ELF_SEGMENT_BYTES;
    return count < PN_XNUM ? PN_XNUM : count > UINT32_MAX ? UINT32_MAX : (uint32_t)count;
}

static enum mw_status resolve_segment_count(struct mw_image *image, const char *name,
                                            struct mw_elf_header *header, struct mw_error *err)
{
    const struct mw_core *core = mw_core_of(image);
    if (header->segment_count == PN_XNUM) {
        uint8_t section[MW_ELF_SECTION_BYTES];
        ssize_t got = mw_io_pread_full(core->fd, section, sizeof section, header->sections_offset);
        if (got == sizeof section)
            header->segment_count = mw_elf_section_info(section, sizeof section);
        else {
            header->segment_count = guess_segment_count(core, header);
            mw_finding_add(&image->findings, "core-segment-count", 0, 0,
                           "the number of segments is lost with the end of the file: it is taken "
                           "to be %u",
                           header->segment_count);
        }
    }
    if (header->segment_count > MW_LIMIT_ELF_SEGMENTS)
        return mw_fail(err, MW_LIMIT, "'%s' announces %u segments", name, header->segment_count);
    return MW_OK;
}

static enum mw_status load_header(struct mw_image *image, const char *name,
                                  struct mw_elf_header *header_out, struct mw_error *err)
{
    uint8_t bytes[MW_ELF_HEADER_BYTES];
    ssize_t got = mw_io_pread_full(mw_core_of(image)->fd, bytes, sizeof bytes, 0);
    if (got < 0)
        return mw_fail_errno(err, errno, "cannot read '%s'", name);
    enum mw_status status = mw_elf_header_parse(bytes, (size_t)got, header_out);
    if (status == MW_INVALID)
        return mw_fail(err, MW_UNSUPPORTED, "'%s' is not an ELF file", name);
    if (status == MW_TRUNCATED)
        return mw_fail(err, status, "'%s' is cut within its ELF header: %zd of %zu bytes are there",
                       name, got, sizeof bytes);
    status = check_header(header_out, name, err);
    return status == MW_OK ? resolve_segment_count(image, name, header_out, err) : status;
}

/* -- the headers ----------------------------------------------------------------------------- */

static enum mw_status keep_segment(struct mw_core_segments *segments,
                                   const struct mw_elf_segment *segment)
{
    uint64_t end;
    if (segment->file_bytes > 0 &&
        !__builtin_add_overflow(segment->offset, segment->file_bytes, &end) && end > segments->end)
        segments->end = end;
    size_t room = sizeof segments->notes / sizeof *segments->notes;
    if (segment->type == PT_NOTE && segments->note_count < room)
        segments->notes[segments->note_count++] = *segment;
    if (segment->type != PT_LOAD || segment->memory_bytes == 0)
        return MW_OK;
    return mw_vec_push(segments, MW_LIMIT_ELF_SEGMENTS, *segment);
}

static void say_headers_are_cut(struct mw_image *image, struct mw_core_segments *segments,
                                size_t done)
{
    size_t total = segments->header.segment_count;
    segments->lost_headers = total - done;
    mw_finding_add(&image->findings, "core-truncated", 0,
                   segments->lost_headers * MW_ELF_SEGMENT_BYTES,
                   "the file ends after %zu of %zu program headers: what memory the others have is "
                   "missing, and not counted here",
                   done, total);
}

enum mw_status mw_core_segments_load(struct mw_image *image, const char *name,
                                     struct mw_core_segments *segments, struct mw_error *err)
{
    const struct mw_core *core = mw_core_of(image);
    enum mw_status status = load_header(image, name, &segments->header, err);
    uint8_t bytes[HEADERS_STEP * MW_ELF_SEGMENT_BYTES];
    size_t total = segments->header.segment_count;
    for (size_t done = 0; status == MW_OK && done < total;) {
        size_t step = total - done < HEADERS_STEP ? total - done : HEADERS_STEP;
        uint64_t offset;
        if (__builtin_add_overflow(segments->header.segments_offset, done * MW_ELF_SEGMENT_BYTES,
                                   &offset))
            offset = core->file_size;
        ssize_t got = mw_io_pread_full(core->fd, bytes, step * MW_ELF_SEGMENT_BYTES, offset);
        size_t whole = got > 0 ? (size_t)got / MW_ELF_SEGMENT_BYTES : 0;
        for (size_t i = 0; i < whole && status == MW_OK; i++) {
            struct mw_elf_segment segment;
            status = mw_elf_segment_parse(bytes + i * MW_ELF_SEGMENT_BYTES, MW_ELF_SEGMENT_BYTES,
                                          &segment);
            if (status == MW_OK)
                status = keep_segment(segments, &segment);
        }
        if (status != MW_OK)
            return mw_fail(err, status, "out of memory for %zu segments", total);
        done += whole;
        if (whole < step) {
            say_headers_are_cut(image, segments, done);
            break;
        }
    }
    return status;
}

/* -- gaps ------------------------------------------------------------------------------------ */

static int compare_segments(const void *a, const void *b)
{
    const struct mw_elf_segment *left = a, *right = b;
    if (left->address != right->address)
        return left->address < right->address ? -1 : 1;
    return (left->type == PT_NULL) - (right->type == PT_NULL); /* gaps last */
}

static void sort(struct mw_core_segments *segments)
{
    if (segments->count > 0)
        qsort(segments->items, segments->count, sizeof *segments->items, compare_segments);
}

static enum mw_status add_gap(struct mw_core_segments *segments, mw_addr start, mw_addr end,
                              uint64_t page_size)
{
    if (start >= end || (start | end) & (page_size - 1))
        return MW_OK;
    const struct mw_elf_segment gap = {
        .type = PT_NULL, .address = start, .memory_bytes = end - start};
    return mw_vec_push(segments, MW_LIMIT_ELF_SEGMENTS, gap);
}

/* One pass over both, in ascending order: what is left of each file's range. */
enum mw_status mw_core_segments_add_gaps(struct mw_core_segments *segments,
                                         const struct mw_core_notes *notes, uint64_t page_size,
                                         struct mw_findings *findings)
{
    sort(segments);
    enum mw_status status = MW_OK;
    size_t known = segments->count, next = 0;
    mw_addr covered = 0; /* everything below is done */
    for (size_t i = 0; i < notes->file_count && status == MW_OK; i++) {
        mw_addr at = notes->files[i].start > covered ? notes->files[i].start : covered;
        mw_addr end = notes->files[i].end;
        for (; at < end && next < known && segments->items[next].address < end; next++) {
            mw_addr start = segments->items[next].address, stop;
            if (__builtin_add_overflow(start, segments->items[next].memory_bytes, &stop) ||
                stop <= at)
                continue;
            if (status == MW_OK)
                status = add_gap(segments, at, start, page_size);
            at = stop;
            if (stop >= end)
                break; /* it may reach into the next file's range */
        }
        if (status == MW_OK)
            status = add_gap(segments, at, end, page_size);
        covered = at > end ? at : end > covered ? end : covered;
    }
    if (status == MW_LIMIT)
        mw_finding_add(findings, "core-segment", 0, 0, "the core names more mappings than we keep");
    sort(segments);
    return status == MW_LIMIT ? MW_OK : status;
}
