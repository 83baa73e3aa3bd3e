/* account/huge.c: zeros in transparent huge pages, by owner.
 *
 * Which pages are huge is told by PAGEMAP_SCAN (Linux 6.7); before that a huge page's worth of
 * aligned address space whose pages are all resident is taken for one, up to the mapping's
 * AnonHugePages. Of more than MW_HUGE_READ_BYTES_MAX one huge page in each group of neighbours is
 * chosen at random (the seed is fixed, two runs agree), and the sums are scaled; a sample of whole
 * huge pages has the error of their differences, not of the small pages in them.
 *
 * What is read is a target's and changes meanwhile: contents are compared with zeros and used for
 * nothing else. Before a huge page is read its residency is asked again, so that nothing is
 * mapped in the target for our sake. Linear in what is read; memory: 9 KiB. */
#include "account/huge.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/random.h"
#include "base/vec.h"

#include <assert.h>
#include <string.h>

enum {
    FLAGS_BATCH = 64 << 10,
    READ_STEP = 256 << 10,
    PAGE_BYTES_MAX = 64 << 10,
    WORTH_SHARE = 50, /* of the Rss: 2 % */
};
#define WORTH_BYTES ((uint64_t)1 << 20)
#define SCAN_PAGES_MAX ((uint64_t)64 << 20)

/* What a page-table entry of the level above the pages maps: 2 MiB, 32 MiB or 512 MiB. */
static uint64_t huge_size(const struct mw_image *image)
{
    uint64_t page = image->page_size;
    return page >= 4096 && page <= PAGE_BYTES_MAX && (page & (page - 1)) == 0 ? page / 8 * page : 0;
}

static uint64_t pages_of(const struct mw_image *image)
{
    return image->page_size / 8;
}

/* ---- choosing ---- */

struct chooser {
    struct mw_image *image;
    struct mw_huge *huge;
    uint8_t *flags; /* FLAGS_BATCH */
    uint64_t group; /* of so many huge pages one is chosen */
    uint64_t in_group, pick, random;
    uint64_t pages_left; /* to ask about */
};

static enum mw_status part_offer(struct chooser *chooser, const struct mw_mapping *map, mw_addr at)
{
    struct mw_huge *huge = chooser->huge;
    if (chooser->in_group == 0)
        chooser->pick = mw_random_below(&chooser->random, chooser->group);
    bool is_picked = chooser->in_group == chooser->pick;
    chooser->in_group = (chooser->in_group + 1) % chooser->group;
    uint64_t max = MW_HUGE_READ_BYTES_MAX / huge->size_bytes;
    if (!is_picked || huge->part_count >= (max ? max : 1))
        return MW_OK;
    void *parts = huge->parts;
    enum mw_status status = mw_vec_reserve_one(&parts, huge->part_count, &huge->part_room,
                                               sizeof *huge->parts, SIZE_MAX);
    huge->parts = parts;
    if (status == MW_OK)
        huge->parts[huge->part_count++] =
            (struct mw_huge_part){at, (map->vm_flags & MW_VM_HUGEPAGE) != 0};
    return status;
}

/* Are these the pages of one huge page? Unmarked: can they be? */
static bool is_huge(const uint8_t *flags, uint64_t count, bool is_marked)
{
    uint8_t mark = is_marked ? MW_PAGE_HUGE : 0;
    for (uint64_t i = 0; i < count; i++)
        if (!mw_page_is_resident(flags[i]) || (flags[i] & MW_PAGE_FILE) ||
            (flags[i] & mark) != mark)
            return false;
    return true;
}

