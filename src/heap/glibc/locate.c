/* heap/glibc/locate.c: finding main_arena and mp_ without a symbol.
 *
 * Trusts nothing. For every 8-aligned address A in a writable private file mapping, A is taken for
 * main_arena.bins: then *(A + 2048) is main_arena.next, which points at main_arena itself (one
 * arena) or into a thread heap whose chain of arenas leads back. A hit is accepted only when all
 * 127 bins are zero, self-linked or linked to a chunk that points back at them; a few may be torn,
 * as they are for a moment in every malloc. When no ring closes (a core that lacks heaps), bins
 * that are all in use and sound are taken for good. Bins that are all zero (malloc was not called)
 * prove little: they are taken last.
 *
 *   main_arena ─ … ─ top (bins-16) ─ bins[254] ─ binmap ─ next (bins+2048) ─ … ─ system_mem
 *
 * mp_ lies in the same mapping; it is recognised by the ranges of its fields. Linear in the size
 * of the mappings of ELF data (libc's is 24 KiB); a big data segment is read in steps. */
#include "base/cleanup.h"
#include "base/io.h"
#include "base/limits.h"
#include "heap/glibc/internal.h"

#include <stdio.h>
#include <string.h>

enum {
    SCAN_STEP = 256 << 10,
    NEXT_AFTER_BINS = 2048,
    LINKS_MAX = 1 << 20, /* followed over all candidates: a hostile target may show many */
    TORN_MAX = 4, /* bins that a thread in the middle of malloc, or damage, leaves half linked */
};
static const uint64_t SCAN_MAX = (uint64_t)256 << 20; /* of one mapping */
/* Of all: the segments of a small core may lie over each other in the file. */
static const uint64_t SCAN_MAX_IN_ALL = (uint64_t)8 << 30;

static uint64_t word_at(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

/* A word where a candidate points: anywhere. What is not in memory is no arena, and is not read. */
static bool word_read(struct mw_glibc *glibc, mw_addr address, uint64_t *word_out)
{
    return mw_image_read_present(glibc->image, address, word_out, sizeof *word_out) ==
           sizeof *word_out;
}

uint16_t mw_glibc_heap_info_size(struct mw_glibc *glibc, mw_addr arena)
{
    static const uint16_t sizes[] = {32, 48};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t ar_ptr;
        if ((arena & 0xfffff) == sizes[i] && word_read(glibc, arena - sizes[i], &ar_ptr) &&
            ar_ptr == arena)
            return sizes[i];
    }
    return 0;
}

/* Follow next from a thread arena until it leaves the thread heaps. bins_offset is that of the
 * layout under test. Returns the arena at which the chain left, 0 when it is broken. */
static mw_addr chain_end(struct mw_glibc *glibc, mw_addr arena, uint16_t bins_offset)
{
    struct mw_glibc_cycle cycle = {0};
    while (glibc->links_tried++ < LINKS_MAX && !mw_glibc_cycle_step(&cycle, arena)) {
        if (mw_glibc_heap_info_size(glibc, arena) == 0)
            return arena;
        if (!word_read(glibc, arena + bins_offset + NEXT_AFTER_BINS, &arena))
            return 0;
    }
    return 0;
}

/* The 127 pairs of links at `bytes`, which are what address bins holds. *used_out: how many are
 * not zero; *torn_out: to how many of these nothing points back, at most TORN_MAX of all. */
static bool bins_are_plausible(struct mw_glibc *glibc, const uint8_t *bytes, mw_addr bins,
                               size_t *used_out, size_t *torn_out)
{
    *used_out = *torn_out = 0;
    for (size_t i = 0; i < MW_GLIBC_BINS; i++) {
        mw_addr bin = bins + i * 16 - 16; /* as a chunk: fd and bk are 16 bytes in */
        uint64_t fd = word_at(bytes + 16 * i), bk = word_at(bytes + 16 * i + 8), back;
        if (fd == 0 && bk == 0)
            continue;
        ++*used_out;
        if (fd == bin && bk == bin)
            continue;
        if (glibc->links_tried++ >= LINKS_MAX)
            return false;
        bool is_sound = word_read(glibc, fd + 24, &back) && back == bin &&
                        word_read(glibc, bk + 16, &back) && back == bin;
        if (!is_sound && ++*torn_out > TORN_MAX)
            return false;
    }
    return *torn_out == 0 || *used_out == MW_GLIBC_BINS;
}

