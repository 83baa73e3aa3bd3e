/* image/window.c: read-ahead with one buffer that never makes the target touch a page.
 *
 * A fill covers whole pages from the one that holds the address. Each page is one of:
 *   read      present or in swap; or absent in a mapping of a file or of shared memory, whose
 *             content is elsewhere than in this process's page table
 *   zeros     absent in private anonymous memory, or the zero page: known without reading
 *   the end   not mapped, not readable, a guard: what follows is not in the window
 * A fill that goes on where the last one ended doubles, from one page to the whole buffer; a
 * little gap counts as going on, because a walk from header to header steps over contents. Each
 * byte is read once in an ascending walk, so work is linear; without residency (a core) a fill is
 * one read. */
#include "image/window.h"

#include "base/alloc.h"
#include "image/near.h"

#include <assert.h>
#include <string.h>

enum {
    NEED_MAX = 64 << 10,
    GAP_BYTES = 16 << 10, /* forward jumps up to here still count as sequential */
    PAGES_MAX = MW_WINDOW_BYTES / 4096,
};

enum page_action { PAGE_END, PAGE_ZEROS, PAGE_READ };

enum mw_status mw_window_init(struct mw_window *window, struct mw_image *image)
{
    assert(image->page_size >= 4096 && image->page_size <= NEED_MAX);
    *window = (struct mw_window){.image = image, .limit = UINT64_MAX};
    window->bytes = mw_calloc(1, MW_WINDOW_BYTES);
    window->ahead = image->page_size;
    return window->bytes ? MW_OK : MW_NOMEM;
}

void mw_window_deinit(struct mw_window *window)
{
    if (!window)
        return;
    free(window->bytes);
    *window = (struct mw_window){0};
}

void mw_window_reset(struct mw_window *window, mw_addr limit)
{
    window->limit = limit;
    window->known.flags = NULL;
    window->start = 0;
    window->length = 0;
    window->ahead = window->image->page_size;
}

static bool is_private_anonymous(const struct mw_mapping *map)
{
    return mw_mapping_is_anonymous(map) && !(map->perms & MW_PERM_SHARED);
}

static enum page_action action_for(const struct mw_mapping *map, uint8_t flags)
{
    if (flags & MW_PAGE_GUARD)
        return PAGE_END;
    if (flags & MW_PAGE_ZERO)
        return PAGE_ZEROS;
    if (flags & (MW_PAGE_PRESENT | MW_PAGE_SWAPPED))
        return PAGE_READ;
    return is_private_anonymous(map) ? PAGE_ZEROS : PAGE_READ;
}

/* Read or zero one run of equal pages at offset of the buffer; the bytes that are good. */
static size_t take_run(struct mw_window *window, enum page_action action, mw_addr address,
                       size_t offset, size_t length)
{
    if (action == PAGE_END)
        return 0;
    if (action == PAGE_ZEROS) {
        memset(window->bytes + offset, 0, length);
        return length;
    }
    size_t got = mw_image_read_some(window->image, address, window->bytes + offset, length);
    window->bytes_read += got;
    return got;
}

/* What the caller has told of these pages, NULL when that is not all. */
static const uint8_t *known_flags(const struct mw_window *window, mw_addr address, size_t count)
{
    if (!window->known.flags || address < window->known.start)
        return NULL;
    uint64_t first = (address - window->known.start) / window->image->page_size;
    return first <= window->known.count && window->known.count - first >= count
               ? window->known.flags + first
               : NULL;
}

/* Pages of one mapping, by what is known of each; the bytes that are good. */
static size_t take_mapping(struct mw_window *window, const struct mw_mapping *map, mw_addr address,
                           size_t offset, size_t length)
{
    uint8_t asked[PAGES_MAX];
    size_t page_size = window->image->page_size, count = length / page_size;
    assert(count <= PAGES_MAX && length % page_size == 0);
    const uint8_t *flags = known_flags(window, address, count);
    if (!flags) {
        enum mw_status status = count <= MW_NEAR_PAGES
                                    ? mw_image_pages_near(window->image, address, count, asked)
                                    : mw_image_pages(window->image, address, count, asked, NULL);
        if (status != MW_OK)
            return take_run(window, PAGE_READ, address, offset, length);
        flags = asked;
    }
    size_t good = 0;
    for (size_t first = 0, last; first < count; first = last) {
        enum page_action action = action_for(map, flags[first]);
        for (last = first + 1; last < count && action_for(map, flags[last]) == action; last++)
            ;
        size_t run = (last - first) * page_size;
        size_t got = take_run(window, action, address + good, offset + good, run);
        good += got;
        if (got < run)
            break;
    }
    return good;
}

/* Fill the buffer from window->start with up to length bytes, mapping by mapping. */
static void take_range(struct mw_window *window, size_t length)
{
    const struct mw_mapping_list *regions = &window->image->regions;
    size_t done = 0, index = mw_mapping_lower_bound(regions, window->start);
    for (; done < length && index < regions->count; index++) {
        const struct mw_mapping *map = &regions->items[index];
        mw_addr at = window->start + done;
        if (map->start > at || map->end - at < window->image->page_size)
            break;
        uint64_t left = (map->end - at) & ~(uint64_t)(window->image->page_size - 1);
        size_t step = left < length - done ? (size_t)left : length - done;
        size_t got = window->image->can & MW_CAN_PAGES
                         ? take_mapping(window, map, at, done, step)
                         : take_run(window, PAGE_READ, at, done, step);
        done += got;
        if (got < step)
            break;
    }
    window->length = done;
}

/* How many bytes from first, a page's start, to fill for [address, address+need). */
static size_t fill_length(struct mw_window *window, mw_addr first, mw_addr address, size_t need)
{
    size_t page_size = window->image->page_size;
    bool goes_on = window->length > 0 && address >= window->start &&
                   address - window->start <= window->length + GAP_BYTES;
    window->ahead = goes_on ? window->ahead * 2 : page_size;
    if (window->ahead > MW_WINDOW_BYTES)
        window->ahead = MW_WINDOW_BYTES;
    size_t least = (size_t)(address - first) + need;
    size_t length = window->ahead > least ? window->ahead : least;
    length = (length + page_size - 1) & ~(page_size - 1);
    assert(length <= MW_WINDOW_BYTES);
    return length;
}

const uint8_t *mw_window_fill(struct mw_window *window, mw_addr address, size_t need)
{
    assert(need <= NEED_MAX);
    mw_addr end;
    if (__builtin_add_overflow(address, need, &end) || end > window->limit)
        return NULL;
    size_t page_size = window->image->page_size;
    mw_addr first = address & ~(mw_addr)(page_size - 1);
    size_t length = fill_length(window, first, address, need);
    if (window->limit - first < length) /* whole pages, but nothing that starts behind the limit */
        length = (size_t)((window->limit - first + page_size - 1) & ~(mw_addr)(page_size - 1));
    window->start = first;
    window->length = 0;
    take_range(window, length);
    if (window->length > window->limit - first)
        window->length = (size_t)(window->limit - first);
    size_t skip = (size_t)(address - first);
    if (window->length < skip || window->length - skip < need)
        return NULL;
    return window->bytes + skip;
}
