/* report/verdict_text.c: the verdict blocks of the screen.
 *
 * The first states that are leaked, growing or kept get a full block: what, why, was, peak, cure,
 * not. What follows, and what is needed or outside, gets a short one, so that all of it stays on a
 * screen. Every row is bounded in lines; the JSON has everything. */
#include "report/screen.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { FULL_BLOCKS_MAX = 2, ROW_LINES_MAX = 2, REMEDIES_MAX = 5, NOT_MAX = 4, WHY_MAX = 4 };
enum { ACTION_COLUMNS_MIN = 16 };

void mw_screen_label(struct mw_text *text, const char *label)
{
    mw_text_pad(text, MW_SCREEN_LABEL_COLUMN);
    mw_text_put(text, MW_STYLE_PLAIN, label);
    mw_text_pad(text, MW_SCREEN_TEXT_COLUMN);
}

static void put_row(struct mw_text *text, const char *label, const char *words)
{
    mw_screen_label(text, label);
    mw_text_wrap(text, MW_SCREEN_TEXT_COLUMN, ROW_LINES_MAX, MW_STYLE_PLAIN, words);
    mw_text_newline(text);
}

/* A hypothesis is no headline: only what is likely or proven is coloured. */
static enum mw_text_style class_style(const struct mw_verdict *verdict)
{
    if (verdict->basis == MW_BASIS_POSSIBLE)
        return MW_STYLE_BOLD;
    return verdict->verdict_class == MW_CLASS_LEAKED ? MW_STYLE_RED
           : verdict->verdict_class == MW_CLASS_KEPT ? MW_STYLE_YELLOW
                                                     : MW_STYLE_BOLD;
}

/* "LEAKED?": somebody will act on the first word alone. */
static const char *class_doubt(const struct mw_verdict *verdict)
{
    bool accuses = verdict->verdict_class <= MW_CLASS_GROWING;
    return accuses && verdict->basis == MW_BASIS_POSSIBLE ? "?" : "";
}

/* "KEPT 1,981.7 MiB  trimmable-free  [proven" without the end of the bracket. */
static void put_block_head(struct mw_text *text, const struct mw_verdict *verdict)
{
    char name[16], figure[32];
    snprintf(name, sizeof name, "%s", mw_class_name(verdict->verdict_class));
    for (char *at = name; *at; at++)
        *at = (char)toupper((unsigned char)*at);
    mw_text_put(text, class_style(verdict), name);
    mw_text_printf(text, MW_STYLE_BOLD, "%s %s %s", class_doubt(verdict),
                   mw_unit_format(figure, text->unit, verdict->bytes), text->unit.name);
    mw_text_pad(text, text->column + 2);
    mw_text_put(text, MW_STYLE_BOLD, verdict->id);
    mw_text_pad(text, text->column + 2);
    mw_text_printf(text, MW_STYLE_PLAIN, "[%s", mw_basis_name(verdict->basis));
}

/* What decided it stands in the bracket when it fits there. Returns whether it did. */
static bool put_block_basis(struct mw_text *text, const struct mw_verdict *verdict)
{
    const char *reason = verdict->evidence_count > 0 ? verdict->evidence[0].text : "";
    bool fits = reason[0] && text->column + 3 + mw_text_width(reason) <= text->look.width;
    if (fits)
        mw_text_printf(text, MW_STYLE_PLAIN, ": %s", reason);
    mw_text_put(text, MW_STYLE_PLAIN, "]");
    return fits;
}

/* Causes first, each with its id; then evidence that the bracket did not hold. */
static void put_why(struct mw_text *text, const struct mw_verdicts *verdicts,
                    const struct mw_verdict *verdict, size_t evidence_from)
{
    const char *label = "why";
    char line[1024];
    unsigned rows = 0;
    for (size_t i = 0; i < verdicts->count && rows < WHY_MAX; i++) {
        const struct mw_verdict *cause = &verdicts->items[i];
        if (!cause->part_of || strcmp(cause->part_of, verdict->id) != 0)
            continue;
        snprintf(line, sizeof line, "%s: %s", cause->id, cause->summary);
        put_row(text, label, line);
        label = "";
        rows++;
    }
    for (size_t i = evidence_from; i < verdict->evidence_count && rows < WHY_MAX; i++, rows++) {
        put_row(text, label, verdict->evidence[i].text);
        label = "";
    }
}

/* What stands behind the gain, or in its place. */
static const char *remedy_words(const struct mw_remedy *remedy)
{
    if (remedy->basis && remedy->basis[0])
        return remedy->basis;
    return remedy->has_gain ? "" : "gain not predictable";
}

