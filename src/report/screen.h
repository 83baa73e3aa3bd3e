/* report/screen.h: the parts of the one screen (SCREENS in the design): private to report_text.c
 * and the files that print a part each. */
#ifndef MW_REPORT_SCREEN_H
#define MW_REPORT_SCREEN_H

#include "report/emit.h"

enum { MW_SCREEN_LABEL_COLUMN = 2, MW_SCREEN_TEXT_COLUMN = 9 };

/* "  what   " and the like. */
void mw_screen_label(struct mw_text *text, const char *label);

/* Header lines: who, how large, what surrounds it. */
void mw_screen_header(struct mw_text *text, const struct mw_analysis *analysis,
                      const struct mw_report_text_options *options);

/* A block for each verdict that is not minor (or for all). */
void mw_screen_verdicts(struct mw_text *text, const struct mw_analysis *analysis,
                        const struct mw_report_text_options *options);

/* The account in two columns; what is printed sums to the RSS that is printed. */
void mw_screen_where(struct mw_text *text, const struct mw_analysis *analysis,
                     const struct mw_report_text_options *options);

/* Findings that change what the figures mean: a "note" line each, at most four. */
void mw_screen_notes(struct mw_text *text, const struct mw_analysis *analysis);

/* The next commands worth typing. */
void mw_screen_next(struct mw_text *text, const struct mw_analysis *analysis,
                    const struct mw_report_text_options *options);

/* The target as one word of a command for a POSIX shell: quoted where it must be, since the name of
 * a core may come from the process that died. "TARGET" when it cannot be printed as it is, or is
 * too long; "FILE" for standard input, which cannot be read twice. */
enum { MW_SCREEN_WORD_BYTES = 256, MW_SCREEN_COMMAND_BYTES = MW_SCREEN_WORD_BYTES + 64 };
struct mw_screen_word {
    char text[MW_SCREEN_WORD_BYTES];
};
struct mw_screen_word mw_screen_word(const char *target);

/* One line of NEXT: a command and what to expect from it. */
void mw_screen_command(struct mw_text *text, const char *command, const char *expect);

/* Below the commands of a target that was standard input: what FILE is. Else nothing. */
void mw_screen_next_of_stdin(struct mw_text *text, const char *target);

/* NEXT of a screen about a heap that was not read: what the mappings alone say. */
void mw_screen_next_without_heap(struct mw_text *text, const char *target);

/* The first allocator whose heap was walked; NULL when there is none, or when most of malloc's
 * memory is in another one that was not: commands about the heap are no use there. */
const struct mw_allocator *mw_screen_walked(const struct mw_analysis *analysis);

/* The part of a screen that says why a part is missing and how to get it; nothing when whole. */
void mw_screen_partial(struct mw_text *text, const struct mw_analysis *analysis);
void mw_screen_why_partial(struct mw_text *text, const struct mw_error *why);

/* The whole screen of `report`, in a unit of its own. */
void mw_screen_report(struct mw_text *text, const struct mw_analysis *analysis,
                      const struct mw_report_text_options *options);

/* Head of the other screens: "memwhy heap 4121  icinga2  glibc 2.36  paused 58 ms, 1 stop". */
void mw_screen_title(struct mw_text *text, const struct mw_analysis *analysis, const char *command,
                     const char *target);

/* Does an argument or a setting look like one that holds a password, key or token? Wrongly yes
 * rather than wrongly no. */
bool mw_screen_may_hold_secret(const char *argument, size_t length);

/* "GC heap", "Java heap"; "managed heap" when there is no one runtime. */
const char *mw_screen_heap_name(const struct mw_analysis *analysis);

/* "58 ms", "0.36 s". */
char *mw_screen_seconds(char text[32], double seconds);

/* What the WHERE table shows: rows of the account, joined for people. */
struct mw_where_row {
    const char *label;
    uint64_t bytes;   /* exact */
    uint64_t printed; /* rounded so that the rows printed sum to the total printed */
    bool is_estimate; /* from a sample of arenas */
    char note[48];
};
enum { MW_WHERE_ROWS_MAX = 16 };

/* Rows that are not empty, largest first, without `unknown`; *unknown_out gets that one. Returns
 * the number of rows. Sizes instead of resident bytes when the account has none. */
size_t mw_where_rows(const struct mw_analysis *analysis, struct mw_unit unit,
                     struct mw_where_row rows[MW_WHERE_ROWS_MAX], struct mw_where_row *unknown_out);

/* The total that the rows sum to: RSS, or the mapped size. */
uint64_t mw_where_total(const struct mw_analysis *analysis);
/* What that figure is: "RSS", "anonymous RSS" of a core that tells no more, "mapped". */
const char *mw_where_total_name(const struct mw_analysis *analysis);

#endif
