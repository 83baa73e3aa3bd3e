/* heap/glibc/lists.c: which chunks that look in use hang on a list: a fastbin or a thread's tcache.
 *
 * The lists lead through memory in the order in which chunks were freed, which is any. So they are
 * not followed there: the readers of spans kept every chunk in use of a size that is cached whose
 * first word can be a link, with where that leads (few of the live ones: since 2.32 a link is
 * mangled with its own address), and the lists are followed through these while the target runs.
 * What they lead through is marked. A search by address takes a few steps; all lists together are
 * followed for a few times as many steps as there are links.
 *
 * A tcache's list is believed when it is as long as its count says; a struct that no thread's TLS
 * leads to is one when that holds of all its lists. Of a heap that was read under several stops
 * there is no moment at which its lists hold. There a list counts for what was read in the rounds
 * in which it was seen, as far as it leads; and of an arena that changed in between, a chunk counts
 * as on a fastbin when its mangled link leads to another such chunk of its size, or is the last. */
#include "heap/glibc/scan.h"

#include "base/workers.h"

#include <string.h>

struct follow {
    struct mw_glibc_scan *scan;
    struct mw_findings *findings;
    uint64_t steps_left;
};

/* A link and when it was read. */
struct found {
    struct mw_glibc_link *link; /* NULL: none */
    unsigned round;
};

static struct mw_glibc_scanned *segment_of(const struct mw_glibc_scan *scan, mw_addr address)
{
    size_t low = 0, high = scan->segments.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (scan->segments.items[middle].segment.public.end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == scan->segments.count || scan->segments.items[low].segment.public.start > address)
        return NULL;
    return &scan->segments.items[low];
}

/* [*low_out, *high_out] of the links hold the first one at or behind unit. Small chunks are spread
 * about evenly in most heaps, so it is looked for around where it would be then. */
static void links_narrow(const struct mw_glibc_span *span, uint64_t unit, size_t *low_out,
                         size_t *high_out)
{
    enum { NEAR = 16 };
    size_t low = span->link_skip, high = span->link_count;
    uint64_t units = (span->pages_end - span->pages_start) / 16 + 1;
    size_t guess = unit < units ? low + (size_t)((high - low) * unit / units) : high;
    for (size_t reach = NEAR; reach < high - low; reach *= 4) {
        size_t from = guess - low > reach ? guess - reach : low;
        size_t to = high - guess > reach ? guess + reach : high;
        if ((from == low || span->links[from].unit < unit) &&
            (to == high || span->links[to].unit >= unit)) {
            low = from;
            high = to;
            break;
        }
    }
    *low_out = low;
    *high_out = high;
}

/* The link of the chunk at address. */
static struct found link_of(const struct mw_glibc_scan *scan, mw_addr address)
{
    const struct found none = {NULL, 0};
    const struct mw_glibc_scanned *scanned = address % 16 ? NULL : segment_of(scan, address);
    if (!scanned || scanned->spans_done == 0 || address < scanned->spans.items[0].pages_start)
        return none;
    size_t index = (size_t)((address - scanned->spans.items[0].pages_start) / scanned->span_bytes);
    if (index >= scanned->spans_done)
        return none;
    const struct mw_glibc_span *span = &scanned->spans.items[index];
    uint64_t unit = (address - span->pages_start) / 16;
    size_t low, high;
    links_narrow(span, unit, &low, &high);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (span->links[middle].unit < unit)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == span->link_count || span->links[low].unit != unit)
        return none;
    return (struct found){&span->links[low], span->round};
}

/* Damage can lead two threads to one link: flags are read and set atomically. */
static unsigned flags_of(const struct mw_glibc_link *link)
{
    return __atomic_load_n(&link->size, __ATOMIC_RELAXED);
}

static void link_mark(struct mw_glibc_link *link, uint16_t flag)
{
    __atomic_store_n(&link->size, (uint16_t)(flags_of(link) | flag), __ATOMIC_RELAXED);
}

static unsigned size_units(const struct mw_glibc_link *link)
{
    return flags_of(link) & MW_GLIBC_LINK_SIZE;
}