/* 0 when it is not known. */
static uint64_t rss_of(const struct mw_analysis *analysis)
{
    return analysis->account.has_rss ? analysis->account.rss_bytes : 0;
}

/* A range of a few per cent is one figure, give or take: for trimming the one that was counted page
 * for page, else its middle. MW_UNKNOWN when it is a range. */
static uint64_t gain_point(const struct mw_analysis *analysis, const struct mw_remedy *remedy)
{
    uint64_t low = remedy->gain_low_bytes, high = remedy->gain_high_bytes, counted = 0;
    if (high - low > high / 20)
        return MW_UNKNOWN;
    for (size_t i = 0; i < analysis->allocator_count; i++)
        if (analysis->allocators[i].trimmable_bytes != MW_UNKNOWN)
            counted += analysis->allocators[i].trimmable_bytes;
    bool is_trim = strstr(remedy->action, "trim") != NULL;
    return is_trim && counted >= low && counted <= high ? counted : low + (high - low) / 2;
}

/* "-1,902.6 MiB -> RSS 453.0", or a range. */
static void gain_format(char text[96], struct mw_unit unit, const struct mw_analysis *analysis,
                        const struct mw_remedy *remedy)
{
    char low[32], high[32], after[32];
    uint64_t rss = rss_of(analysis), point = gain_point(analysis, remedy);
    mw_unit_format(low, unit, remedy->gain_low_bytes);
    mw_unit_format(high, unit, point == MW_UNKNOWN ? remedy->gain_high_bytes : point);
    if (point != MW_UNKNOWN && rss > point)
        snprintf(text, 96, "-%s %s -> %s %s", high, unit.name, mw_where_total_name(analysis),
                 mw_unit_format(after, unit, rss - point));
    else if (point != MW_UNKNOWN)
        snprintf(text, 96, "-%s %s", high, unit.name);
    else if (remedy->gain_low_bytes == 0)
        snprintf(text, 96, "up to -%s %s", high, unit.name);
    else
        snprintf(text, 96, "-%s to -%s %s", low, high, unit.name);
}

struct remedy_list {
    const struct mw_remedy *items[REMEDIES_MAX];
    size_t count;
};

static void remedies_collect(struct remedy_list *list, const struct mw_verdict *verdict, size_t max)
{
    for (size_t i = 0; i < verdict->remedy_count && list->count < max; i++) {
        bool seen = false;
        for (size_t k = 0; k < list->count; k++)
            seen = seen || strcmp(list->items[k]->action, verdict->remedies[i].action) == 0;
        if (!seen)
            list->items[list->count++] = &verdict->remedies[i];
    }
}

/* The columns of the longest word: a setting to be copied stays in one piece. */
static unsigned longest_word(const char *words)
{
    unsigned longest = 0;
    for (const char *at = words; *at; at += strspn(at, " ")) {
        unsigned length = (unsigned)strcspn(at, " ");
        longest = length > longest ? length : longest;
        at += length;
    }
    return longest;
}

/* Two bands: the action; the gain and how it is known. An action with a word of over half a line
 * stands on a line of its own, and its gain below it. */
static void put_remedies(struct mw_text *text, const struct mw_analysis *analysis,
                         const struct remedy_list *list)
{
    unsigned action = 0, room = (text->look.width - MW_SCREEN_TEXT_COLUMN) / 2;
    char gain[96];
    for (size_t i = 0; i < list->count; i++) {
        unsigned wide = mw_text_width(list->items[i]->action);
        if (longest_word(list->items[i]->action) <= room)
            action = wide > action ? wide : action;
    }
    action = action > room ? room : action;
    action = action < ACTION_COLUMNS_MIN ? ACTION_COLUMNS_MIN : action;
    for (size_t i = 0; i < list->count; i++) {
        const struct mw_remedy *remedy = list->items[i];
        gain_format(gain, text->unit, analysis, remedy);
        mw_screen_label(text, i == 0 ? "cure" : "");
        struct mw_text_band bands[] = {
            {MW_SCREEN_TEXT_COLUMN, MW_SCREEN_TEXT_COLUMN + action, NULL, remedy->action},
            {MW_SCREEN_TEXT_COLUMN + action + 2, text->look.width, remedy->has_gain ? gain : NULL,
             remedy_words(remedy)},
        };
        bool is_beside = longest_word(remedy->action) <= room;
        if (!is_beside) {
            mw_text_wrap(text, MW_SCREEN_TEXT_COLUMN, ROW_LINES_MAX, MW_STYLE_PLAIN,
                         remedy->action);
            mw_text_newline(text);
        }
        mw_text_bands(text, is_beside ? bands : bands + 1, is_beside ? 2 : 1, ROW_LINES_MAX);
    }
}