/* Offer the huge pages of one mapping, no more than its counter tells of. */
static enum mw_status region_choose(struct chooser *chooser, const struct mw_mapping *map,
                                    bool is_marked, struct mw_error *err)
{
    struct mw_image *image = chooser->image;
    uint64_t size = chooser->huge->size_bytes, pages = pages_of(image);
    uint64_t wanted = mw_mapping_counter(map, MW_COUNTER_ANON_HUGE) / size;
    mw_addr first = map->start + (size - map->start % size) % size;
    enum mw_status status = MW_OK;
    for (mw_addr at = first; status == MW_OK && at >= map->start && at < map->end &&
                             map->end - at >= size && wanted > 0;) {
        uint64_t count = (map->end - at) / size;
        if (count > FLAGS_BATCH / pages)
            count = FLAGS_BATCH / pages;
        if (count * pages > chooser->pages_left)
            break;
        chooser->pages_left -= count * pages;
        status = mw_image_pages(image, at, (size_t)(count * pages), chooser->flags, err);
        if (status != MW_OK && status != MW_GONE && status != MW_NOMEM)
            return MW_OK; /* not known here: nothing is said of this mapping */
        for (uint64_t i = 0; i < count && status == MW_OK && wanted > 0; i++) {
            if (!is_huge(chooser->flags + i * pages, pages, is_marked))
                continue;
            wanted--;
            status = part_offer(chooser, map, at + i * size);
        }
        at += count * size;
    }
    return status;
}

static enum mw_status regions_choose(struct chooser *chooser, bool is_marked, struct mw_error *err)
{
    const struct mw_mapping_list *regions = &chooser->image->regions;
    enum mw_status status = MW_OK;
    chooser->huge->is_marked = is_marked;
    for (size_t i = 0; i < regions->count && status == MW_OK; i++) {
        const struct mw_mapping *map = &regions->items[i];
        if (mw_mapping_counter(map, MW_COUNTER_ANON_HUGE) == 0)
            continue;
        chooser->huge->flags_known |= map->has_vm_flags;
        status = region_choose(chooser, map, is_marked, err);
    }
    return status;
}

/* AnonHugePages of all mappings where it is worth looking into, else 0. */
static uint64_t total_worth(const struct mw_image *image)
{
    uint64_t total = 0, rss = 0;
    for (size_t i = 0; i < image->regions.count; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        uint64_t huge = mw_mapping_counter(map, MW_COUNTER_ANON_HUGE);
        if (huge > mw_mapping_size(map) ||
            __builtin_add_overflow(rss, mw_mapping_counter(map, MW_COUNTER_RSS), &rss))
            return 0; /* absurd figures of a damaged text */
        total += huge;
    }
    return total > WORTH_BYTES && total / 2 >= rss / 2 / WORTH_SHARE ? total : 0;
}

enum mw_status mw_huge_choose(struct mw_image *image, struct mw_huge *huge_out,
                              struct mw_error *err)
{
    *huge_out = (struct mw_huge){.thp.max_ptes_none = UINT64_MAX};
    unsigned needed = MW_CAN_READ | MW_CAN_PAGES | MW_CAN_COUNTERS;
    uint64_t size = huge_size(image), total = total_worth(image);
    if ((image->can & needed) != needed || size == 0 || total < size)
        return MW_OK;
    MW_FREE uint8_t *flags = mw_calloc(FLAGS_BATCH, 1);
    if (!flags)
        return mw_fail(err, MW_NOMEM, "cannot look into huge pages");
    struct mw_huge huge = {
        .size_bytes = size, .total_bytes = total, .thp.max_ptes_none = UINT64_MAX};
    uint64_t max = MW_HUGE_READ_BYTES_MAX / size, count = total / size;
    struct chooser chooser = {.image = image,
                              .huge = &huge,
                              .flags = flags,
                              .group = max ? (count + max - 1) / max : count,
                              .random = MW_RANDOM_SEED,
                              .pages_left = SCAN_PAGES_MAX};
    huge.is_sampled = chooser.group > 1;
    enum mw_status status = regions_choose(&chooser, true, err);
    if (status == MW_OK && huge.part_count == 0)
        status = regions_choose(&chooser, false, err);
    if (status == MW_OK && huge.part_count > 0) {
        huge.free_pages = mw_calloc(huge.part_count, (size_t)pages_of(image) / 8 * 2);
        if (!huge.free_pages)
            status = mw_fail(err, MW_NOMEM, "cannot look into huge pages");
    }
    if (status == MW_OK && huge.part_count > 0)
        *huge_out = huge;
    else
        mw_huge_deinit(&huge);
    return status;
}