/* Is A main_arena.bins under the layout with this bins offset? Its bins are known to be sound. */
static bool ring_closes(struct mw_glibc *glibc, mw_addr bins, mw_addr next, uint16_t bins_offset)
{
    mw_addr main_arena = bins - bins_offset;
    if (next == main_arena)
        return true;
    uint16_t info = mw_glibc_heap_info_size(glibc, next);
    if (info == 0 || chain_end(glibc, next, bins_offset) != main_arena)
        return false;
    glibc->heap_info_size = info;
    return true;
}

/* May system_mem be at `at` of the main arena's bytes? It holds the top chunk, its maximum follows
 * and attached_threads, a small number, is in front. */
static bool system_mem_fits(const uint8_t *state, size_t at, uint64_t top_size, bool has_attached)
{
    const uint64_t most = (uint64_t)1 << 44; /* less than pointers */
    uint64_t now = word_at(state + at), max = word_at(state + at + 8);
    return now >= top_size && now <= max && max < most &&
           (!has_attached || word_at(state + at - 8) < 128 << 10);
}

enum fit { FITS, SHIFTED, CONTRADICTS, NOT_TOLD };

/* Is what comes behind the bins where the row says? If not, and it fits somewhere else, this is no
 * release that the row is of. If it fits nowhere it is damage: the walk will say so. */
static enum fit state_fit(struct mw_glibc *glibc, const struct mw_glibc_state_layout *row)
{
    enum { BEHIND = 96 }; /* bytes behind next in which it may be */
    uint8_t state[MW_GLIBC_STATE_MAX + BEHIND];
    uint64_t head, next_free = row->bins + NEXT_AFTER_BINS + 8;
    size_t want = next_free + BEHIND + 16;
    if (mw_image_read_present(glibc->image, glibc->main_arena, state, want) != want)
        return NOT_TOLD;
    mw_addr top = word_at(state + row->bins - 16);
    if (top == glibc->main_arena + row->bins - 16 || !word_read(glibc, top + 8, &head) ||
        (head & ~(uint64_t)7) < MW_GLIBC_MINSIZE)
        return NOT_TOLD; /* not used yet, or not to be had */
    uint64_t size = head & ~(uint64_t)7;
    if (system_mem_fits(state, row->system_mem, size, mw_glibc_has(row->attached_threads)))
        return FITS;
    for (size_t at = next_free + 8; at < next_free + BEHIND; at += 8)
        if (at != row->system_mem && word_at(state + at) % glibc->image->page_size == 0 &&
            system_mem_fits(state, at, size, at > next_free + 8))
            return SHIFTED;
    return CONTRADICTS;
}

/* 2.17-2.22 and 2.23-2.26 share the offset of bins, and attached_threads is where the older one has
 * system_mem: at least top_pad (128 KiB), or whole pages. It need not be whole pages: the heap of a
 * static program begins anywhere. */
const struct mw_glibc_state_layout *mw_glibc_state_layout_pick(struct mw_glibc *glibc,
                                                               mw_addr main_arena, uint16_t bins)
{
    const struct mw_glibc_state_layout *first = NULL;
    for (size_t i = 0; i < mw_glibc_state_layout_count; i++) {
        const struct mw_glibc_state_layout *row = &mw_glibc_state_layouts[i];
        uint64_t words[2]; /* attached_threads, system_mem */
        if (row->bins != bins)
            continue;
        if (!first)
            first = row;
        if (!mw_glibc_has(row->attached_threads) ||
            mw_image_read(glibc->image, main_arena + row->attached_threads, words, sizeof words) !=
                MW_OK)
            continue;
        bool is_count = words[0] < 128 << 10 && words[0] % glibc->image->page_size != 0;
        if (is_count || (words[0] == 0 && words[1] != 0))
            return row;
    }
    return first;
}

static bool arena_take(struct mw_glibc *glibc, mw_addr bins, uint16_t offset)
{
    glibc->par = NULL;
    glibc->main_arena = bins - offset;
    glibc->state = mw_glibc_state_layout_pick(glibc, glibc->main_arena, offset);
    return glibc->state != NULL && state_fit(glibc, glibc->state) != SHIFTED;
}

static const uint16_t bins_offsets[] = {112, 24, 104};
enum { BINS_OFFSETS = sizeof bins_offsets / sizeof *bins_offsets };