static bool step_take(struct follow *follow, mw_addr at)
{
    if (follow->steps_left > 0) {
        follow->steps_left--;
        return true;
    }
    mw_finding_add(follow->findings, "lists-endless", at, 0,
                   "the lists of cached blocks are longer than malloc's memory");
    return false;
}

/* -- fastbins -------------------------------------------------------------------------------- */

static void fastbin_follow(const struct mw_glibc_scan *scan, mw_addr chunk, unsigned bin,
                           struct mw_findings *findings)
{
    while (chunk != 0) { /* each step marks one */
        struct mw_glibc_link *link = link_of(scan, chunk).link;
        if (!link || size_units(link) != bin + 2 || flags_of(link) & MW_GLIBC_LINK_FASTBIN) {
            mw_finding_add(findings, "fastbin-torn", chunk, 0,
                           "a fastbin leads to something that is no chunk of its size");
            return;
        }
        link_mark(link, MW_GLIBC_LINK_FASTBIN);
        chunk = mw_glibc_link_next(link);
    }
}

/* Mark by what the links of one segment say themselves. */
static void links_judge(const struct mw_glibc_scan *scan, const struct mw_glibc_scanned *scanned)
{
    for (size_t k = 0; k < scanned->spans_done; k++) {
        const struct mw_glibc_span *span = &scanned->spans.items[k];
        for (size_t n = span->link_skip; n < span->link_count; n++) {
            struct mw_glibc_link *link = &span->links[n];
            mw_addr next = mw_glibc_link_next(link);
            const struct mw_glibc_link *other = next ? link_of(scan, next).link : NULL;
            if (size_units(link) < MW_GLIBC_FASTBINS + 2 &&
                (next == 0 || (other && size_units(other) == size_units(link))))
                link_mark(link, MW_GLIBC_LINK_FASTBIN);
        }
    }
}

static void arena_follow(const struct mw_glibc_scan *scan,
                         const struct mw_glibc_scanned_arena *arena, struct mw_findings *findings)
{
    struct mw_findings ignored = {0}; /* between two stops lists change: that is no damage */
    if (arena->part == MW_GLIBC_PART_ESTIMATED)
        return;
    if (arena->has_moved && arena->safe_linking) {
        for (size_t i = 0; i < scan->segments.count; i++)
            if (scan->segments.items[i].arena == arena->arena.public.address)
                links_judge(scan, &scan->segments.items[i]);
        return;
    }
    for (unsigned bin = 0; bin < MW_GLIBC_FASTBINS; bin++)
        fastbin_follow(scan, arena->arena.fastbins[bin], bin,
                       arena->has_moved ? &ignored : findings);
    mw_findings_deinit(&ignored);
}

/* A thread that follows the fastbins of arenas; a list stays in its arena, so that no two threads
 * mark the same link, unless damage leads both there: then one finds it marked, or both mark it. */
struct follower {
    const struct mw_glibc_scan *scan;
    size_t first, step; /* of the arenas, which are its own */
    struct mw_findings findings;
};

static void follower_run(void *argument)
{
    struct follower *follower = argument;
    const struct mw_glibc_scan *scan = follower->scan;
    for (size_t i = follower->first; i < scan->arenas.count; i += follower->step)
        arena_follow(scan, &scan->arenas.items[i], &follower->findings);
}

static void fastbins_follow(const struct mw_glibc_scan *scan, uint64_t links,
                            const struct mw_context *context, struct mw_findings *findings)
{
    enum { LINKS_WORTH_IT = 100000 };
    struct follower followers[MW_WORKERS_MAX];
    size_t count = links < LINKS_WORTH_IT ? 1 : mw_workers_allowed(context);
    for (size_t i = 0; i < count; i++)
        followers[i] = (struct follower){.scan = scan, .first = i, .step = count};
    mw_workers_run(follower_run, followers, sizeof *followers, count);
    for (size_t i = 0; i < count; i++) {
        mw_findings_merge(findings, &followers[i].findings);
        mw_findings_deinit(&followers[i].findings);
    }
}

