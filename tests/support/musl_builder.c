/* tests/support/musl_builder.c: heaps of mallocng, and the oracle of their walks. */
#include "musl_builder.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- building ---- */

struct mw_musl_context *musl_context(struct musl_heap *heap)
{
    return (struct mw_musl_context *)(void *)(heap->data + MUSL_CONTEXT_AT);
}

struct mw_musl_area *musl_area(struct musl_heap *heap, size_t index)
{
    return (struct mw_musl_area *)(void *)(heap->areas + index * MUSL_PAGE);
}

struct mw_musl_meta *musl_meta(struct musl_heap *heap, size_t index)
{
    return &musl_area(heap, index / MW_MUSL_METAS)->metas[index % MW_MUSL_METAS];
}

mw_addr musl_meta_address(size_t index)
{
    return MUSL_AREAS + index / MW_MUSL_METAS * MUSL_PAGE + offsetof(struct mw_musl_area, metas) +
           index % MW_MUSL_METAS * sizeof(struct mw_musl_meta);
}

void *musl_bytes(struct musl_heap *heap, mw_addr address)
{
    if (address >= MUSL_HEAP && address < MUSL_HEAP + sizeof heap->heap)
        return heap->heap + (address - MUSL_HEAP);
    if (address >= MUSL_OWN && address < MUSL_OWN + sizeof heap->own)
        return heap->own + (address - MUSL_OWN);
    if (address >= MUSL_DATA && address < MUSL_DATA + sizeof heap->data)
        return heap->data + (address - MUSL_DATA);
    assert(address >= MUSL_AREAS && address < MUSL_AREAS + sizeof heap->areas);
    return heap->areas + (address - MUSL_AREAS);
}

/* Where the next meta that was never used is, and how many are left. */
static void context_count(struct musl_heap *heap)
{
    struct mw_musl_context *ctx = musl_context(heap);
    size_t all = heap->area_count * MW_MUSL_METAS, left = all - heap->meta_count;
    assert(left <= MW_MUSL_METAS);
    ctx->avail_meta_count = left;
    ctx->avail_meta = MUSL_AREAS + (heap->area_count - 1) * MUSL_PAGE +
                      offsetof(struct mw_musl_area, metas) +
                      (MW_MUSL_METAS - left) * sizeof(struct mw_musl_meta);
}

struct musl_heap *musl_heap_new(size_t area_count)
{
    struct musl_heap *heap = calloc(1, sizeof *heap);
    assert(heap && area_count > 0 && area_count <= MUSL_AREA_PAGES);
    heap->area_count = area_count;
    memset(heap->heap_pages, MW_PAGE_PRESENT, sizeof heap->heap_pages);
    for (size_t i = 0; i < area_count; i++)
        *musl_area(heap, i) = (struct mw_musl_area){
            .check = MUSL_SECRET,
            .next = i + 1 < area_count ? MUSL_AREAS + (i + 1) * MUSL_PAGE : 0,
            .nslots = MW_MUSL_METAS,
        };
    /* All of the areas before the last are on the list of free metas. */
    heap->meta_count = (area_count - 1) * MW_MUSL_METAS;
    for (size_t i = 0; i < heap->meta_count; i++)
        musl_meta(heap, i)->next = musl_meta(heap, i)->prev = musl_meta_address(i);
    *musl_context(heap) = (struct mw_musl_context){
        .secret = MUSL_SECRET,
        .init_done = 1,
        .meta_area_head = MUSL_AREAS,
        .meta_area_tail = MUSL_AREAS + (area_count - 1) * MUSL_PAGE,
    };
    context_count(heap);
    return heap;
}

void musl_heap_free(struct musl_heap *heap)
{
    free(heap);
}

static size_t meta_take(struct musl_heap *heap, mw_addr mem, unsigned sizeclass, unsigned count,
                        uint32_t free_mask, uint64_t pages, bool is_freeable)
{
    size_t index = heap->meta_count++;
    uint64_t address = musl_meta_address(index);
    *musl_meta(heap, index) = (struct mw_musl_meta){
        .mem = mem,
        .freed_mask = free_mask,
        .bits = (uint64_t)(count - 1) | (uint64_t)is_freeable << 5 | (uint64_t)sizeclass << 6 |
                pages << 12,
    };
    memcpy(musl_bytes(heap, mem), &address, sizeof address);
    if (sizeclass < MW_MUSL_CLASSES && is_freeable)
        musl_context(heap)->usage_by_class[sizeclass] += count;
    context_count(heap);
    return index;
}