/* A main arena was found: is it the one that is wanted? *skip are not. */
static bool arena_is_wanted(struct mw_glibc *glibc, mw_addr bins, uint16_t offset, unsigned *skip)
{
    if (!arena_take(glibc, bins, offset))
        return false;
    return *skip == 0 || (*skip)-- == 0;
}

/* What may be main_arena.bins when nothing better is found; 0: none. */
struct second_best {
    mw_addr torn;  /* sound and all in use, but the ring does not close */
    mw_addr empty; /* the ring closes, and all are zero */
    uint16_t empty_offset;
    unsigned skip; /* so many that are good are those of other libcs */
};

/* Test every 8-aligned address of [start, start + length), whose bytes are given. */
static bool scan_for_arena(struct mw_glibc *glibc, const uint8_t *bytes, size_t length,
                           mw_addr start, struct second_best *second)
{
    for (size_t at = 0; at + NEXT_AFTER_BINS + 8 <= length; at += 8) {
        mw_addr next = word_at(bytes + at + NEXT_AFTER_BINS);
        mw_addr bins = start + at;
        /* One compare for most words: it must be near, or end in 32 or 48. */
        bool is_near = bins - next <= 112 && bins - next >= 24;
        bool in_heap = (next & 0xfffff) == 32 || (next & 0xfffff) == 48;
        size_t used, torn;
        if ((!is_near && !in_heap) || !bins_are_plausible(glibc, bytes + at, bins, &used, &torn))
            continue;
        for (size_t i = 0; i < BINS_OFFSETS; i++) {
            if ((is_near && bins - next != bins_offsets[i]) ||
                !ring_closes(glibc, bins, next, bins_offsets[i]))
                continue;
            if (used > 0 && arena_is_wanted(glibc, bins, bins_offsets[i], &second->skip))
                return true;
            if (used == 0 && second->empty == 0) {
                second->empty = bins;
                second->empty_offset = bins_offsets[i];
            }
        }
        if (in_heap && used == MW_GLIBC_BINS && torn == 0 && second->torn == 0)
            second->torn = bins;
    }
    return false;
}

/* A writable private file mapping. Cores without names: any small one. */
bool mw_glibc_region_may_hold_arena(const struct mw_mapping *map)
{
    const uint32_t wanted = MW_PERM_READ | MW_PERM_WRITE;
    if ((map->perms & (wanted | MW_PERM_SHARED)) != wanted)
        return false;
    return map->name[0] == '/' || (map->name[0] == '\0' && mw_mapping_size(map) <= (1 << 20));
}

static bool scan_region(struct mw_glibc *glibc, const struct mw_mapping *map, uint8_t *buffer,
                        uint64_t *budget, struct second_best *second)
{
    mw_addr end = mw_mapping_size(map) > SCAN_MAX ? map->start + SCAN_MAX : map->end;
    for (mw_addr at = map->start; at<end && * budget> 0; at += SCAN_STEP) {
        size_t want = SCAN_STEP + NEXT_AFTER_BINS + 8;
        if (want > end - at)
            want = (size_t)(end - at);
        size_t got = mw_image_read_present(glibc->image, at, buffer, want);
        *budget -= got < *budget ? got : *budget;
        if (scan_for_arena(glibc, buffer, got, at, second))
            return true;
        if (got < want)
            break;
    }
    return false;
}

/* A libc's file name first: the other mappings are rarely needed. */
static bool name_is_libc(const char *name)
{
    const char *base = strrchr(name, '/');
    return base && strncmp(base, "/libc", 5) == 0 && (base[5] == '.' || base[5] == '-');
}

size_t mw_glibc_libcs_mapped(const struct mw_image *image)
{
    size_t count = 0;
    for (size_t i = 0; i < image->regions.count; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        if (!name_is_libc(map->name) || !mw_glibc_region_may_hold_arena(map))
            continue;
        count += strcmp(strrchr(map->name, '/'), "/libc.so") != 0; /* else musl's */
    }
    return count;
}

/* 0, or a power of two that a huge page may have. */
static bool is_page_size(const struct mw_glibc *glibc, uint64_t size)
{
    return size == 0 || ((size & (size - 1)) == 0 && size >= glibc->image->page_size &&
                         size <= (uint64_t)1 << 34);
}

