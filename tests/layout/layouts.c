/* layouts TARGET [MIN_BYTES]: the blocks of a live process or a core, by size, with what they are.
 *
 * Prints one line for each size whose blocks in use have at least MIN_BYTES (1 MiB) together:
 *
 *     SIZE COUNT BYTES BASIS AGREE/OF NAME      BASIS: exact, likely or none
 *
 * then "blocks COUNT BYTES", "named COUNT BYTES" of all blocks one by one, and how long naming one
 * took. With --all also every name with its count and bytes, largest first. Lines are for tests to
 * read: fields are separated by one tab. */
#include "base/alloc.h"
#include "base/vec.h"
#include "heap/walker.h"
#include "image/open.h"
#include "layout/layout.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAMPLES = 128, SIZES_MAX = 1 << 16, NAMES_MAX = 1 << 14, BLOCKS_MAX = 1 << 24 };

struct block {
    mw_addr address;
    uint64_t usable_bytes;
};

struct size {
    uint64_t usable_bytes, count, bytes;
    mw_addr samples[SAMPLES];
};

struct name {
    char text[MW_LAYOUT_NAME_ROOM];
    uint64_t count, bytes;
};

static MW_VEC(struct block) blocks;
static MW_VEC(struct mw_layout_range) heaps;
static MW_VEC(struct size) sizes;
static MW_VEC(struct name) names;
static struct mw_image image;

static void need(enum mw_status status, const struct mw_error *err)
{
    if (status == MW_OK)
        return;
    fprintf(stderr, "layouts: %s\n", err && err->text[0] ? err->text : "failed");
    exit(1);
}

static enum mw_status see_segment(void *user, const struct mw_heap_segment *segment)
{
    (void)user;
    if (segment->kind == MW_SEGMENT_METAS)
        return MW_OK;
    return mw_vec_push(&heaps, BLOCKS_MAX, (struct mw_layout_range){segment->start, segment->end});
}

static enum mw_status see_blocks(void *user, const struct mw_heap_segment *segment,
                                 const struct mw_block *seen, size_t count)
{
    (void)user;
    struct mw_block_shape shape = mw_block_shape(segment->kind);
    for (size_t i = 0; i < count; i++) {
        if (seen[i].state != MW_BLOCK_IN_USE || seen[i].size <= shape.overhead_bytes)
            continue;
        enum mw_status status = mw_vec_push(&blocks, BLOCKS_MAX,
                                            (struct block){seen[i].address + shape.header_bytes,
                                                           seen[i].size - shape.overhead_bytes});
        if (status != MW_OK)
            return status;
    }
    return MW_OK;
}

static void forget(void *user)
{
    (void)user;
    blocks.count = heaps.count = 0;
}

static void walk(struct mw_context *context)
{
    struct mw_heap_visitor visitor = {.segment_begin = see_segment, .blocks = see_blocks};
    struct mw_heap_options options = {
        .visitors = &visitor, .visitor_count = 1, .sample_arenas = MW_SAMPLE_ALL};
    struct mw_findings findings = {0};
    for (size_t i = 0; mw_heap_walkers[i]; i++) {
        struct mw_allocator allocator = {0};
        struct mw_error err = {0};
        size_t before_blocks = blocks.count, before_heaps = heaps.count;
        if (mw_heap_walkers[i]->probe(&image, &allocator, &err) == MW_OK &&
            mw_heap_walkers[i]->walk) {
            enum mw_status status =
                mw_heap_walkers[i]->walk(&image, &options, context, &allocator, &findings, &err);
            if (status != MW_OK)
                blocks.count = before_blocks, heaps.count = before_heaps;
            printf("allocator\t%s\t%s\n", allocator.kind, status == MW_OK ? "walked" : err.text);
        }
        mw_allocator_deinit(&allocator);
    }
    mw_findings_deinit(&findings);
}

static int by_start(const void *left, const void *right)
{
    const struct mw_layout_range *a = left, *b = right;
    return a->start < b->start ? -1 : a->start > b->start;
}

static int by_size(const void *left, const void *right)
{
    const struct block *a = left, *b = right;
    if (a->usable_bytes != b->usable_bytes)
        return a->usable_bytes < b->usable_bytes ? -1 : 1;
    return a->address < b->address ? -1 : a->address > b->address;
}

static int by_bytes(const void *left, const void *right)
{
    const struct name *a = left, *b = right;
    return a->bytes < b->bytes ? 1 : a->bytes > b->bytes ? -1 : strcmp(a->text, b->text);
}

static void group(void)
{
    qsort(blocks.items, blocks.count, sizeof *blocks.items, by_size);
    for (size_t i = 0; i < blocks.count;) {
        size_t end = i;
        while (end < blocks.count && blocks.items[end].usable_bytes == blocks.items[i].usable_bytes)
            end++;
        struct size size = {.usable_bytes = blocks.items[i].usable_bytes, .count = end - i};
        size.bytes = size.usable_bytes * size.count;
        for (size_t k = 0; k < SAMPLES; k++) /* evenly, ends included */
            size.samples[k] = blocks.items[i + k * (end - i - 1) / (SAMPLES - 1)].address;
        need(mw_vec_push(&sizes, SIZES_MAX, size), NULL);
        i = end;
    }
}

