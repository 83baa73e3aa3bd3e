/* graph/references.c: a linear search for pointers into a few blocks.
 *
 * Blocks are sorted; a word outside the span from the first to the last is dismissed by one
 * compare, others by a binary search over at most 256 entries. Pages that are not in memory are
 * zeros and are not read. */
#include "graph/references.h"

#include "base/alloc.h"
#include "base/cleanup.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { STEP = 256 << 10, LOOK_PAGES = 32 << 10 };
static const uint64_t SPAN_MAX = (uint64_t)1 << 40; /* of mappings, their empty parts included */

struct search {
    mw_addr starts[MW_REFERENCES_BLOCKS_MAX]; /* ascending */
    bool found[MW_REFERENCES_BLOCKS_MAX];
    size_t count;
    uint64_t usable;
    mw_addr low;   /* first start */
    uint64_t span; /* to the end of the last block */
};

static int address_compare(const void *a, const void *b)
{
    mw_addr left = *(const mw_addr *)a, right = *(const mw_addr *)b;
    return left < right ? -1 : left > right;
}

static void search_init(struct search *search, const mw_addr *starts, size_t count,
                        uint64_t usable_bytes)
{
    memset(search, 0, sizeof *search);
    search->count = count;
    search->usable = usable_bytes;
    memcpy(search->starts, starts, count * sizeof *starts);
    qsort(search->starts, count, sizeof *search->starts, address_compare);
    search->low = search->starts[0];
    search->span = search->starts[count - 1] + search->usable - search->low;
}

/* The block that word points into, or count. */
static size_t block_of(const struct search *search, mw_addr word)
{
    size_t low = 0, high = search->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (search->starts[middle] <= word)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || word - search->starts[low - 1] >= search->usable)
        return search->count;
    return low - 1;
}

static void words_search(struct search *search, const uint64_t *words, size_t count, mw_addr at)
{
    for (size_t i = 0; i < count; i++) {
        if (words[i] - search->low >= search->span)
            continue;
        size_t block = block_of(search, words[i]);
        if (block == search->count)
            continue;
        mw_addr place = at + 8 * i;
        if (place - search->starts[block] >= search->usable) /* not from within itself */
            search->found[block] = true;
    }
}

/* Memory that the program may keep pointers in: what is writable, and anonymous memory that was
 * made read-only. Shared memory is left out, though a program could keep an index there. */
static bool region_holds_pointers(const struct mw_mapping *map)
{
    if (!(map->perms & MW_PERM_READ) || (map->perms & MW_PERM_SHARED) || (map->vm_flags & MW_VM_IO))
        return false;
    return (map->perms & MW_PERM_WRITE) || mw_mapping_is_anonymous(map);
}

/* What reading it costs. Without residency all of it is read. */
static uint64_t region_bytes(const struct mw_image *image, const struct mw_mapping *map)
{
    bool is_sparse = (image->can & MW_CAN_PAGES) && mw_mapping_knows(map, MW_COUNTER_RSS);
    return is_sparse ? mw_mapping_counter(map, MW_COUNTER_RSS) : mw_mapping_size(map);
}

/* [start, end), which is there. False: it breaks off, as in a core, which has the beginning of a
 * mapping only. */
static bool range_search(struct mw_image *image, mw_addr start, mw_addr end, struct search *search,
                         uint64_t *buffer)
{
    for (mw_addr at = start; at < end; at += STEP) {
        size_t want = end - at < STEP ? (size_t)(end - at) : STEP;
        size_t got = mw_image_read_present(image, at, buffer, want);
        words_search(search, buffer, got / 8, at);
        if (got < want && image->kind != MW_IMAGE_LIVE)
            return false;
    }
    return true;
}

static bool is_there(uint8_t flags)
{
    return flags & (MW_PAGE_PRESENT | MW_PAGE_SWAPPED);
}

/* The runs of pages that are there: a mapping may be large and empty. */
static enum mw_status region_search(struct mw_image *image, const struct mw_mapping *map,
                                    struct search *search, uint64_t *buffer,
                                    struct mw_context *context)
{
    uint8_t flags[LOOK_PAGES];
    uint64_t page = image->page_size;
    for (mw_addr at = map->start, next; at < map->end; at = next) {
        uint64_t left = map->end - at, count = left / page < LOOK_PAGES ? left / page : LOOK_PAGES;
        next = count > 0 ? at + count * page : map->end;
        if (mw_context_canceled(context))
            return MW_CANCELED;
        if (count == 0 || mw_image_pages(image, at, (size_t)count, flags, NULL) != MW_OK) {
            if (!range_search(image, at, next, search, buffer))
                return MW_TRUNCATED;
            continue;
        }
        for (size_t first = 0, last; first < count; first = last) {
            for (last = first + 1; last < count && is_there(flags[last]) == is_there(flags[first]);)
                last++;
            if (is_there(flags[first]))
                (void)range_search(image, at + first * page, at + last * page, search, buffer);
        }
    }
    return MW_OK;
}

enum mw_status mw_references_search(struct mw_image *image, const mw_addr *starts, size_t count,
                                    uint64_t size_bytes, uint64_t usable_bytes, uint64_t bytes_max,
                                    struct mw_context *context, struct mw_references *out,
                                    struct mw_error *err)
{
    if (count == 0 || count > MW_REFERENCES_BLOCKS_MAX || usable_bytes < 8)
        return mw_fail(err, MW_INVALID, "no blocks to search for");
    MW_FREE uint64_t *buffer = mw_calloc(STEP, 1);
    if (!buffer)
        return mw_fail(err, MW_NOMEM, "out of memory searching for references");
    struct search search;
    search_init(&search, starts, count, usable_bytes);
    uint64_t looked_at = 0; /* read or not */
    struct mw_references result = {.size_bytes = size_bytes, .sampled = count, .is_complete = true};
    for (size_t i = 0; i < image->regions.count; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        if (!region_holds_pointers(map))
            continue;
        uint64_t bytes = region_bytes(image, map), span = mw_mapping_size(map);
        if (bytes > bytes_max - result.bytes_read || span > SPAN_MAX - looked_at) {
            result.is_complete = false;
            continue;
        }
        result.bytes_read += bytes;
        looked_at += span;
        enum mw_status status = region_search(image, map, &search, buffer, context);
        if (status == MW_TRUNCATED && image->kind != MW_IMAGE_LIVE)
            result.is_complete = false; /* bytes that a core lacks may hold the pointers */
        else if (status != MW_OK && status != MW_TRUNCATED)
            return mw_fail(err, status, "canceled");
        mw_context_progress(context, "looking for references", i, image->regions.count);
    }
    for (size_t i = 0; i < count; i++)
        result.referenced += search.found[i];
    assert(result.referenced <= result.sampled);
    *out = result;
    return MW_OK;
}