/* Then sbrk_base is set, whether the memory came from brk or from mmap. */
static bool main_arena_has_memory(struct mw_glibc *glibc)
{
    uint64_t system_mem;
    return word_read(glibc, glibc->main_arena + glibc->state->system_mem, &system_mem) &&
           system_mem != 0;
}

/* Whoever changes one of these has no_dyn_threshold set by that; freeing a mapped block sets the
 * trim threshold to twice the other. */
static bool par_thresholds_agree(const uint8_t *at, int32_t mmaps_max, bool is_fixed)
{
    enum { DEFAULT = 128 << 10, MMAPS_MAX = 65536 };
    uint64_t trim = word_at(at), top_pad = word_at(at + 8), mmap_threshold = word_at(at + 16);
    return is_fixed || (top_pad == DEFAULT && mmaps_max == MMAPS_MAX &&
                        (trim == DEFAULT || trim == 2 * mmap_threshold));
}

/* The range checks that make a place mp_; every field read from the one buffer. */
static bool par_is_plausible(struct mw_glibc *glibc, const uint8_t *at,
                             const struct mw_glibc_par_layout *row)
{
    uint64_t mmap_threshold = word_at(at + 16), arena_test = word_at(at + 24);
    uint64_t arena_max = word_at(at + 32);
    int32_t counts[4]; /* n_mmaps, n_mmaps_max, max_n_mmaps, no_dyn_threshold */
    memcpy(counts, at + row->n_mmaps, sizeof counts);
    uint64_t mem = word_at(at + row->mmapped_mem), max_mem = word_at(at + row->mmapped_mem + 8);
    mw_addr sbrk_base = word_at(at + row->sbrk_base);
    /* 2.43 and 2.44 leave 16 bytes in mmapped_mem for each mremap when the last block has gone. */
    bool may_drift = row->bins == 24;
    if (arena_test == 0 || arena_test > 1 << 20 || mmap_threshold > ((uint64_t)1 << 40) ||
        arena_max > 1 << 20 || counts[0] < 0 || counts[1] < 0 || counts[2] < counts[0] ||
        (counts[3] & ~1) || mem > max_mem || mem % 16 || (counts[0] > 0 && mem == 0) ||
        (counts[0] == 0 && mem > 0 && !may_drift) ||
        (!may_drift && mem % glibc->image->page_size != 0) ||
        !par_thresholds_agree(at, counts[1], counts[3] != 0))
        return false;
    if (sbrk_base != 0 ? !mw_image_region(glibc->image, sbrk_base) : main_arena_has_memory(glibc))
        return false;
    if (mw_glibc_has(row->tcache)) {
        uint64_t bins = word_at(at + row->tcache), max_bytes = word_at(at + row->tcache + 8);
        uint64_t count = word_at(at + row->tcache + 16);
        if (bins == 0 || bins > 4096 || max_bytes > 1 << 24 || max_bytes < 8 || count > UINT16_MAX)
            return false;
    }
    if (mw_glibc_has(row->thp_pagesize)) {
        uint64_t thp = word_at(at + row->thp_pagesize), hp = word_at(at + row->thp_pagesize + 8);
        if (!is_page_size(glibc, thp) || !is_page_size(glibc, hp))
            return false;
    }
    return true;
}

/* How many fields hold their default: decides between several places that pass. */
static unsigned par_score(const uint8_t *at, const struct mw_glibc_par_layout *row)
{
    int32_t mmaps_max;
    memcpy(&mmaps_max, at + row->n_mmaps + 4, sizeof mmaps_max);
    unsigned score = 0;
    score += word_at(at + 24) == 8;
    score += mmaps_max == 65536;
    score += word_at(at) >= 128 << 10;
    score += word_at(at + 8) == 128 << 10;
    score += word_at(at + 16) >= 128 << 10;
    score += word_at(at + row->sbrk_base) != 0; /* plausible means: mapped */
    if (mw_glibc_has(row->tcache)) {
        uint64_t count = word_at(at + row->tcache + 16);
        score += word_at(at + row->tcache) == 64 ? 2 : 0;
        score += count == 7 || count == 16 ? 2 : 0;
    }
    return score;
}

