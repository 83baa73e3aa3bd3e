/* verdict/mapped.c: what the list of mappings says by itself: too many of one kind, and devices.
 *
 * A kind is mappings of one size and one name. Stacks and their guards, memory of allocators and of
 * runtimes are no kind: there are many of them for a reason, and other verdicts explain them. One
 * look cannot tell a leak of mappings from a program that needs them, so the verdict is `possible`.
 * It is called growing where the kind holds a quarter of the RSS, or where the mappings come near
 * what the kernel allows; else it is a candidate of class needed, like a size of blocks.
 *
 * O(n log n) in mappings, from MANY_MIN of them on. */
#include "verdict/build.h"

#include "base/alloc.h"
#include "base/cleanup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MANY_MIN = 2000,      /* of one kind */
    MANY_SHARE = 3,       /* and a third of all mappings */
    GROWING_PERCENT = 25, /* of the RSS */
    DEVICE_PERCENT = 5,
    PINNED_PERCENT = 10,
};

/* ---- mapping-leak ---- */

/* A mapping that may be of a kind. */
struct loose {
    const struct mw_mapping *map;
    uint64_t rss;
    enum mw_category category;
};

struct kind {
    const struct mw_mapping *map; /* the first of it */
    size_t count;
    uint32_t perms[2]; /* the first two that differ; the second may be the first */
    uint64_t rss[MW_CATEGORY_COUNT];
};

/* The file that .NET maps twice, writable and executable, unless that is turned off. */
static bool is_double_mapper(const struct mw_mapping *map)
{
    static const char name[] = "/memfd:doublemapper";
    return strncmp(map->name, name, sizeof name - 1) == 0;
}

/* Memory of which mapping after mapping could be forgotten. */
static bool can_be_loose(const struct mw_mapping *map, enum mw_category category)
{
    switch (category) {
    case MW_CATEGORY_UNKNOWN:
    case MW_CATEGORY_ANON_OTHER:
    case MW_CATEGORY_SHARED_MEMORY:
    case MW_CATEGORY_FILE_MAPPED:
    case MW_CATEGORY_FILE_DATA:
        return map->perms != 0 || category == MW_CATEGORY_UNKNOWN;
    default:
        return is_double_mapper(map);
    }
}

/* Those that nobody with many mappings owns; mappings with several owners are left out. */
static size_t loose_collect(const struct mw_scope *scope, struct loose *loose)
{
    const struct mw_account *account = scope->evidence->account;
    const struct mw_mapping_list *regions = &scope->evidence->image->regions;
    size_t count = 0;
    for (size_t i = 0; i < account->piece_count && count < regions->count; i++) {
        const struct mw_account_piece *piece = &account->pieces[i];
        if (piece->region >= regions->count)
            continue;
        const struct mw_mapping *map = &regions->items[piece->region];
        if (piece->start == map->start && piece->end == map->end &&
            can_be_loose(map, piece->category))
            loose[count++] = (struct loose){map, piece->rss_bytes, piece->category};
    }
    return count;
}

static int kind_compare(const struct loose *a, const struct loose *b)
{
    uint64_t size_a = mw_mapping_size(a->map), size_b = mw_mapping_size(b->map);
    if (size_a != size_b)
        return size_a < size_b ? -1 : 1;
    return strcmp(a->map->name, b->map->name);
}

static int loose_compare(const void *left, const void *right)
{
    const struct loose *a = left, *b = right;
    int order = kind_compare(a, b);
    return order != 0 ? order : (a->map < b->map ? -1 : a->map > b->map);
}

/* The commonest kind; count 0 when there is nothing. Sorts. */
static struct kind kind_find(struct loose *loose, size_t count)
{
    struct kind kind = {0};
    qsort(loose, count, sizeof *loose, loose_compare);
    size_t best = 0;
    for (size_t start = 0, end; start < count; start = end) {
        for (end = start + 1; end < count && kind_compare(&loose[start], &loose[end]) == 0;)
            end++;
        if (end - start <= kind.count)
            continue;
        kind.count = end - start;
        best = start;
    }
    if (kind.count == 0)
        return kind;
    kind.map = loose[best].map;
    kind.perms[0] = kind.perms[1] = kind.map->perms;
    for (size_t i = best; i < best + kind.count; i++) {
        uint64_t *rss = &kind.rss[loose[i].category];
        *rss = mw_sum(*rss, loose[i].rss);
        if (kind.perms[1] == kind.perms[0])
            kind.perms[1] = loose[i].map->perms;
    }
    return kind;
}

