/* cli/gate.c: parsing and checking --fail-if. */
#include "cli/gate.h"

#include "base/units.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const class_names[] = {
    [MW_CLASS_LEAKED] = "leaked",   [MW_CLASS_GROWING] = "growing", [MW_CLASS_KEPT] = "kept",
    [MW_CLASS_OUTSIDE] = "outside", [MW_CLASS_NEEDED] = "needed",
};

/* Those that a rule of src/verdict can give: a gate that can never be hit guards nothing. */
static const char *const verdict_ids[] = {
    "arena-proliferation",
    "heap-top-pinned",
    "adaptive-mmap-threshold",
    "fragmentation",
    "trimmable-free",
    "native-leak",
    "unbounded-growth",
    "allocator-cache",
    "lazy-free",
    "thp-bloat",
    "thp-stacks",
    "mapping-leak",
    "device-memory",
    "thread-stacks",
    "managed-live",
    "managed-unused",
    "runtime-native",
    "untracked-native",
    "direct-buffers",
    "file-maps",
    "shared-memory",
    "copy-on-write",
    "kernel-memory",
    "page-cache",
    "swapped",
    "healthy",
};

static const char *const figure_names[] = {"rss",  "anonymous", "swap",  "unknown",
                                           "free", "trimmable", "arenas"};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static int name_index(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return (int)i;
    return -1;
}

static bool is_name(const char *name)
{
    return name_index(class_names, COUNT_OF(class_names), name) >= 0 ||
           name_index(verdict_ids, COUNT_OF(verdict_ids), name) >= 0 ||
           name_index(figure_names, COUNT_OF(figure_names), name) >= 0;
}

static const char *operator_parse(const char *text, enum mw_gate_operator *op_out)
{
    static const struct {
        const char *sign;
        enum mw_gate_operator op;
    } operators[] = {/* longer signs first */
                     {">=", MW_GATE_GE},
                     {"<=", MW_GATE_LE},
                     {"==", MW_GATE_EQ},
                     {">", MW_GATE_GT},
                     {"<", MW_GATE_LT}};
    for (size_t i = 0; i < COUNT_OF(operators); i++) {
        size_t length = strlen(operators[i].sign);
        if (strncmp(text, operators[i].sign, length) != 0)
            continue;
        *op_out = operators[i].op;
        return text + length;
    }
    return NULL;
}

/* text without blanks at its end and before its unit; false: too long or empty. */
static bool value_copy(char value[64], const char *text)
{
    size_t length = 0;
    for (; *text; text++) {
        const char *next = text + strspn(text, " ");
        bool is_gap =
            *text == ' ' && (*next == '\0' || isalpha((unsigned char)*next) || *next == '%');
        if (is_gap)
            continue;
        if (length + 1 >= 64)
            return false;
        value[length++] = *text;
    }
    value[length] = '\0';
    return length > 0;
}

static enum mw_status value_parse(const char *text, struct mw_gate *gate)
{
    char value[64], *end;
    if (!value_copy(value, text))
        return MW_INVALID;
    size_t last = strlen(value) - 1;
    gate->percent = -1;
    if (value[last] != '%')
        return mw_bytes_parse(value, &gate->value);
    value[last] = '\0';
    gate->percent = strtod(value, &end);
    bool good = isdigit((unsigned char)value[0]) && *end == '\0' && gate->percent <= 1e6;
    return good ? MW_OK : MW_INVALID;
}

static enum mw_status gate_fail(struct mw_error *err, const char *text, const char *why)
{
    (void)mw_fail(err, MW_INVALID, "cannot understand --fail-if '%.80s': %s", text, why);
    mw_error_hint(err, "like --fail-if 'leaked>0', 'kept>500MiB', 'unknown>=3%%' or 'arenas>64'");
    return MW_INVALID;
}

enum mw_status mw_gate_parse(const char *text, struct mw_gate *gate_out, struct mw_error *err)
{
    struct mw_gate gate = {.percent = -1};
    const char *at = text + strspn(text, " ");
    size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz-");
    if (length == 0 || length >= sizeof gate.name)
        return gate_fail(err, text, "it begins with no name");
    memcpy(gate.name, at, length);
    if (!is_name(gate.name))
        return gate_fail(err, text, "no class, verdict or figure has this name");
    at += length;
    at = operator_parse(at + strspn(at, " "), &gate.op);
    if (!at)
        return gate_fail(err, text, "the name is followed by none of > >= < <= ==");
    at += strspn(at, " ");
    if (value_parse(at, &gate) != MW_OK)
        return gate_fail(err, text, "the value is no size, count or percentage");
    *gate_out = gate;
    return MW_OK;
}

static uint64_t sum_class(const struct mw_verdicts *verdicts, enum mw_class verdict_class)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < verdicts->count; i++)
        if (!verdicts->items[i].part_of && verdicts->items[i].verdict_class == verdict_class)
            sum += verdicts->items[i].bytes;
    return sum;
}