/* mp_ in the given bytes, for the family of glibc->state. How sure it is: 0 when not found. */
static unsigned scan_for_par(struct mw_glibc *glibc, const uint8_t *bytes, size_t length,
                             mw_addr start)
{
    unsigned best = 2; /* fewer defaults than this is not evidence */
    glibc->par = NULL;
    for (size_t r = 0; r < mw_glibc_par_layout_count; r++) {
        const struct mw_glibc_par_layout *row = &mw_glibc_par_layouts[r];
        if (row->bins != glibc->state->bins)
            continue;
        for (size_t at = 0; at + row->size <= length; at += 8) {
            if (!par_is_plausible(glibc, bytes + at, row))
                continue;
            unsigned score = par_score(bytes + at, row);
            if (score <= best)
                continue;
            best = score;
            glibc->par = row;
            glibc->mp = start + at;
        }
    }
    return glibc->par ? best : 0;
}

/* mp_ lies in the same mapping as main_arena, near it where the mapping is large (a static
 * program's data). */
static unsigned par_find(struct mw_glibc *glibc, const struct mw_mapping *map, uint8_t *buffer)
{
    size_t size = mw_mapping_size(map) > SCAN_STEP ? SCAN_STEP : (size_t)mw_mapping_size(map);
    mw_addr start = map->start;
    if (mw_mapping_size(map) > SCAN_STEP && glibc->main_arena - start > SCAN_STEP / 2)
        start = (glibc->main_arena - SCAN_STEP / 2) & ~(mw_addr)7;
    return scan_for_par(glibc, buffer, mw_image_read_present(glibc->image, start, buffer, size),
                        start);
}

/* Does the ring close when bins are as far into an arena as in no release? */
static bool ring_closes_elsewhere(struct mw_glibc *glibc, mw_addr bins, mw_addr next)
{
    enum { OFFSET_MAX = 256 };
    for (uint16_t offset = 16; offset <= OFFSET_MAX; offset += 8)
        if (chain_end(glibc, next, offset) == bins - offset)
            return true;
    return false;
}

/* No ring closes: the family is the one whose mp_ is found, and on a tie the one in whose place the
 * next arena has its bins. */
static const struct mw_mapping *torn_take(struct mw_glibc *glibc, mw_addr bins, uint8_t *buffer)
{
    const struct mw_mapping *map = mw_image_region(glibc->image, bins);
    unsigned best = 0;
    uint16_t best_offset = 0;
    uint64_t next, bin;
    if (bins == 0 || !map ||
        mw_image_read_u64(glibc->image, bins + NEXT_AFTER_BINS, &next) != MW_OK ||
        ring_closes_elsewhere(glibc, bins, next))
        return NULL;
    for (size_t i = 0; i < BINS_OFFSETS; i++) {
        mw_addr last = next + bins_offsets[i] + 16 * (MW_GLIBC_BINS - 1);
        if (!arena_take(glibc, bins, bins_offsets[i]) ||
            state_fit(glibc, glibc->state) == CONTRADICTS)
            continue;
        unsigned score = 2 * par_find(glibc, map, buffer);
        if (score > 0 && mw_image_read_u64(glibc->image, last, &bin) == MW_OK && bin == last - 16)
            score++;
        if (score > best)
            best = score, best_offset = bins_offsets[i];
    }
    return best > 0 && arena_take(glibc, bins, best_offset) ? map : NULL;
}

/* malloc was not called yet: zero bins, with mp_ beside them. */
static const struct mw_mapping *empty_take(struct mw_glibc *glibc, const struct second_best *second,
                                           uint8_t *buffer)
{
    const struct mw_mapping *map = mw_image_region(glibc->image, second->empty);
    if (second->empty == 0 || !map || !arena_take(glibc, second->empty, second->empty_offset))
        return NULL;
    return par_find(glibc, map, buffer) > 0 ? map : NULL;
}

/* Look through libcs by name from the highest address down, since the loader maps the first one
 * above those of namespaces of their own; or through all other data. */
static const struct mw_mapping *regions_scan(struct mw_glibc *glibc, bool is_libc, uint8_t *buffer,
                                             struct second_best *second)
{
    const struct mw_mapping_list *regions = &glibc->image->regions;
    uint64_t budget = SCAN_MAX_IN_ALL;
    for (size_t i = 0; i < regions->count; i++) {
        const struct mw_mapping *map = &regions->items[is_libc ? regions->count - 1 - i : i];
        if (mw_glibc_region_may_hold_arena(map) && name_is_libc(map->name) == is_libc &&
            scan_region(glibc, map, buffer, &budget, second))
            return map;
    }
    return NULL;
}