static struct mw_layout_block block_read(mw_addr address, uint64_t usable_bytes, uint8_t *buffer)
{
    size_t length = usable_bytes < MW_LAYOUT_BYTES ? (size_t)usable_bytes : MW_LAYOUT_BYTES;
    return (struct mw_layout_block){.address = address,
                                    .bytes = buffer,
                                    .length =
                                        mw_image_read_present(&image, address, buffer, length),
                                    .usable_bytes = usable_bytes};
}

static void groups_print(struct mw_layout_scope *scope, uint64_t bytes_min)
{
    static uint8_t buffers[SAMPLES][MW_LAYOUT_BYTES];
    struct mw_layout_block samples[SAMPLES];
    uint64_t groups = 0, named = 0;
    for (size_t i = 0; i < sizes.count; i++) {
        struct size *size = &sizes.items[i];
        size_t count = size->count < SAMPLES ? (size_t)size->count : SAMPLES;
        for (size_t k = 0; k < count; k++)
            samples[k] =
                block_read(size->samples[k * SAMPLES / count], size->usable_bytes, buffers[k]);
        struct mw_layout_match match = {.name = "-"};
        bool is_named = mw_layout_group(scope, samples, count, &match);
        if (size->bytes <
            bytes_min) /* asked all the same: states tell of buffers that are larger */
            continue;
        groups++, named += is_named;
        printf("%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%s\t%zu/%zu\t%s\n", size->usable_bytes,
               size->count, size->bytes,
               !is_named                        ? "none"
               : match.basis == MW_LAYOUT_EXACT ? "exact"
                                                : "likely",
               match.agree, match.of, match.name);
    }
    printf("groups\t%" PRIu64 "\t%" PRIu64 "\n", groups, named);
}

static void name_count(const char *text, uint64_t bytes)
{
    static uint32_t table[4 * NAMES_MAX]; /* index + 1 */
    uint64_t hash = 1469598103934665603;
    for (const char *c = text; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 1099511628211;
    size_t at = hash >> 13 & (4 * NAMES_MAX - 1);
    while (table[at] && strcmp(names.items[table[at] - 1].text, text) != 0)
        at = (at + 1) & (4 * NAMES_MAX - 1);
    if (!table[at]) {
        struct name name = {.count = 0};
        snprintf(name.text, sizeof name.text, "%s", text);
        if (mw_vec_push(&names, NAMES_MAX, name) != MW_OK)
            return;
        table[at] = (uint32_t)names.count;
    }
    names.items[table[at] - 1].count++;
    names.items[table[at] - 1].bytes += bytes;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void all_print(struct mw_layout_scope *scope, bool with_names)
{
    static uint8_t buffer[MW_LAYOUT_BYTES];
    uint64_t named = 0, named_bytes = 0, bytes = 0, spent = 0;
    for (size_t i = 0; i < blocks.count; i++) {
        struct mw_layout_block block =
            block_read(blocks.items[i].address, blocks.items[i].usable_bytes, buffer);
        struct mw_layout_match match;
        uint64_t began = now_ns();
        bool is_named = mw_layout_name(scope, &block, &match);
        spent += now_ns() - began;
        bytes += block.usable_bytes;
        named += is_named;
        named_bytes += is_named ? block.usable_bytes : 0;
        name_count(is_named ? match.name : "-", block.usable_bytes);
    }
    if (with_names) {
        qsort(names.items, names.count, sizeof *names.items, by_bytes);
        for (size_t i = 0; i < names.count; i++)
            printf("name\t%" PRIu64 "\t%" PRIu64 "\t%s\n", names.items[i].count,
                   names.items[i].bytes, names.items[i].text);
    }
    printf("blocks\t%zu\t%" PRIu64 "\nnamed\t%" PRIu64 "\t%" PRIu64 "\nns\t%" PRIu64 "\n",
           blocks.count, bytes, named, named_bytes, blocks.count ? spent / blocks.count : 0);
}

int main(int argc, char **argv)
{
    bool with_names = argc > 1 && strcmp(argv[1], "--all") == 0;
    argc -= with_names, argv += with_names;
    if (argc < 2) {
        fprintf(stderr, "usage: layouts [--all] TARGET [MIN_BYTES]\n");
        return 2;
    }
    struct mw_context context;
    struct mw_error err = {0};
    mw_context_init(&context);
    struct mw_image_open_options open = {.proc_dir_fd = AT_FDCWD, .need_read = true};
    need(mw_image_open(argv[1], &open, &context, &image, &err), &err);
    need(mw_image_stop(&image, &err), &err);
    forget(NULL);
    walk(&context);
    if (!image.stopped) /* a long walk lets go */
        need(mw_image_stop(&image, &err), &err);
    struct mw_layout_scope *scope = NULL;
    qsort(heaps.items, heaps.count, sizeof *heaps.items, by_start);
    need(mw_layout_scope_open(&image, heaps.items, heaps.count, &scope, &err), &err);
    if (blocks.count > 0) {
        group();
        groups_print(scope, argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)1 << 20);
        all_print(scope, with_names);
    }
    mw_layout_scope_close(scope);
    if (image.stopped)
        mw_image_resume(&image);
    mw_image_close(&image);
    mw_vec_deinit(&blocks);
    mw_vec_deinit(&heaps);
    mw_vec_deinit(&sizes);
    mw_vec_deinit(&names);
    return 0;
}