/* The inside of a heap decides these; without it 0 would be a guess. */
static bool needs_heap(const struct mw_gate *gate)
{
    static const char *const names[] = {
        "leaked",
        "growing",
        "kept",
        "arena-proliferation",
        "heap-top-pinned",
        "adaptive-mmap-threshold",
        "fragmentation",
        "trimmable-free",
        "native-leak",
        "unbounded-growth",
        "allocator-cache",
        "thp-bloat",
        "thp-stacks",
        "free",
        "trimmable",
        "arenas",
    };
    return name_index(names, COUNT_OF(names), gate->name) >= 0;
}

static uint64_t sum_allocators(const struct mw_analysis *analysis, const char *name)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < analysis->allocator_count; i++) {
        const struct mw_allocator *allocator = &analysis->allocators[i];
        uint64_t value = strcmp(name, "free") == 0        ? allocator->free_resident_bytes
                         : strcmp(name, "trimmable") == 0 ? allocator->trimmable_bytes
                                                          : allocator->arena_count;
        if (!allocator->walked)
            continue;
        if (value == MW_UNKNOWN)
            return MW_UNKNOWN;
        sum += value;
    }
    return sum;
}

static uint64_t figure_value(const struct mw_analysis *analysis, const char *name)
{
    const struct mw_account *account = &analysis->account;
    if (strcmp(name, "rss") == 0)
        return account->has_rss ? account->rss_bytes : MW_UNKNOWN;
    if (strcmp(name, "anonymous") == 0)
        return account->anonymous_bytes;
    if (strcmp(name, "swap") == 0)
        return account->has_swap ? account->swap_bytes : MW_UNKNOWN;
    if (strcmp(name, "unknown") == 0)
        return account->has_rss ? account->unknown_bytes : MW_UNKNOWN;
    return sum_allocators(analysis, name);
}

bool mw_gate_is_of_leaks(const struct mw_gate *gate)
{
    return strcmp(gate->name, "leaked") == 0 || strcmp(gate->name, "native-leak") == 0;
}

/* An allocator that was recognised and not walked may hold more of it; and unless all pointers were
 * followed at one moment, more may be leaked than the verdicts say. */
static bool is_lower_bound(const struct mw_gate *gate, const struct mw_analysis *analysis)
{
    if (!needs_heap(gate) || strcmp(gate->name, "arenas") == 0)
        return false;
    if (mw_gate_is_of_leaks(gate) && !mw_reach_is_exact(&analysis->reach))
        return true;
    for (size_t i = 0; i < analysis->allocator_count; i++)
        if (!analysis->allocators[i].walked)
            return true;
    return false;
}

static uint64_t gate_figure(const struct mw_gate *gate, const struct mw_analysis *analysis)
{
    if (needs_heap(gate) && !analysis->heap_was_read)
        return MW_UNKNOWN;
    if (mw_gate_is_of_leaks(gate) && analysis->reach.is_done && !analysis->reach.is_of_once)
        return MW_UNKNOWN;                  /* a pointer may have moved */
    if (strcmp(gate->name, "growing") == 0) /* no rule can tell from one moment */
        return MW_UNKNOWN;
    int verdict_class = name_index(class_names, COUNT_OF(class_names), gate->name);
    if (verdict_class >= 0)
        return sum_class(&analysis->verdicts, (enum mw_class)verdict_class);
    if (name_index(figure_names, COUNT_OF(figure_names), gate->name) >= 0)
        return figure_value(analysis, gate->name);
    for (size_t i = 0; i < analysis->verdicts.count; i++)
        if (strcmp(analysis->verdicts.items[i].id, gate->name) == 0)
            return analysis->verdicts.items[i].bytes;
    return 0;
}

/* order: negative when the figure is less than the value, 0 when they are equal. */
static bool holds(enum mw_gate_operator op, int order)
{
    switch (op) {
    case MW_GATE_GT:
        return order > 0;
    case MW_GATE_GE:
        return order >= 0;
    case MW_GATE_LT:
        return order < 0;
    case MW_GATE_LE:
        return order <= 0;
    case MW_GATE_EQ:
        return order == 0;
    }
    assert(false && "an operator without a meaning");
    return false;
}

enum mw_gate_result mw_gate_check(const struct mw_gate *gate, const struct mw_analysis *analysis,
                                  uint64_t *actual_out)
{
    uint64_t rss = figure_value(analysis, "rss");
    uint64_t actual = gate_figure(gate, analysis);
    *actual_out = actual;
    if (actual == MW_UNKNOWN || (gate->percent >= 0 && rss == MW_UNKNOWN))
        return MW_GATE_UNKNOWN;
    double share = gate->percent / 100 * (double)rss;
    int order = gate->percent >= 0 ? ((double)actual > share) - ((double)actual < share)
                                   : (actual > gate->value) - (actual < gate->value);
    bool hit = holds(gate->op, order);
    if (!is_lower_bound(gate, analysis))
        return hit ? MW_GATE_HIT : MW_GATE_MISS;
    /* Only what more bytes would not change is decided. */
    if (gate->op == MW_GATE_GT || gate->op == MW_GATE_GE)
        return hit ? MW_GATE_HIT : MW_GATE_UNKNOWN;
    return hit || order < 0 ? MW_GATE_UNKNOWN : MW_GATE_MISS;
}

bool mw_gate_is_bytes(const struct mw_gate *gate)
{
    return strcmp(gate->name, "arenas") != 0;
}
