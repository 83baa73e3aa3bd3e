/* report/notes_text.c: what a reader of the screen must know before believing its figures. All
 * findings are in the JSON; here stand those that change what the figures mean, the gravest first,
 * four at most. */
#include "report/screen.h"

#include <stdio.h>
#include <string.h>

enum { NOTES_MAX = 4, NOTE_BYTES = 320, SKEW_SHARE = 100 };

/* By gravity. */
static const char *const noted_kinds[] = {
    "pause-expired",        "core-truncated",         "smaps-truncated", "heap-damaged",
    "arena-not-reconciled", "mmapped-not-reconciled", "arena-ring-torn", "main-heap-broken",
    "mp-not-found",         "scan-cut-short",         "pages-unknown",   "account-skew",
    "core-pages-missing",   "core-rss-anonymous",     "several-stops",   "arenas-sampled",
    "blocks-not-listed",    "blocks-unreadable",      "fields-cut",      "blocks-not-of-one-moment",
};

/* A difference of less than 1 % changes no answer. */
static bool matters(const struct mw_analysis *analysis, const struct mw_finding *finding)
{
    bool is_skew = strcmp(finding->kind, "account-skew") == 0;
    return !is_skew || finding->bytes > mw_where_total(analysis) / SKEW_SHARE;
}

static void put_note(struct mw_text *text, const struct mw_finding *finding)
{
    char note[NOTE_BYTES], times[48] = "", bytes[48] = "", figure[32];
    if (finding->count > 1)
        snprintf(times, sizeof times, "%s times", mw_count_format(figure, finding->count));
    if (finding->bytes > 0)
        snprintf(bytes, sizeof bytes, "%s", mw_bytes_format(figure, finding->bytes));
    bool both = times[0] && bytes[0];
    snprintf(note, sizeof note, "%s%s%s%s%s%s", finding->text, times[0] || bytes[0] ? " (" : "",
             times, both ? ", " : "", bytes, times[0] || bytes[0] ? ")" : "");
    mw_screen_label(text, "note");
    mw_text_wrap(text, MW_SCREEN_TEXT_COLUMN, 0, MW_STYLE_PLAIN, note);
    mw_text_newline(text);
}

void mw_screen_notes(struct mw_text *text, const struct mw_analysis *analysis)
{
    unsigned shown = 0;
    for (size_t i = 0; i < sizeof noted_kinds / sizeof *noted_kinds && shown < NOTES_MAX; i++) {
        const struct mw_finding *finding = mw_finding_find(&analysis->findings, noted_kinds[i]);
        if (!finding || !matters(analysis, finding))
            continue;
        put_note(text, finding);
        shown++;
    }
}