/* -- tcaches --------------------------------------------------------------------------------- */

static bool size_fits(const struct mw_glibc_link *link, unsigned bin)
{
    return bin < 64 ? size_units(link) == bin + 2 : size_units(link) > 1040 / 16;
}

/* Is address in an arena that the sample left out? */
static bool is_unread(const struct mw_glibc_scan *scan, mw_addr address)
{
    const struct mw_glibc_scanned *scanned = segment_of(scan, address);
    return scanned && scanned->segment.public.is_estimated;
}

/* How a list was followed. */
struct followed {
    uint64_t length;
    bool has_ended; /* with NULL, or where nothing was read that could speak against it */
};

/* The blocks of a list, at most `most`, as far as it leads; marks those that were read while it was
 * like this. */
static struct followed list_follow(struct follow *follow, const struct mw_glibc_tcache_list *list,
                                   uint64_t most, bool is_marking)
{
    mw_addr at = list->head;
    uint64_t length = 0;
    for (; at != 0 && length < most && step_take(follow, at); length++) {
        struct found found = link_of(follow->scan, at - 16);
        if (!found.link && is_unread(follow->scan, at - 16))
            return (struct followed){list->count, true};
        if (!found.link || !size_fits(found.link, list->bin))
            return (struct followed){length, false};
        if (is_marking && found.round >= list->first_round && found.round <= list->last_round)
            link_mark(found.link, MW_GLIBC_LINK_TCACHE);
        at = mw_glibc_link_next(found.link);
    }
    return (struct followed){length, at == 0};
}

/* Is the list as long as its count says? One of a struct that is surely one may differ by a block:
 * its thread was stopped between putting it there, or taking it, and counting. */
static bool list_holds(struct follow *follow, const struct mw_glibc_tcache_list *list)
{
    const uint64_t slack = list->is_sure;
    struct followed followed = list_follow(follow, list, list->count + slack, false);
    return followed.has_ended && followed.length + slack >= list->count;
}

/* The lists of one struct. */
static void struct_follow(struct follow *follow, const struct mw_glibc_tcache_list *lists,
                          size_t count)
{
    bool is_one_moment = follow->scan->round == 1, all_hold = true;
    for (size_t i = 0; i < count && !lists->is_sure && all_hold; i++)
        all_hold = list_holds(follow, &lists[i]);
    if (!all_hold)
        return;
    for (size_t i = 0; i < count; i++) {
        if (!is_one_moment)
            list_follow(follow, &lists[i], lists[i].count, true);
        else if (list_holds(follow, &lists[i]))
            list_follow(follow, &lists[i], lists[i].count + (uint64_t)lists[i].is_sure, true);
        else
            mw_finding_add(follow->findings, "tcache-torn", lists[i].owner, 0,
                           "a thread's tcache contradicts itself; its blocks count as in use");
    }
}

static uint64_t links_count(const struct mw_glibc_scan *scan)
{
    uint64_t count = 0;
    for (size_t i = 0; i < scan->segments.count; i++)
        for (size_t k = 0; k < scan->segments.items[i].spans_done; k++)
            count += scan->segments.items[i].spans.items[k].link_count;
    return count;
}

void mw_glibc_lists_follow(struct mw_glibc_scan *scan, const struct mw_context *context,
                           struct mw_findings *findings)
{
    enum { PASSES = 4 };
    uint64_t links = links_count(scan);
    /* A list that leads to where nothing was read takes a step, too. */
    uint64_t steps = PASSES * (links + scan->tcache_lists.count) + 4096;
    struct follow follow = {scan, findings, steps * scan->round};
    fastbins_follow(scan, links, context, findings);
    const struct mw_glibc_tcache_list *lists = scan->tcache_lists.items;
    for (size_t first = 0, last; first < scan->tcache_lists.count; first = last) {
        for (last = first + 1;
             last < scan->tcache_lists.count && lists[last].owner == lists[first].owner;)
            last++;
        struct_follow(&follow, lists + first, last - first);
    }
}