/* "id: why" one after the other, a new line where the next does not fit. */
static void put_ruled_out(struct mw_text *text, const struct mw_verdict *verdict)
{
    size_t count = verdict->ruled_out_count < NOT_MAX ? verdict->ruled_out_count : NOT_MAX;
    for (size_t i = 0; i < count; i++) {
        char line[512];
        snprintf(line, sizeof line, "%s: %s", verdict->ruled_out[i].id, verdict->ruled_out[i].why);
        unsigned needed = mw_text_width(line) + 3;
        if (i == 0) {
            mw_screen_label(text, "not");
        } else if (text->column + needed > text->look.width) {
            mw_text_newline(text);
            mw_text_pad(text, MW_SCREEN_TEXT_COLUMN);
        } else {
            mw_text_pad(text, text->column + 3);
        }
        mw_text_wrap(text, MW_SCREEN_TEXT_COLUMN, ROW_LINES_MAX, MW_STYLE_PLAIN, line);
    }
    if (count > 0)
        mw_text_newline(text);
}

/* What stands beside the verdicts goes into the first full block of the class that it is about. */
struct beside {
    bool was, peak, container, known; /* still to be printed */
};

/* Free blocks of malloc: only they have a last content. */
static bool keeps_free_blocks(const struct mw_verdict *verdict)
{
    static const char *const ids[] = {"trimmable-free", "arena-proliferation", "fragmentation",
                                      "allocator-cache"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (strcmp(verdict->id, ids[i]) == 0)
            return true;
    return false;
}

static void put_beside(struct mw_text *text, const struct mw_verdicts *verdicts,
                       const struct mw_verdict *verdict, struct beside *beside)
{
    if (beside->was && verdicts->was && keeps_free_blocks(verdict)) {
        put_row(text, "was", verdicts->was);
        beside->was = false;
    }
    if (beside->known) {
        for (size_t i = 0; i < verdicts->known_count; i++)
            put_row(text, i == 0 ? "known" : "", verdicts->known[i]);
        beside->known = false;
    }
    if (beside->peak && verdicts->peak) {
        put_row(text, "peak", verdicts->peak);
        beside->peak = false;
    }
    if (beside->container && verdicts->container) {
        put_row(text, "limit", verdicts->container);
        beside->container = false;
    }
}

static void put_full(struct mw_text *text, const struct mw_analysis *analysis,
                     const struct mw_verdict *verdict, struct beside *beside)
{
    const struct mw_verdicts *verdicts = &analysis->verdicts;
    struct remedy_list remedies = {.count = 0};
    put_block_head(text, verdict);
    bool in_bracket = put_block_basis(text, verdict);
    mw_text_newline(text);
    put_row(text, "what", verdict->summary);
    put_why(text, verdicts, verdict, in_bracket ? 1 : 0);
    put_beside(text, verdicts, verdict, beside);
    remedies_collect(&remedies, verdict, REMEDIES_MAX);
    for (size_t i = 0; i < verdicts->count; i++)
        if (verdicts->items[i].part_of && strcmp(verdicts->items[i].part_of, verdict->id) == 0)
            remedies_collect(&remedies, &verdicts->items[i], REMEDIES_MAX);
    put_remedies(text, analysis, &remedies);
    put_ruled_out(text, verdict);
    mw_text_newline(text);
}

static void put_short(struct mw_text *text, const struct mw_analysis *analysis,
                      const struct mw_verdict *verdict)
{
    struct remedy_list remedies = {.count = 0};
    put_block_head(text, verdict);
    mw_text_put(text, MW_STYLE_PLAIN, "]");
    mw_text_pad(text, text->column + 2);
    mw_text_wrap(text, MW_SCREEN_TEXT_COLUMN, ROW_LINES_MAX, MW_STYLE_PLAIN, verdict->summary);
    mw_text_newline(text);
    remedies_collect(&remedies, verdict, verdict->verdict_class == MW_CLASS_NEEDED ? 1 : 2);
    put_remedies(text, analysis, &remedies);
}

/* The account has its own row for what nobody owns. */
static bool is_unknown(const struct mw_verdict *verdict)
{
    return strcmp(verdict->id, "unknown") == 0;
}

/* A cause stands in the block of its state; one of `unknown`, which has no block, by itself. */
static bool is_shown(const struct mw_verdict *verdict, bool all)
{
    bool has_block = verdict->part_of && strcmp(verdict->part_of, "unknown") != 0;
    return !has_block && !is_unknown(verdict) && (all || !verdict->minor);
}

/* The inside of an allocator that was not read is no verdict, and no small thing either. */
static bool put_unread(struct mw_text *text, const struct mw_analysis *analysis)
{
    enum { WORTH_PERCENT = 5 };
    uint64_t unsplit = analysis->account.rows[MW_CATEGORY_MALLOC_UNSPLIT].rss_bytes;
    const struct mw_verdict *unknown = mw_verdict_find(&analysis->verdicts, "unknown");
    char figure[32], head[64];
    if (!analysis->account.has_rss || !unknown || unknown->evidence_count == 0 ||
        unsplit < analysis->account.rss_bytes / 100 * WORTH_PERCENT || unsplit == 0)
        return false;
    snprintf(head, sizeof head, "UNREAD %s %s", mw_unit_format(figure, text->unit, unsplit),
             text->unit.name);
    mw_text_put(text, MW_STYLE_BOLD, head);
    mw_text_pad(text, text->column + 2);
    mw_text_wrap(text, MW_SCREEN_TEXT_COLUMN, ROW_LINES_MAX, MW_STYLE_PLAIN,
                 unknown->evidence[0].text);
    mw_text_newline(text);
    return true;
}

/* Of a core without residency no verdict on resident memory can be given: what there is to say
 * instead, of an allocator that was not walked and of what is lost. */
static void put_no_verdict(struct mw_text *text, const struct mw_analysis *analysis)
{
    const struct mw_reach *reach = &analysis->reach;
    const uint64_t unsplit = analysis->account.rows[MW_CATEGORY_MALLOC_UNSPLIT].size_bytes;
    char figure[32], words[256];
    mw_text_put(text, MW_STYLE_BOLD, "NO VERDICT");
    mw_text_pad(text, text->column + 2);
    snprintf(words, sizeof words, "what was resident is not known%s",
             mw_reach_is_exact(reach) && reach->unreachable_count == 0 && reach->reachable_count > 0
                 ? ", and of the blocks in use none is lost"
                 : "");
    mw_text_wrap(text, MW_SCREEN_TEXT_COLUMN, ROW_LINES_MAX, MW_STYLE_PLAIN, words);
    mw_text_newline(text);
    for (size_t i = 0; i < analysis->allocator_count && unsplit > 0; i++) {
        const struct mw_allocator *allocator = &analysis->allocators[i];
        if (allocator->walked)
            continue;
        mw_text_put(text, MW_STYLE_BOLD, "UNREAD");
        mw_text_pad(text, text->column + 2);
        snprintf(words, sizeof words,
                 "%s %s mapped belong to %s, which this version recognises and does not walk",
                 mw_unit_format(figure, text->unit, unsplit), text->unit.name, allocator->kind);
        mw_text_wrap(text, MW_SCREEN_TEXT_COLUMN, ROW_LINES_MAX, MW_STYLE_PLAIN, words);
        mw_text_newline(text);
        break;
    }
}

void mw_screen_verdicts(struct mw_text *text, const struct mw_analysis *analysis,
                        const struct mw_report_text_options *options)
{
    const struct mw_verdicts *verdicts = &analysis->verdicts;
    struct beside beside = {true, true, true, true};
    unsigned full = 0;
    bool had_short = false;
    for (size_t i = 0; i < verdicts->count; i++) {
        const struct mw_verdict *verdict = &verdicts->items[i];
        if (!is_shown(verdict, options->all))
            continue;
        bool is_full = verdict->verdict_class <= MW_CLASS_KEPT && !verdict->minor &&
                       (full < FULL_BLOCKS_MAX || options->all);
        if (is_full) {
            put_full(text, analysis, verdict, &beside);
            full++;
        } else {
            put_short(text, analysis, verdict);
            had_short = true;
        }
    }
    if (full == 0 && (verdicts->known_count > 0 || verdicts->peak || verdicts->container)) {
        const struct mw_verdict none = {.verdict_class = MW_CLASS_NEEDED};
        put_beside(text, verdicts, &none, &beside);
        had_short = true;
    }
    had_short |= put_unread(text, analysis);
    if (full == 0 && !had_short && !analysis->account.has_rss) {
        put_no_verdict(text, analysis);
        had_short = true;
    }
    if (had_short)
        mw_text_newline(text);
}