/* ---- free blocks ---- */

static uint64_t small_size(const struct mw_huge *huge)
{
    uint64_t page = 4096;
    while (page / 8 * page < huge->size_bytes)
        page *= 2;
    return page;
}

/* Index of the first part that ends after address. */
static size_t part_lower_bound(const struct mw_huge *huge, mw_addr address)
{
    size_t low = 0, high = huge->part_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (huge->parts[middle].start + (huge->size_bytes - 1) < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Note the whole small pages of a free block that lie in what was chosen. */
static void free_block_note(struct mw_huge *huge, uint64_t page, const struct mw_block *block)
{
    if (block->size > UINT64_MAX - block->address || block->address > UINT64_MAX - (page - 1))
        return;
    mw_addr start = (block->address + page - 1) & ~(page - 1);
    mw_addr end = (block->address + block->size) & ~(page - 1);
    uint64_t pages = huge->size_bytes / page;
    for (size_t i = part_lower_bound(huge, start);
         start < end && i < huge->part_count && huge->parts[i].start < end; i++) {
        mw_addr part = huge->parts[i].start;
        uint64_t first = start > part ? (start - part) / page : 0;
        uint64_t last = end - part < huge->size_bytes ? (end - part) / page : pages;
        uint8_t *bits = huge->free_pages + i * (pages / 8);
        for (uint64_t k = first; k < last; k++)
            bits[k / 8] |= (uint8_t)(1u << (k % 8));
    }
}

static enum mw_status blocks_note(void *user, const struct mw_heap_segment *segment,
                                  const struct mw_block *blocks, size_t count)
{
    struct mw_huge *huge = user;
    uint64_t page = small_size(huge);
    (void)segment;
    for (size_t i = 0; i < count; i++) {
        if (blocks[i].size < page || blocks[i].state == MW_BLOCK_IN_USE ||
            blocks[i].state == MW_BLOCK_METADATA || blocks[i].state == MW_BLOCK_SKIPPED)
            continue;
        free_block_note(huge, page, &blocks[i]);
    }
    return MW_OK;
}

static size_t free_pages_bytes(const struct mw_huge *huge)
{
    return huge->part_count * (size_t)(huge->size_bytes / small_size(huge) / 8);
}

static void blocks_keep(void *user)
{
    struct mw_huge *huge = user;
    size_t bytes = free_pages_bytes(huge);
    memcpy(huge->free_pages + bytes, huge->free_pages, bytes);
}

static void blocks_forget(void *user)
{
    struct mw_huge *huge = user;
    size_t bytes = free_pages_bytes(huge);
    memcpy(huge->free_pages, huge->free_pages + bytes, bytes);
}

struct mw_heap_visitor mw_huge_visitor(struct mw_huge *huge)
{
    return (struct mw_heap_visitor){
        .user = huge, .blocks = blocks_note, .begin = blocks_keep, .restart = blocks_forget};
}

/* The first segment that ends behind address. */
static size_t segment_lower_bound(const struct mw_allocator *allocator, mw_addr address)
{
    size_t low = 0, high = allocator->segment_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (allocator->segments[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_unread(const struct mw_huge *huge, const struct mw_allocator *allocator,
                      mw_addr start)
{
    for (size_t i = segment_lower_bound(allocator, start);
         i < allocator->segment_count && (allocator->segments[i].start <= start ||
                                          allocator->segments[i].start - start < huge->size_bytes);
         i++)
        if (allocator->segments[i].is_estimated)
            return true;
    return false;
}

void mw_huge_leave_unread(struct mw_huge *huge, const struct mw_allocator *allocator)
{
    size_t kept = 0;
    if (huge->part_count == 0 || allocator->sampled_count == 0)
        return;
    size_t bits = (size_t)(huge->size_bytes / small_size(huge) / 8);
    for (size_t i = 0; i < huge->part_count; i++) {
        if (is_unread(huge, allocator, huge->parts[i].start))
            continue;
        huge->parts[kept] = huge->parts[i];
        memmove(huge->free_pages + kept * bits, huge->free_pages + i * bits, bits);
        kept++;
    }
    unsigned __int128 share = (unsigned __int128)huge->total_bytes * kept / huge->part_count;
    huge->total_bytes = (uint64_t)share / huge->size_bytes * huge->size_bytes;
    huge->part_count = kept;
    if (kept == 0)
        huge->size_bytes = 0; /* nothing to look into */
}

/* ---- reading ---- */

struct reader {
    struct mw_image *image;
    const struct mw_account *account;
    struct mw_huge *huge;
    uint64_t pages;             /* in a huge page */
    uint8_t *flags, *zero;      /* one each for a page of the huge page at hand */
    uint8_t *bytes;             /* READ_STEP */
    double sum, sum_of_squares; /* of the zero bytes of each huge page, outside free blocks */
    uint64_t looked;
};

static bool is_zero(const uint8_t *bytes, size_t size)
{
    return bytes[0] == 0 && bytes[size - 1] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0;
}

/* Which small pages hold zeros alone? False: it is gone, or no longer a huge page. */
static bool part_look(struct reader *reader, const struct mw_huge_part *part)
{
    struct mw_image *image = reader->image;
    size_t page = image->page_size;
    if (mw_image_pages(image, part->start, (size_t)reader->pages, reader->flags, NULL) != MW_OK ||
        !is_huge(reader->flags, reader->pages, reader->huge->is_marked))
        return false;
    for (uint64_t done = 0; done < reader->huge->size_bytes; done += READ_STEP) {
        if (mw_image_read(image, part->start + done, reader->bytes, READ_STEP) != MW_OK)
            return false;
        for (size_t at = 0; at < READ_STEP; at += page)
            reader->zero[(done + at) / page] = is_zero(reader->bytes + at, page);
    }
    return true;
}

/* Who owns the page at address? *index_io is where the last one's owner was found. */
static enum mw_category owner_of(const struct mw_account *account, mw_addr address,
                                 size_t *index_io)
{
    size_t low = 0, high = account->piece_count;
    if (*index_io < high && account->pieces[*index_io].start <= address &&
        address < account->pieces[*index_io].end)
        return account->pieces[*index_io].category;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (account->pieces[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    *index_io = low;
    return low < account->piece_count && account->pieces[low].start <= address
               ? account->pieces[low].category
               : MW_CATEGORY_UNKNOWN;
}

static void part_count(struct reader *reader, size_t index)
{
    struct mw_huge *huge = reader->huge;
    const struct mw_huge_part *part = &huge->parts[index];
    const uint8_t *free_bits = huge->free_pages + index * (reader->pages / 8);
    uint64_t page = reader->image->page_size, zeros = 0, own = 0;
    size_t piece = 0;
    for (uint64_t i = 0; i < reader->pages; i++)
        zeros += reader->zero[i];
    bool is_all_zero = zeros == reader->pages;
    for (uint64_t i = 0; i < reader->pages; i++) {
        if (!reader->zero[i])
            continue;
        if (free_bits[i / 8] >> (i % 8) & 1) {
            huge->zero_in_free_bytes += page;
        } else if (is_all_zero) {
            huge->all_zero_bytes += page;
        } else {
            huge->zero_bytes[owner_of(reader->account, part->start + i * page, &piece)] += page;
            own += page;
        }
    }
    huge->asked_bytes += part->is_asked ? own : 0;
    huge->looked_bytes += huge->size_bytes;
    reader->looked++;
    reader->sum += (double)own;
    reader->sum_of_squares += (double)own * (double)own;
}

static uint64_t scaled(const struct mw_huge *huge, uint64_t bytes)
{
    unsigned __int128 product = (unsigned __int128)bytes * huge->total_bytes;
    return (uint64_t)(product / huge->looked_bytes);
}

/* Newton's way, good to the last byte for what fits 64 bits; saves linking to libm. */
static double square_root(double value)
{
    double root = value > 1 ? value : 1;
    for (int i = 0; i < 128 && root * root > value; i++)
        root = (root + value / root) / 2;
    return root;
}

/* From the sample to all huge pages. */
static void sums_scale(const struct reader *reader)
{
    struct mw_huge *huge = reader->huge;
    double looked = (double)reader->looked, all = (double)(huge->total_bytes / huge->size_bytes);
    for (int category = 0; category < MW_CATEGORY_COUNT; category++)
        huge->zero_bytes[category] = scaled(huge, huge->zero_bytes[category]);
    huge->zero_in_free_bytes = scaled(huge, huge->zero_in_free_bytes);
    huge->all_zero_bytes = scaled(huge, huge->all_zero_bytes);
    huge->asked_bytes = scaled(huge, huge->asked_bytes);
    huge->error_bytes = huge->total_bytes;
    if (reader->looked < 2)
        return;
    double variance = (reader->sum_of_squares - reader->sum * reader->sum / looked) / (looked - 1);
    double share_left = all > looked ? 1 - looked / all : 0;
    double error = 2 * all * square_root(variance > 0 ? variance / looked * share_left : 0);
    if (error < (double)huge->total_bytes)
        huge->error_bytes = (uint64_t)error;
}

static enum mw_status parts_read(struct reader *reader, struct mw_context *context,
                                 struct mw_error *err)
{
    struct mw_huge *huge = reader->huge;
    uint64_t budget =
        MW_HUGE_READ_BYTES_MAX > huge->size_bytes ? MW_HUGE_READ_BYTES_MAX : huge->size_bytes;
    assert(huge->part_count * huge->size_bytes <= budget);
    for (size_t i = 0; i < huge->part_count; i++) {
        if (mw_context_canceled(context))
            return mw_fail(err, MW_CANCELED, "cancelled");
        if (part_look(reader, &huge->parts[i]))
            part_count(reader, i);
    }
    return MW_OK;
}

enum mw_status mw_huge_read(struct mw_image *image, const struct mw_account *account,
                            struct mw_context *context, struct mw_huge *huge, struct mw_error *err)
{
    if (huge->size_bytes == 0)
        return MW_OK;
    uint64_t pages = pages_of(image);
    MW_FREE uint8_t *flags = mw_calloc((size_t)pages, 1);
    MW_FREE uint8_t *zero = mw_calloc((size_t)pages, 1);
    MW_FREE uint8_t *bytes = mw_calloc(READ_STEP, 1);
    if (!flags || !zero || !bytes)
        return mw_fail(err, MW_NOMEM, "cannot look into huge pages");
    struct reader reader = {.image = image,
                            .account = account,
                            .huge = huge,
                            .pages = pages,
                            .flags = flags,
                            .zero = zero,
                            .bytes = bytes};
    enum mw_status status = parts_read(&reader, context, err);
    if (status != MW_OK)
        return status;
    if (huge->looked_bytes == 0)
        huge->size_bytes = 0; /* gone meanwhile: nothing is known */
    else if (huge->is_sampled)
        sums_scale(&reader);
    return MW_OK;
}

void mw_huge_deinit(struct mw_huge *huge)
{
    free(huge->parts);
    free(huge->free_pages);
    *huge = (struct mw_huge){0};
}
