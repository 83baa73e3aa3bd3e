/* verdict/build.h: putting a verdict together, a line for each part.
 *
 * Texts are printf formats, at most MW_VERDICT_TEXT_MAX bytes long. Nothing here returns a status:
 * the first failure stays in scope->status, later calls do nothing, and mw_verdict_add() then gives
 * a scratch verdict, so that a rule needs no check of its own. */
#ifndef MW_VERDICT_BUILD_H
#define MW_VERDICT_BUILD_H

#include "verdict/rules.h"

enum { MW_VERDICT_TEXT_MAX = 2048 };

/* A number or a name as text, by value: lives until the end of the full expression that made it,
 * so that it can be an argument of a printf format. */
struct mw_label {
    char text[48];
};
struct mw_phrase {
    char text[208];
};
struct mw_long_phrase {
    char text[640];
};

/* "1,981.7 MiB" in the unit of the screen; in a smaller one when it would read 0.0. */
struct mw_label mw_label_bytes(const struct mw_scope *scope, uint64_t bytes);
struct mw_label mw_label_size(uint64_t bytes);  /* "96 B", "31.4 MiB": exact below 4 KiB */
struct mw_label mw_label_count(uint64_t count); /* "42,231" */
/* Bytes of a target, escaped and shortened to 48. NULL is "?". */
struct mw_phrase mw_phrase_name(const char *name);
/* The same, shortened to 150. */
struct mw_long_phrase mw_phrase_long(const char *name);
/* "4121" or "PID" */
struct mw_label mw_label_pid(const struct mw_scope *scope);

#define MW_BYTES(n) mw_label_bytes(scope, (n)).text
#define MW_SIZE(n) mw_label_size(n).text
#define MW_COUNT(n) mw_label_count(n).text
#define MW_NAME(name) mw_phrase_name(name).text
#define MW_LONG_NAME(name) mw_phrase_long(name).text
#define MW_PID mw_label_pid(scope).text
#define MW_PLURAL(n) ((n) == 1 ? "" : "s")

unsigned mw_percent(uint64_t part, uint64_t whole); /* rounded; 0 of nothing */

/* A new top-level verdict, charged with bytes. Valid until the evaluation ends. */
struct mw_verdict *mw_verdict_add(struct mw_scope *scope, const char *id,
                                  enum mw_class verdict_class, enum mw_basis basis, uint64_t bytes);

/* Replace the text in *slot. */
void mw_text_set(struct mw_scope *scope, char **slot, const char *fmt, ...) MW_PRINTF(3, 4);

/* Evidence: without and with a value. `source` is static text. */
void mw_verdict_note(struct mw_scope *scope, struct mw_verdict *verdict, const char *source,
                     const char *fmt, ...) MW_PRINTF(4, 5);
void mw_verdict_figure(struct mw_scope *scope, struct mw_verdict *verdict, const char *source,
                       uint64_t value, const char *fmt, ...) MW_PRINTF(5, 6);

void mw_verdict_rule_out(struct mw_scope *scope, struct mw_verdict *verdict, const char *id,
                         const char *fmt, ...) MW_PRINTF(4, 5);

/* A remedy without a gain; a scratch one after a failure. Valid until the next is added. */
struct mw_remedy *mw_remedy_add(struct mw_scope *scope, struct mw_verdict *verdict, const char *fmt,
                                ...) MW_PRINTF(3, 4);
void mw_remedy_gain(struct mw_remedy *remedy, uint64_t low_bytes, uint64_t high_bytes);

/* A sentence for verdicts->known. */
void mw_known_add(struct mw_scope *scope, const char *fmt, ...) MW_PRINTF(2, 3);

#endif