enum mw_status mw_glibc_locate(struct mw_glibc *glibc, struct mw_error *err)
{
    uint8_t *buffer = mw_calloc(SCAN_STEP + NEXT_AFTER_BINS + 8, 1);
    if (!buffer)
        return mw_fail(err, MW_NOMEM, "out of memory");
    const struct mw_mapping *found = NULL;
    struct second_best second = {.skip = glibc->ordinal};
    bool is_first = glibc->ordinal == 0; /* others are a libc by name, and whole */
    for (int pass = 0; pass < (is_first ? 2 : 1) && !found; pass++) {
        found = regions_scan(glibc, pass == 0, buffer, &second);
        if (!found && is_first) /* before the ring of a thread arena that a tear made to close */
            found = torn_take(glibc, second.torn, buffer);
    }
    if (!found && is_first)
        found = empty_take(glibc, &second, buffer);
    if (found)
        par_find(glibc, found, buffer);
    free(buffer);
    if (found || (is_first && mw_glibc_locate_orphans(glibc))) /* a second: the same heaps twice */
        return MW_OK;
    return mw_fail(err, MW_NOT_FOUND, "no glibc malloc in this image");
}

/* "…stable release version 2.36." → 2.36 */
static bool banner_parse(const char *text, size_t length, char version[32], unsigned *minor)
{
    static const char mark[] = "release version 2.";
    const char *hit = memmem(text, length, mark, sizeof mark - 1);
    if (!hit)
        return false;
    const char *digits = hit + sizeof mark - 1;
    size_t left = length - (size_t)(digits - text), count = 0;
    unsigned value = 0;
    while (count < left && count < 3 && digits[count] >= '0' && digits[count] <= '9')
        value = value * 10 + (unsigned)(digits[count++] - '0');
    if (count == 0)
        return false;
    snprintf(version, 32, "2.%u", value);
    *minor = value;
    return true;
}

/* Search one stretch of the file behind libc's read-only data. */
static bool banner_in_file(struct mw_glibc *glibc, int fd, const struct mw_mapping *map,
                           char *buffer, char version[32])
{
    uint64_t size = mw_mapping_size(map) > SCAN_MAX ? SCAN_MAX : mw_mapping_size(map);
    for (uint64_t at = 0; at < size; at += SCAN_STEP) {
        size_t want = size - at < SCAN_STEP + 64 ? (size_t)(size - at) : SCAN_STEP + 64;
        ssize_t got = mw_io_pread_full(fd, buffer, want, map->offset + at);
        if (got <= 0)
            return false;
        if (banner_parse(buffer, (size_t)got, version, &glibc->version_minor))
            return true;
    }
    return false;
}

/* The same in the target's memory, pages that are there already only: reading others would map
 * them in the target. */
static bool banner_in_memory(struct mw_glibc *glibc, const struct mw_mapping *map, char *buffer,
                             char version[32])
{
    uint64_t size = mw_mapping_size(map) > SCAN_MAX ? SCAN_MAX : mw_mapping_size(map);
    for (uint64_t at = 0; at < size; at += SCAN_STEP) {
        size_t want = size - at < SCAN_STEP + 64 ? (size_t)(size - at) : SCAN_STEP + 64;
        size_t got = mw_image_read_present(glibc->image, map->start + at, buffer, want);
        if (banner_parse(buffer, got, version, &glibc->version_minor))
            return true;
        if (got < want)
            return false;
    }
    return false;
}

void mw_glibc_read_version(struct mw_glibc *glibc, char version[32])
{
    version[0] = '\0';
    const struct mw_mapping *data = mw_image_region(glibc->image, glibc->main_arena);
    if (!data || data->name[0] == '\0')
        return;
    MW_CLOSE int fd = mw_image_open_file(glibc->image, data);
    MW_FREE char *buffer = mw_calloc(SCAN_STEP + 64, 1);
    const struct mw_mapping_list *regions = &glibc->image->regions;
    for (size_t i = 0; i < regions->count && buffer; i++) {
        const struct mw_mapping *map = &regions->items[i];
        if ((map->perms & (MW_PERM_READ | MW_PERM_WRITE)) != MW_PERM_READ ||
            map->inode != data->inode || strcmp(map->name, data->name) != 0)
            continue;
        if (fd >= 0 ? banner_in_file(glibc, fd, map, buffer, version)
                    : banner_in_memory(glibc, map, buffer, version))
            return;
    }
}