static void perms_print(char text[5], uint32_t perms)
{
    text[0] = perms & MW_PERM_READ ? 'r' : '-';
    text[1] = perms & MW_PERM_WRITE ? 'w' : '-';
    text[2] = perms & MW_PERM_EXEC ? 'x' : '-';
    text[3] = perms & MW_PERM_SHARED ? 's' : 'p';
    text[4] = '\0';
}

/* "8 KiB, rw-p and r--p, anonymous" */
static struct mw_phrase kind_phrase(const struct kind *kind)
{
    struct mw_phrase phrase;
    char first[5], second[5];
    perms_print(first, kind->perms[0]);
    perms_print(second, kind->perms[1]);
    bool is_mixed = kind->perms[0] != kind->perms[1];
    snprintf(phrase.text, sizeof phrase.text, "%s, %s%s%s, %.80s",
             MW_SIZE(mw_mapping_size(kind->map)), first, is_mixed ? " and " : "",
             is_mixed ? second : "", kind->map->name[0] ? MW_NAME(kind->map->name) : "anonymous");
    return phrase;
}

static bool is_near_limit(const struct mw_scope *scope, uint64_t count)
{
    uint64_t max = scope->process->max_map_count;
    return mw_known(max) && max > 0 && count > max / 2;
}

static uint64_t kind_charge(struct mw_scope *scope, const struct kind *kind)
{
    uint64_t bytes = 0;
    for (int category = 0; category < MW_CATEGORY_COUNT; category++)
        if (category != MW_CATEGORY_MANAGED_CODE && category != MW_CATEGORY_MANAGED_METADATA)
            bytes = mw_sum(bytes,
                           mw_ledger_take(scope, (enum mw_category)category, kind->rss[category]));
    return bytes;
}

static void leak_evidence(struct mw_scope *scope, struct mw_verdict *verdict,
                          const struct kind *kind, size_t count)
{
    uint64_t max = scope->process->max_map_count, vsz = scope->process->vm_size;
    if (mw_known(max))
        mw_verdict_figure(scope, verdict, "smaps", count,
                          "%s mappings of at most %s (vm.max_map_count): beyond it mmap fails",
                          MW_COUNT(count), MW_COUNT(max));
    else
        mw_verdict_figure(scope, verdict, "smaps", count, "%s mappings", MW_COUNT(count));
    if (kind->count > 1) {
        mw_verdict_figure(scope, verdict, "smaps", kind->count, "the commonest kind: %s of %s",
                          MW_COUNT(kind->count), kind_phrase(kind).text);
        if (kind->map->name[0] && scope->status == MW_OK)
            verdict->evidence[verdict->evidence_count - 1].names_file = true;
    }
    if (mw_known(vsz))
        mw_verdict_figure(scope, verdict, "status", vsz, "virtual size %s, resident %s",
                          MW_BYTES(vsz), MW_BYTES(scope->figures.total_bytes));
    mw_verdict_note(scope, verdict, "smaps",
                    "stacks, their guards, memory of malloc and of runtimes are not counted as a "
                    "kind; one look cannot tell whether the count grows");
    uint64_t stacks = scope->evidence->account->rows[MW_CATEGORY_STACK_THREADS].count;
    if (stacks > 0)
        mw_verdict_rule_out(scope, verdict, "thread-stacks",
                            "%s stacks, and they are not of this kind", MW_COUNT(stacks));
    if (kind->map && !(kind->map->perms & MW_PERM_SHARED))
        mw_verdict_rule_out(scope, verdict, "shared-memory", "mappings of this kind are private");
    mw_verdict_rule_out(scope, verdict, "native-leak",
                        "blocks of malloc with a mapping of their own are counted as malloc's");
}

