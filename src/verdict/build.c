/* verdict/build.c: the builders. Texts of a target are escaped here and nowhere else. */
#include "verdict/build.h"

#include "base/str.h"
#include "base/vec.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    PARTS_MAX = 64, /* evidence items, ruled out ids or remedies of one verdict; sentences */
    NAME_BYTES_MAX = 48,
    LONG_NAME_BYTES_MAX = 150,
    NAME_COLUMNS_MAX = 56, /* escaped */
};

struct mw_label mw_label_bytes(const struct mw_scope *scope, uint64_t bytes)
{
    struct mw_label label;
    char figure[32];
    if (bytes == 0 || bytes >= scope->unit.bytes / 20)
        snprintf(label.text, sizeof label.text, "%s %.8s",
                 mw_unit_format(figure, scope->unit, bytes), scope->unit.name);
    else
        label = mw_label_size(bytes);
    return label;
}

struct mw_label mw_label_size(uint64_t bytes)
{
    struct mw_label label;
    char figure[32];
    if (bytes < 4 * MW_KIB)
        snprintf(label.text, sizeof label.text, "%s B", mw_count_format(figure, bytes));
    else if (bytes < MW_MIB && bytes % MW_KIB == 0)
        snprintf(label.text, sizeof label.text, "%u KiB", (unsigned)(bytes / MW_KIB));
    else
        snprintf(label.text, sizeof label.text, "%s", mw_bytes_format(figure, bytes));
    return label;
}

struct mw_label mw_label_count(uint64_t count)
{
    struct mw_label label;
    char figure[32];
    snprintf(label.text, sizeof label.text, "%s", mw_count_format(figure, count));
    return label;
}

/* Escape name into text, cut at bytes_max bytes of it or about columns_max characters. */
static void name_escape(const char *name, size_t bytes_max, size_t columns_max, char *text,
                        size_t room)
{
    size_t length = strnlen(name, bytes_max + 1);
    bool cut = length > bytes_max;
    size_t used = 0;
    const unsigned char *at = (const unsigned char *)name;
    for (size_t left = cut ? bytes_max : length; left > 0;) {
        if (used >= columns_max) {
            cut = true;
            break;
        }
        size_t take = mw_utf8_sequence(at, left);
        bool c1_control = take == 2 && at[0] == 0xc2 && at[1] < 0xa0;
        if (take == 0 || c1_control || *at < 0x20 || *at == 0x7f) {
            used += (size_t)snprintf(text + used, room - used, "\\x%02x", *at);
            take = 1;
        } else {
            memcpy(text + used, at, take);
            used += take;
        }
        at += take;
        left -= take;
    }
    snprintf(text + used, room - used, "%s", cut ? "..." : "");
    assert(used < room);
}

struct mw_phrase mw_phrase_name(const char *name)
{
    struct mw_phrase phrase = {"?"};
    if (name)
        name_escape(name, NAME_BYTES_MAX, NAME_COLUMNS_MAX, phrase.text, sizeof phrase.text);
    return phrase;
}

struct mw_long_phrase mw_phrase_long(const char *name)
{
    struct mw_long_phrase phrase = {"?"};
    if (name)
        name_escape(name, LONG_NAME_BYTES_MAX, 4 * LONG_NAME_BYTES_MAX, phrase.text,
                    sizeof phrase.text);
    return phrase;
}

struct mw_label mw_label_pid(const struct mw_scope *scope)
{
    struct mw_label label = {"PID"};
    if (scope->process->pid > 0)
        snprintf(label.text, sizeof label.text, "%d", scope->process->pid);
    return label;
}

unsigned mw_percent(uint64_t part, uint64_t whole)
{
    if (whole == 0)
        return 0;
    double share = 100.0 * (double)part / (double)whole;
    return share >= 1e6 ? 1000000 : (unsigned)(share + 0.5);
}

struct mw_verdict *mw_verdict_add(struct mw_scope *scope, const char *id,
                                  enum mw_class verdict_class, enum mw_basis basis, uint64_t bytes)
{
    struct mw_verdicts *list = scope->verdicts;
    if (scope->status != MW_OK)
        return &scope->scrap;
    if (!list->items) {
        /* All at once: rules keep pointers to verdicts. */
        list->items = mw_calloc(MW_VERDICTS_MAX, sizeof *list->items);
        if (!list->items) {
            scope->status = MW_NOMEM;
            return &scope->scrap;
        }
        list->room = MW_VERDICTS_MAX;
    }
    assert(list->count < list->room);
    struct mw_verdict *verdict = &list->items[list->count++];
    *verdict = (struct mw_verdict){
        .id = id, .verdict_class = verdict_class, .basis = basis, .bytes = bytes};
    return verdict;
}