size_t musl_group(struct musl_heap *heap, unsigned sizeclass, unsigned count, uint32_t free_mask)
{
    uint64_t bytes = MW_MUSL_GROUP_HEADER + (uint64_t)count * mw_musl_class_bytes(sizeclass);
    uint64_t pages = (bytes + MUSL_PAGE - 1) / MUSL_PAGE;
    mw_addr mem = MUSL_HEAP + heap->heap_used;
    heap->heap_used += pages * MUSL_PAGE;
    assert(heap->heap_used <= sizeof heap->heap);
    return meta_take(heap, mem, sizeclass, count, free_mask, pages, true);
}

size_t musl_nest(struct musl_heap *heap, size_t outer, unsigned slot, unsigned sizeclass,
                 unsigned count, uint32_t free_mask)
{
    const struct mw_musl_meta *meta = musl_meta(heap, outer);
    uint64_t stride = mw_musl_class_bytes(mw_musl_class(meta->bits));
    return meta_take(heap, meta->mem + MW_MUSL_GROUP_HEADER + slot * stride, sizeclass, count,
                     free_mask, 0, true);
}

size_t musl_own(struct musl_heap *heap, unsigned pages)
{
    mw_addr mem = MUSL_OWN + heap->own_used;
    heap->own_used += (uint64_t)pages * MUSL_PAGE;
    assert(heap->own_used <= sizeof heap->own);
    return meta_take(heap, mem, MW_MUSL_CLASS_OWN, 1, 0, pages, true);
}

size_t musl_give(struct musl_heap *heap, unsigned sizeclass, bool is_free)
{
    mw_addr mem = MUSL_DATA + MUSL_PAGE + heap->given_used;
    heap->given_used += MW_MUSL_GROUP_HEADER + mw_musl_class_bytes(sizeclass);
    assert(heap->given_used <= MUSL_PAGE);
    return meta_take(heap, mem, sizeclass, 1, is_free, 0, false);
}

struct musl_heap *musl_heap_example(void)
{
    struct musl_heap *heap = musl_heap_new(2);
    musl_give(heap, 23, false);
    musl_give(heap, 15, true);
    size_t outer = musl_group(heap, 27, 7, 0x45);
    size_t middle = musl_nest(heap, outer, 1, 15, 3, 0x4);
    musl_nest(heap, middle, 0, 2, 9, 0x155);
    musl_nest(heap, outer, 5, 0, 30, 0x3fffffff >> 3);
    musl_group(heap, 11, 32, 0xf0f0f0f0);
    musl_group(heap, 31, 5, 0x10);
    musl_own(heap, 33);
    musl_own(heap, 40);
    musl_group(heap, 35, 1, 0);
    musl_group(heap, 20, 6, 0x3f);
    return heap;
}

void musl_open(struct musl_heap *heap, struct mw_image *image)
{
    const uint32_t rw = MW_PERM_READ | MW_PERM_WRITE;
    const char *module = heap->is_static ? "/srv/app" : "/lib/ld-musl-x86_64.so.1";
    const struct mw_image_memory_part parts[] = {
        {.mapping = {.start = MUSL_AREAS,
                     .end = MUSL_AREAS + sizeof heap->areas,
                     .perms = rw,
                     .name = "[heap]"},
         .bytes = heap->areas},
        {.mapping =
             {.start = MUSL_HEAP, .end = MUSL_HEAP + sizeof heap->heap, .perms = rw, .name = ""},
         .bytes = heap->heap,
         .pages = heap->heap_pages},
        {.mapping =
             {.start = MUSL_OWN, .end = MUSL_OWN + sizeof heap->own, .perms = rw, .name = ""},
         .bytes = heap->own},
        {.mapping = {.start = MUSL_DATA,
                     .end = MUSL_DATA + sizeof heap->data,
                     .perms = rw,
                     .inode = 7,
                     .name = module},
         .bytes = heap->data},
    };
    enum mw_status status = mw_image_open_memory(parts, sizeof parts / sizeof *parts, image, NULL);
    assert(status == MW_OK);
    (void)status;
}

