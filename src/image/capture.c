/* image/capture.c: a capture as an image: the core that it is, seen through its own notes.
 *
 *   regions, counters   note 1, as of a pasted smaps
 *   residency           note 2
 *   bytes               the core's; of anonymous pages that were neither resident nor in swap
 * zeros, as the process would have read; of clean pages of files those files' process, threads the
 * core's, with what notes 3 to 5 add
 *
 * Trusts nothing: runs of pages must ascend, lines that are not understood are passed over, and
 * without sensible regions the file stays the core that it is. A read looks the page's run up:
 * O(log runs), then whole runs at a time. */
#include "image/capture.h"

#include "base/alloc.h"
#include "base/cursor.h"
#include "base/limits.h"
#include "base/vec.h"
#include "image/open.h"
#include "proc/smaps.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct page_run {
    mw_addr start, end;
    uint8_t flags;
};

struct capture {
    struct mw_image core;
    MW_VEC(struct page_run) runs; /* ascending, disjoint */
};

static struct capture *capture_of(struct mw_image *image)
{
    return image->state;
}

/* The first run that ends behind address; count when there is none. */
static size_t run_lower_bound(const struct capture *capture, mw_addr address)
{
    size_t low = 0, high = capture->runs.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (capture->runs.items[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- operations ---- */

/* Up to where the pages from address on are alike, and how they are. */
static mw_addr alike_until(const struct capture *capture, mw_addr address, mw_addr end,
                           uint8_t *flags_out)
{
    size_t at = run_lower_bound(capture, address);
    *flags_out = 0;
    if (at == capture->runs.count)
        return end;
    const struct page_run *run = &capture->runs.items[at];
    if (run->start > address)
        return run->start < end ? run->start : end;
    *flags_out = run->flags;
    return run->end < end ? run->end : end;
}

static void capture_read(struct mw_image *image, mw_addr address, void *buffer, size_t length,
                         size_t *got_out)
{
    struct capture *capture = capture_of(image);
    uint8_t *to = buffer;
    size_t done = 0;
    while (done < length) {
        const mw_addr at = address + done;
        const struct mw_mapping *map = mw_mapping_find(&image->regions, at);
        if (!map)
            break;
        uint8_t flags;
        mw_addr end = length - done < map->end - at ? at + (length - done) : map->end;
        end = alike_until(capture, at, end, &flags);
        const size_t step = (size_t)(end - at);
        const bool is_unknown = !(image->can & MW_CAN_PAGES);
        size_t got = step;
        if (is_unknown || mw_page_is_resident(flags) || !mw_mapping_is_anonymous(map))
            got = mw_image_read_some(&capture->core, at, to + done, step);
        else if (flags & (MW_PAGE_SWAPPED | MW_PAGE_GUARD))
            got = 0;
        else
            memset(to + done, 0, step);
        done += got;
        if (got < step)
            break;
    }
    *got_out = done;
}

static size_t capture_read_initial(struct mw_image *image, mw_addr address, void *buffer,
                                   size_t length)
{
    struct mw_image *core = &capture_of(image)->core;
    return core->ops->read_initial(core, address, buffer, length);
}

static enum mw_status capture_pages(struct mw_image *image, mw_addr start, size_t page_count,
                                    uint8_t *flags_out, struct mw_error *err)
{
    const struct capture *capture = capture_of(image);
    const mw_addr end = start + (mw_addr)page_count * image->page_size;
    (void)err;
    memset(flags_out, 0, page_count);
    for (size_t i = run_lower_bound(capture, start);
         i < capture->runs.count && capture->runs.items[i].start < end; i++) {
        const struct page_run *run = &capture->runs.items[i];
        mw_addr from = run->start > start ? run->start : start,
                to = run->end < end ? run->end : end;
        memset(flags_out + (from - start) / image->page_size, run->flags,
               (size_t)((to - from) / image->page_size));
    }
    return MW_OK;
}

static int capture_open_file(struct mw_image *image, const struct mw_mapping *region)
{
    struct mw_image *core = &capture_of(image)->core;
    const struct mw_mapping *of_core = mw_image_region(core, region->start);
    return of_core ? mw_image_open_file(core, of_core) : -1;
}

static void capture_close(struct mw_image *image)
{
    struct capture *capture = capture_of(image);
    if (!capture)
        return;
    mw_image_close(&capture->core);
    mw_vec_deinit(&capture->runs);
    free(capture);
    image->state = NULL;
}

static const struct mw_image_ops capture_ops = {
    .name = "capture",
    .read = capture_read,
    .read_initial = capture_read_initial,
    .pages = capture_pages,
    .open_file = capture_open_file,
    .close = capture_close,
};

/* ---- notes ---- */

static enum mw_status runs_load(struct capture *capture, const struct mw_capture_notes *notes,
                                struct mw_findings *findings, uint32_t page_size)
{
    const uint8_t *bytes = notes->notes[MW_CAPTURE_PAGES].bytes;
    struct mw_cursor cursor = mw_cursor_of(bytes, notes->notes[MW_CAPTURE_PAGES].length);
    enum mw_status status = MW_OK;
    mw_addr floor = 0;
    while (status == MW_OK) {
        mw_addr start = mw_cursor_u64(&cursor), end;
        uint64_t count = mw_cursor_u32(&cursor), flags = mw_cursor_u32(&cursor);
        if (cursor.failed)
            return MW_OK;
        bool is_sound = start % page_size == 0 && start >= floor && count > 0 && flags < 64 &&
                        !__builtin_add_overflow(start, count * page_size, &end);
        if (!is_sound) {
            mw_finding_add(findings, "capture-note", start, 0,
                           "the pages of the capture are not in order: what follows is not known");
            return MW_OK;
        }
        floor = end;
        status = mw_vec_push(&capture->runs, MW_LIMIT_ELF_SEGMENTS,
                             (struct page_run){start, end, (uint8_t)flags});
    }
    return status;
}

static const struct {
    const char *name;
    size_t offset;
} numbers[] = {
#define NUMBER(member)                                                                             \
    {                                                                                              \
#member, offsetof(struct mw_process, member)                                               \
    }
    NUMBER(cpus_online), NUMBER(cpus_allowed), NUMBER(vm_hwm),
    NUMBER(vm_peak),     NUMBER(vm_size),      NUMBER(vm_pte),
    NUMBER(limit_stack), NUMBER(limit_as),     NUMBER(max_map_count),
#undef NUMBER
};

static void fact_take(struct mw_image *image, const char *name, uint64_t value)
{
    struct mw_process *process = &image->process;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(name, numbers[i].name) == 0)
            memcpy((char *)process + numbers[i].offset, &value, sizeof value);
    if (strcmp(name, "threads") == 0 && value <= MW_LIMIT_THREADS)
        process->thread_count = value;
    if (strcmp(name, "started_at") == 0 && value <= INT64_MAX)
        process->started_at = (int64_t)value;
    if (strcmp(name, "uptime_ms") == 0)
        process->uptime_seconds = (double)value / 1000;
    if (strcmp(name, "has_settings") == 0)
        process->has_settings = value == 1;
    if (strcmp(name, "pauses") == 0)
        image->pauses.count = value;
    if (strcmp(name, "paused_ns") == 0)
        image->pauses.total_ns = value;
    if (strcmp(name, "longest_pause_ns") == 0)
        image->pauses.longest_ns = value;
}

/* Calls take for each line "key<separator>value". */
static enum mw_status lines_take(struct mw_image *image, const uint8_t *bytes, size_t length,
                                 char separator,
                                 void (*take)(struct mw_image *image, char *key, char *value))
{
    char *text = mw_strndup((const char *)bytes, length), *rest = text;
    if (!text)
        return MW_NOMEM;
    for (char *line; (line = strsep(&rest, "\n"));) {
        char *value = strchr(line, separator);
        if (!value)
            continue;
        *value++ = '\0';
        take(image, line, value);
    }
    free(text);
    return MW_OK;
}

static void fact_line(struct mw_image *image, char *key, char *value)
{
    char *end;
    errno = 0;
    uint64_t number = strtoull(value, &end, 10);
    if (end != value && *end == '\0' && errno == 0)
        fact_take(image, key, number);
}

static void thread_line(struct mw_image *image, char *key, char *value)
{
    const long tid = strtol(key, NULL, 10);
    for (size_t i = 0; i < image->thread_count; i++)
        if (image->threads[i].tid == tid) {
            snprintf(image->threads[i].name, sizeof image->threads[i].name, "%.15s", value);
            return;
        }
}

static enum mw_status notes_load(struct mw_image *image, const struct mw_capture_notes *notes)
{
    const __typeof__(notes->notes[0]) *facts = &notes->notes[MW_CAPTURE_PROCESS],
                                      *names = &notes->notes[MW_CAPTURE_THREADS],
                                      *settings = &notes->notes[MW_CAPTURE_SETTINGS];
    enum mw_status status = MW_OK;
    if (facts->bytes)
        status = lines_take(image, facts->bytes, facts->length, '=', fact_line);
    if (status == MW_OK && names->bytes)
        status = lines_take(image, names->bytes, names->length, ' ', thread_line);
    if (status == MW_OK && settings->bytes)
        status = mw_process_parse_environ(&image->process, (const char *)settings->bytes,
                                          settings->length);
    return status;
}

/* ---- opening ---- */

/* What the core lacks it lacks on purpose; that it is cut, or its notes are, matters here, too. */
static void findings_keep(struct mw_image *image, const struct mw_findings *of_core)
{
    static const char *const kinds[] = {"core-truncated", "core-note", "core-segment",
                                        "core-segment-count", "capture-note"};
    for (size_t i = 0; i < of_core->count; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            if (strcmp(of_core->items[i].kind, kinds[k]) == 0)
                mw_finding_add(&image->findings, of_core->items[i].kind,
                               of_core->items[i].first_address, of_core->items[i].bytes, "%s",
                               of_core->items[i].text);
}

static bool has_counters(const struct mw_mapping_list *regions)
{
    for (size_t i = 0; i < regions->count; i++)
        if (!mw_mapping_knows(&regions->items[i], MW_COUNTER_RSS))
            return false;
    return regions->count > 0;
}

/* The core, moved into a capture whose regions are these. */
static struct mw_image image_make(struct capture *capture, struct mw_image *core,
                                  struct mw_mapping_list regions)
{
    struct mw_image image = {
        .ops = &capture_ops,
        .state = capture,
        .kind = MW_IMAGE_CAPTURE,
        .arch = core->arch,
        .can = MW_CAN_READ | (core->can & MW_CAN_REGISTERS),
        .page_size = core->page_size,
        .regions = regions,
        .process = core->process,
        .pauses = core->pauses,
        .threads = core->threads,
        .thread_count = core->thread_count,
        .vectors = core->vectors,
        .entry = core->entry,
        .phdr = core->phdr,
        .base = core->base,
        .at_random = core->at_random,
        .vdso = core->vdso,
        .auxv_count = core->auxv_count,
    };
    memcpy(image.auxv, core->auxv, sizeof image.auxv);
    mw_process_init(&core->process);
    core->threads = NULL;
    core->thread_count = 0;
    core->vectors = (struct mw_vectors){0};
    capture->core = *core;
    *core = (struct mw_image){0};
    return image;
}

enum mw_status mw_image_capture_wrap(struct mw_image *image, const struct mw_capture_notes *notes,
                                     struct mw_error *err)
{
    const __typeof__(notes->notes[0]) *smaps = &notes->notes[MW_CAPTURE_SMAPS];
    struct mw_mapping_list regions = {0};
    if (!smaps->bytes)
        return MW_OK;
    enum mw_status status =
        mw_smaps_parse((const char *)smaps->bytes, smaps->length, &regions, &image->findings, NULL);
    if (status == MW_INVALID) {
        mw_finding_add(&image->findings, "capture-note", 0, 0,
                       "the mappings in the notes make no sense: read as a core");
        return MW_OK;
    }
    struct capture *capture = status == MW_OK ? mw_calloc(1, sizeof *capture) : NULL;
    if (!capture) {
        mw_mapping_list_deinit(&regions);
        return mw_fail(err, status == MW_OK ? MW_NOMEM : status, "out of memory for a capture");
    }
    if (notes->notes[MW_CAPTURE_PAGES].bytes)
        status = runs_load(capture, notes, &image->findings, image->page_size);
    if (status == MW_OK)
        status = notes_load(image, notes);
    if (status != MW_OK) {
        mw_mapping_list_deinit(&regions);
        mw_vec_deinit(&capture->runs);
        free(capture);
        return mw_fail(err, status, "out of memory for a capture");
    }
    struct mw_image wrapped = image_make(capture, image, regions);
    findings_keep(&wrapped, &capture->core.findings);
    if (has_counters(&wrapped.regions))
        wrapped.can |= MW_CAN_COUNTERS;
    if (notes->notes[MW_CAPTURE_PAGES].bytes)
        wrapped.can |= MW_CAN_PAGES;
    *image = wrapped;
    return MW_OK;
}