static void leak_remedies(struct mw_scope *scope, struct mw_verdict *verdict,
                          const struct kind *kind)
{
    struct mw_remedy *remedy;
    if (kind->map && is_double_mapper(kind->map)) {
        remedy = mw_remedy_add(scope, verdict, "DOTNET_EnableWriteXorExecute=0, restart");
        mw_text_set(scope, &remedy->basis,
                    "not predictable in bytes: code is then mapped once instead of twice");
        mw_text_set(scope, &remedy->verify, "wc -l /proc/NEW_PID/maps");
        return;
    }
    remedy = mw_remedy_add(scope, verdict,
                           "count again under load; if it rises, find the mmap without its munmap");
    mw_remedy_gain(remedy, 0, verdict->bytes);
    mw_text_set(scope, &remedy->basis,
                "upper bound, an experiment: only a count that rises is a leak");
    mw_text_set(scope, &remedy->verify, "wc -l /proc/%s/maps", MW_PID);
}

static void leak_say(struct mw_scope *scope, const struct kind *kind, size_t count)
{
    bool is_near = is_near_limit(scope, count);
    bool is_kind = kind->count >= MANY_MIN;
    uint64_t bytes = is_kind ? kind_charge(scope, kind) : 0;
    bool is_growing = is_near || mw_is_worth(scope, bytes, GROWING_PERCENT, MW_MIB);
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "mapping-leak", is_growing ? MW_CLASS_GROWING : MW_CLASS_NEEDED,
                       MW_BASIS_POSSIBLE, bytes);
    scope->mapping_leak = verdict;
    if (is_kind)
        mw_text_set(scope, &verdict->summary,
                    "candidate: %s of %s mappings are of one kind (%s), %s resident: mapped again "
                    "and again and never unmapped, or needed; only a second look can tell",
                    MW_COUNT(kind->count), MW_COUNT(count), kind_phrase(kind).text,
                    MW_BYTES(bytes));
    else
        mw_text_set(scope, &verdict->summary,
                    "candidate: %s mappings, more than half of what the kernel allows, and no kind "
                    "stands out; only a second look can tell whether they grow",
                    MW_COUNT(count));
    leak_evidence(scope, verdict, kind, count);
    leak_remedies(scope, verdict, kind);
    if (is_near)
        mw_known_add(scope,
                     "%s of the %s mappings that vm.max_map_count allows are used: at the limit "
                     "mmap fails, and malloc with it",
                     MW_COUNT(count), MW_COUNT(scope->process->max_map_count));
}

void mw_rule_mapping_leak(struct mw_scope *scope)
{
    const struct mw_account *account = scope->evidence->account;
    const struct mw_image *image = scope->evidence->image;
    size_t count = image ? image->regions.count : 0;
    if (!account || !scope->figures.has_rss || (count < MANY_MIN && !is_near_limit(scope, count)) ||
        scope->status != MW_OK)
        return;
    MW_FREE struct loose *loose = mw_calloc(count, sizeof *loose);
    if (!loose) {
        scope->status = MW_NOMEM;
        return;
    }
    size_t loose_count = loose_collect(scope, loose);
    struct kind kind = kind_find(loose, loose_count);
    bool is_kind = kind.count >= MANY_MIN && kind.count >= count / MANY_SHARE;
    if (is_kind || (is_near_limit(scope, count) && loose_count >= count / 2))
        leak_say(scope, &kind, count);
}

/* ---- device-memory ---- */

/* Memory of a driver: marked so by the kernel, or a file of one. The kernel's own pages that every
 * process has ([vvar]), rings and the like are not. */