/* ---- walking ---- */

static void *grown(void *items, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return items;
    *room = *room ? *room * 2 : 256;
    void *more = realloc(items, *room * size);
    if (!more)
        abort();
    return more;
}

static enum mw_status segment_begin(void *user, const struct mw_heap_segment *segment)
{
    struct musl_walked *walked = user;
    if (walked->begun_count++ != walked->ended_count)
        walked->broken = "a segment begins in another";
    walked->expected = segment->start;
    return MW_OK;
}

static enum mw_status blocks_see(void *user, const struct mw_heap_segment *segment,
                                 const struct mw_block *blocks, size_t count)
{
    struct musl_walked *walked = user;
    if (count == 0)
        walked->broken = "a batch of no blocks";
    for (size_t i = 0; i < count; i++) {
        if (blocks[i].address != walked->expected || blocks[i].size == 0 ||
            blocks[i].size > segment->end - blocks[i].address)
            walked->broken = "blocks do not tile their segment";
        walked->expected = blocks[i].address + blocks[i].size;
        walked->blocks =
            grown(walked->blocks, walked->block_count, &walked->block_room, sizeof *walked->blocks);
        walked->blocks[walked->block_count++] = blocks[i];
    }
    return MW_OK;
}

static enum mw_status segment_end(void *user, const struct mw_heap_segment *segment)
{
    struct musl_walked *walked = user;
    if (walked->expected != segment->end)
        walked->broken = "blocks do not reach the end of their segment";
    walked->ended =
        grown(walked->ended, walked->ended_count, &walked->ended_room, sizeof *walked->ended);
    walked->ended[walked->ended_count++] = *segment;
    return MW_OK;
}

void musl_walk(struct mw_image *image, struct musl_walked *walked)
{
    struct mw_heap_visitor visitor = {
        .user = walked,
        .segment_begin = segment_begin,
        .blocks = blocks_see,
        .segment_end = segment_end,
    };
    const struct mw_heap_options options = {
        .visitors = &visitor, .visitor_count = 1, .classify_content = true};
    walked->status = mw_musl_walker.probe(image, &walked->allocator, &walked->err);
    if (walked->status == MW_OK)
        walked->status = mw_musl_walker.walk(image, &options, NULL, &walked->allocator,
                                             &walked->findings, &walked->err);
}

void musl_walked_deinit(struct musl_walked *walked)
{
    mw_allocator_deinit(&walked->allocator);
    mw_findings_deinit(&walked->findings);
    free(walked->blocks);
    free(walked->ended);
    *walked = (struct musl_walked){0};
}

/* ---- judging ---- */

static bool is_private(const struct mw_mapping *map)
{
    return map && !(map->perms & MW_PERM_SHARED);
}

static bool is_malloc_page(const struct mw_image *image, mw_addr at)
{
    const uint32_t needed = MW_PERM_READ | MW_PERM_WRITE;
    const struct mw_mapping *map = mw_image_region(image, at);
    return is_private(map) && (map->perms & needed) == needed;
}

/* Where the mapping behind at begins, at most end. */
static mw_addr next_mapping(const struct mw_image *image, mw_addr at, mw_addr end)
{
    for (size_t i = 0; i < image->regions.count; i++)
        if (image->regions.items[i].start > at)
            return image->regions.items[i].start < end ? image->regions.items[i].start : end;
    return end;
}

/* Its ends are malloc's. Between them are a program's guards and holes, too; never a file or shared
 * memory. */
static const char *place_wrong(const struct mw_image *image, const struct mw_heap_segment *segment,
                               uint64_t *hole_bytes)
{
    if (!is_malloc_page(image, segment->start) || !is_malloc_page(image, segment->end - 1))
        return "a segment that begins or ends in no writable memory";
    for (mw_addr at = segment->start, next; at < segment->end; at = next) {
        const struct mw_mapping *map = mw_image_region(image, at);
        next = map ? map->end : next_mapping(image, at, segment->end);
        *hole_bytes += map ? 0 : next - at;
        if (map &&
            (!is_private(map) || !(map->perms & MW_PERM_WRITE || mw_mapping_is_anonymous(map))))
            return "a segment over memory that cannot be malloc's";
    }
    return *hole_bytes > (uint64_t)64 << 30 ? "segments of more than 64 GiB of holes" : NULL;
}