__attribute__((format(printf, 2, 0))) static char *text_format(struct mw_scope *scope,
                                                               const char *fmt, va_list ap)
{
    if (scope->status != MW_OK)
        return NULL;
    char text[MW_VERDICT_TEXT_MAX];
    vsnprintf(text, sizeof text, fmt, ap);
    char *copy = mw_strdup(text);
    if (!copy)
        scope->status = MW_NOMEM;
    return copy;
}

void mw_text_set(struct mw_scope *scope, char **slot, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = text_format(scope, fmt, ap);
    va_end(ap);
    if (!text)
        return;
    free(*slot);
    *slot = text;
}

/* Room for one more part of a verdict; false after a failure. */
static bool part_reserve(struct mw_scope *scope, void **items, size_t count, size_t *room,
                         size_t item_size)
{
    if (scope->status != MW_OK)
        return false;
    scope->status = mw_vec_reserve_one(items, count, room, item_size, PARTS_MAX);
    return scope->status == MW_OK;
}

static void evidence_add(struct mw_scope *scope, struct mw_verdict *verdict,
                         struct mw_evidence_item item)
{
    void *items = verdict->evidence;
    bool fits = item.text && part_reserve(scope, &items, verdict->evidence_count,
                                          &verdict->evidence_room, sizeof item);
    verdict->evidence = items;
    if (fits)
        verdict->evidence[verdict->evidence_count++] = item;
    else
        free(item.text);
}

void mw_verdict_note(struct mw_scope *scope, struct mw_verdict *verdict, const char *source,
                     const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = text_format(scope, fmt, ap);
    va_end(ap);
    evidence_add(scope, verdict, (struct mw_evidence_item){.text = text, .source = source});
}

void mw_verdict_figure(struct mw_scope *scope, struct mw_verdict *verdict, const char *source,
                       uint64_t value, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = text_format(scope, fmt, ap);
    va_end(ap);
    evidence_add(scope, verdict,
                 (struct mw_evidence_item){
                     .text = text, .has_value = true, .value = value, .source = source});
}

void mw_verdict_rule_out(struct mw_scope *scope, struct mw_verdict *verdict, const char *id,
                         const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = text_format(scope, fmt, ap);
    va_end(ap);
    void *items = verdict->ruled_out;
    bool fits = text && part_reserve(scope, &items, verdict->ruled_out_count,
                                     &verdict->ruled_out_room, sizeof *verdict->ruled_out);
    verdict->ruled_out = items;
    if (fits)
        verdict->ruled_out[verdict->ruled_out_count++] = (struct mw_ruled_out){id, text};
    else
        free(text);
}

struct mw_remedy *mw_remedy_add(struct mw_scope *scope, struct mw_verdict *verdict, const char *fmt,
                                ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = text_format(scope, fmt, ap);
    va_end(ap);
    void *items = verdict->remedies;
    bool fits = text && part_reserve(scope, &items, verdict->remedy_count, &verdict->remedy_room,
                                     sizeof *verdict->remedies);
    verdict->remedies = items;
    if (!fits) {
        free(text);
        scope->scrap_remedy = (struct mw_remedy){0};
        return &scope->scrap_remedy;
    }
    struct mw_remedy *remedy = &verdict->remedies[verdict->remedy_count++];
    *remedy = (struct mw_remedy){.action = text};
    return remedy;
}

void mw_remedy_gain(struct mw_remedy *remedy, uint64_t low_bytes, uint64_t high_bytes)
{
    assert(low_bytes <= high_bytes);
    remedy->has_gain = true;
    remedy->gain_low_bytes = low_bytes;
    remedy->gain_high_bytes = high_bytes;
}

void mw_known_add(struct mw_scope *scope, const char *fmt, ...)
{
    struct mw_verdicts *list = scope->verdicts;
    va_list ap;
    va_start(ap, fmt);
    char *text = text_format(scope, fmt, ap);
    va_end(ap);
    void *items = list->known;
    bool fits = text && part_reserve(scope, &items, list->known_count, &list->known_room,
                                     sizeof *list->known);
    list->known = items;
    if (fits)
        list->known[list->known_count++] = text;
    else
        free(text);
}