static bool is_device(const struct mw_mapping *map)
{
    static const char *const starts[] = {
        "/dev/nvidia", "/dev/dri/",        "/dev/kfd", "/dev/mali", "/dev/dxg",      "/dev/vfio",
        "/dev/accel",  "/dev/infiniband/", "/dmabuf:", "/i915",     "/drm mm object"};
    if (map->name[0] == '[')
        return false;
    if (map->vm_flags & (MW_VM_PFNMAP | MW_VM_IO))
        return true;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncmp(map->name, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

struct device_sums {
    uint64_t resident, mapped; /* mapped: accessible and not in the Rss */
    uint64_t count, largest;
    const char *largest_name;
};

static struct device_sums devices_sum(const struct mw_scope *scope)
{
    const struct mw_account *account = scope->evidence->account;
    const struct mw_image *image = scope->evidence->image;
    struct device_sums sums = {0};
    for (size_t i = 0; i < account->piece_count; i++) {
        const struct mw_account_piece *piece = &account->pieces[i];
        if (piece->category != MW_CATEGORY_DEVICE || piece->region >= image->regions.count)
            continue;
        const struct mw_mapping *map = &image->regions.items[piece->region];
        if (!is_device(map) || (map->perms & (MW_PERM_READ | MW_PERM_WRITE)) == 0)
            continue;
        uint64_t size = piece->end - piece->start, rss = mw_least(piece->rss_bytes, size);
        sums.resident = mw_sum(sums.resident, rss);
        sums.mapped = mw_sum(sums.mapped, size - rss);
        sums.count++;
        if (size <= sums.largest)
            continue;
        sums.largest = size;
        sums.largest_name = map->name[0] ? map->name : NULL;
    }
    return sums;
}

static void device_evidence(struct mw_scope *scope, struct mw_verdict *verdict,
                            const struct device_sums *sums)
{
    uint64_t pinned = scope->process->vm_pin;
    mw_verdict_figure(scope, verdict, "smaps", sums->count, "%s mapping%s of devices",
                      MW_COUNT(sums->count), MW_PLURAL(sums->count));
    mw_verdict_figure(scope, verdict, "smaps", sums->mapped,
                      "%s of them is mapped and in no RSS: windows into the device or buffers of "
                      "its driver, by size",
                      MW_BYTES(sums->mapped));
    if (sums->resident > 0)
        mw_verdict_figure(scope, verdict, "smaps", sums->resident,
                          "%s is counted in the RSS, and is the driver's",
                          MW_BYTES(sums->resident));
    if (sums->largest_name) {
        mw_verdict_figure(scope, verdict, "smaps", sums->largest, "largest: %s, %s",
                          MW_NAME(sums->largest_name), MW_BYTES(sums->largest));
        if (scope->status == MW_OK)
            verdict->evidence[verdict->evidence_count - 1].names_file = true;
    }
    if (mw_known(pinned) && pinned > 0)
        mw_verdict_figure(scope, verdict, "status", pinned,
                          "%s of the process's memory is pinned (VmPin)", MW_BYTES(pinned));
    mw_verdict_rule_out(scope, verdict, "native-leak", "these mappings are not malloc's");
    mw_verdict_rule_out(scope, verdict, "file-maps", "no file is behind them");
}

void mw_rule_device_memory(struct mw_scope *scope)
{
    const struct mw_image *image = scope->evidence->image;
    if (!scope->evidence->account || !image || !scope->figures.has_rss)
        return;
    struct device_sums sums = devices_sum(scope);
    sums.resident = mw_least(sums.resident, scope->left[MW_CATEGORY_DEVICE]);
    uint64_t bytes = mw_sum(sums.resident, sums.mapped);
    if (!mw_is_worth(scope, bytes, DEVICE_PERCENT, MW_MIB))
        return;
    uint64_t taken = mw_ledger_take(scope, MW_CATEGORY_DEVICE, sums.resident);
    scope->outside_taken = mw_sum(scope->outside_taken, taken);
    struct mw_verdict *verdict =
        mw_verdict_add(scope, "device-memory", MW_CLASS_OUTSIDE,
                       sums.resident > sums.mapped ? MW_BASIS_LIKELY : MW_BASIS_POSSIBLE, bytes);
    mw_text_set(scope, &verdict->summary,
                "%s is mapped from devices (GPU, network, drivers): not ordinary memory of this "
                "process, and only the driver knows what stands behind it",
                MW_BYTES(bytes));
    device_evidence(scope, verdict, &sums);
    struct mw_remedy *remedy =
        mw_remedy_add(scope, verdict, "ask the driver, and compare with a host without the device");
    mw_text_set(scope, &remedy->basis, "not predictable: the driver's own figures tell");
    mw_text_set(scope, &remedy->verify, "grep -h ^drm- /proc/%s/fdinfo/*; nvidia-smi", MW_PID);
}

/* Memory that a device or the kernel reads behind the process's back cannot be moved out. */
void mw_beside_pinned(struct mw_scope *scope)
{
    uint64_t pinned = scope->process->vm_pin;
    if (mw_known(pinned) && scope->figures.has_rss &&
        mw_is_worth(scope, pinned, PINNED_PERCENT, MW_MIB))
        mw_known_add(scope,
                     "%s is pinned (VmPin) for a device or io_uring: it is neither swapped nor "
                     "reclaimed",
                     MW_BYTES(pinned));
}