static uint64_t resident_bytes(struct mw_image *image, mw_addr start, mw_addr end)
{
    uint64_t sum = 0;
    for (mw_addr at = start, next; at < end; at = next) {
        uint8_t flags = 0;
        if (!mw_image_region(image, at)) {
            next = next_mapping(image, at, end);
            continue;
        }
        next = (at & ~(mw_addr)(MUSL_PAGE - 1)) + MUSL_PAGE;
        if (next > end)
            next = end;
        if (mw_image_pages(image, at & ~(mw_addr)(MUSL_PAGE - 1), 1, &flags, NULL) == MW_OK &&
            mw_page_is_resident(flags))
            sum += next - at;
    }
    return sum;
}

static const char *segments_wrong(struct mw_image *image, const struct musl_walked *walked)
{
    const struct mw_allocator *a = &walked->allocator;
    uint64_t hole_bytes = 0;
    if (a->segment_count != walked->ended_count)
        return "segments that no visitor saw";
    for (size_t i = 0; i < a->segment_count; i++) {
        const struct mw_heap_segment *s = &a->segments[i];
        const struct mw_split *split = &s->split;
        if (s->start >= s->end || (i > 0 && s->start < a->segments[i - 1].end))
            return "segments overlap";
        const char *wrong = place_wrong(image, s, &hole_bytes);
        if (wrong)
            return wrong;
        if (split->in_use_bytes + split->free_bytes + split->metadata_bytes != s->end - s->start)
            return "a segment that is not conserved";
        if ((image->can & MW_CAN_PAGES) &&
            split->in_use_rss + split->free_rss + split->metadata_rss !=
                resident_bytes(image, s->start, s->end))
            return "resident bytes that are not those of the pages";
    }
    return NULL;
}

static const char *totals_wrong(const struct musl_walked *walked)
{
    const struct mw_allocator *a = &walked->allocator;
    uint64_t bytes[MW_BLOCK_SKIPPED + 1] = {0}, counts[MW_BLOCK_SKIPPED + 1] = {0}, system = 0;
    for (size_t i = 0; i < walked->block_count; i++) {
        bytes[walked->blocks[i].state] += walked->blocks[i].size;
        counts[walked->blocks[i].state]++;
        if (walked->blocks[i].state == MW_BLOCK_METADATA &&
            walked->blocks[i].size > MW_MUSL_PAGE_MAX)
            return "metadata of more than a page at once";
    }
    for (size_t i = 0; i < a->segment_count; i++)
        system += a->segments[i].end - a->segments[i].start;
    if (a->in_use_bytes != bytes[MW_BLOCK_IN_USE] || a->in_use_count != counts[MW_BLOCK_IN_USE] ||
        a->free_bytes != bytes[MW_BLOCK_FREE] || a->free_count != counts[MW_BLOCK_FREE] ||
        a->metadata_bytes != bytes[MW_BLOCK_METADATA] ||
        a->skipped_bytes != bytes[MW_BLOCK_SKIPPED])
        return "totals are not the sums over the blocks";
    if (a->system_bytes != system ||
        a->in_use_bytes + a->free_bytes + a->metadata_bytes + a->skipped_bytes != system)
        return "bytes are not conserved";
    uint64_t in_use = 0, free_count = 0;
    for (size_t i = 0; i < a->size_count; i++) {
        if (i > 0 && a->sizes[i].size_bytes <= a->sizes[i - 1].size_bytes)
            return "sizes do not ascend";
        in_use += a->sizes[i].in_use_count;
        free_count += a->sizes[i].free_count;
    }
    if (in_use != a->in_use_count || free_count != a->free_count)
        return "the sizes are not those of the blocks";
    if (a->skipped_bytes > 0 && a->reconciled)
        return "reconciled in spite of damage";
    return a->reconciled || walked->findings.count > 0 ? NULL : "not reconciled, and nothing said";
}

const char *musl_meaning_wrong(struct mw_image *image, const struct musl_walked *walked)
{
    if (walked->broken)
        return walked->broken;
    if (walked->status == MW_NOT_FOUND)
        return NULL;
    if (walked->status != MW_OK)
        return walked->err.code == walked->status ? NULL : "an error without its text";
    const char *wrong = segments_wrong(image, walked);
    return wrong ? wrong : totals_wrong(walked);
}
