/* report/refs_report.c: what `memwhy refs` found, for programs and for people. */
#include "report/refs_report.h"

#include "report/parts_json.h"
#include "report/screen.h"

#include <assert.h>
#include <stdio.h>

const char *mw_refs_kind_name(enum mw_refs_kind kind)
{
    static const char *const names[] = {
        [MW_REFS_UNMAPPED] = "unmapped", [MW_REFS_BLOCK] = "block",   [MW_REFS_HEAP_FREE] = "free",
        [MW_REFS_STACK] = "stack",       [MW_REFS_MODULE] = "module", [MW_REFS_MAPPING] = "mapping",
    };
    assert((size_t)kind < sizeof names / sizeof *names);
    return names[kind];
}

/* ---- JSON ---- */

static void json_step(struct mw_json *json, const struct mw_refs_step *step)
{
    mw_field_object_begin(json, MW_SCOPE_refs_step);
    mw_field_address(json, MW_F(refs_step, address), step->block.address);
    mw_field_u64(json, MW_F(refs_step, size_bytes), step->block.size_bytes);
    mw_field_u64(json, MW_F(refs_step, offset), step->offset);
    mw_field_object_end(json);
}

static void json_root(struct mw_json *json, const struct mw_refs_root *root)
{
    mw_field_object_begin(json, MW_SCOPE_refs_root);
    mw_field_text(json, MW_F(refs_root, kind), mw_root_kind_name(root->place.kind));
    if (root->place.address)
        mw_field_address(json, MW_F(refs_root, address), root->place.address);
    else
        mw_field_null(json, MW_F(refs_root, address));
    mw_field_text(json, MW_F(refs_root, name), mw_text_or_null(root->name));
    mw_field_u64(json, MW_F(refs_root, tid),
                 root->place.tid ? (uint64_t)root->place.tid : MW_UNKNOWN);
    mw_field_object_end(json);
}

static void json_block(struct mw_json *json, const struct mw_analysis *analysis,
                       const struct mw_refs *refs)
{
    mw_field_object_begin(json, MW_SCOPE_refs_block);
    mw_field_address(json, MW_F(refs_block, address), refs->block.address);
    mw_field_u64(json, MW_F(refs_block, offset), refs->address - refs->block.address);
    mw_field_u64(json, MW_F(refs_block, size_bytes), refs->block.size_bytes);
    mw_field_u64(json, MW_F(refs_block, usable_bytes), refs->block.usable_bytes);
    mw_field_text(json, MW_F(refs_block, layout), mw_text_or_null(refs->layout));
    mw_field_bool(json, MW_F(refs_block, reachable), refs->is_reachable);
    mw_field_bool(json, MW_F(refs_block, exact), mw_reach_is_exact(&analysis->reach));
    mw_field_u64(json, MW_F(refs_block, retained_count), refs->retained_count);
    mw_field_u64(json, MW_F(refs_block, retained_bytes), refs->retained_bytes);
    mw_field_object_end(json);
}

static void json_lists(struct mw_json *json, const struct mw_refs *refs)
{
    mw_field_u64(json, MW_F(refs, referrer_count), refs->referrer_total);
    mw_field_key(json, MW_F(refs, referrers));
    mw_json_array_begin(json);
    for (size_t i = 0; i < refs->referrer_count; i++)
        json_step(json, &refs->referrers[i]);
    mw_json_array_end(json);
    mw_field_u64(json, MW_F(refs, root_count), refs->root_total);
    mw_field_key(json, MW_F(refs, roots));
    mw_json_array_begin(json);
    for (size_t i = 0; i < refs->root_count; i++)
        json_root(json, &refs->roots[i]);
    mw_json_array_end(json);
    mw_field_key(json, MW_F(refs, path));
    mw_json_array_begin(json);
    for (size_t i = 0; i < refs->path_count && !mw_json_failed(json); i++)
        json_step(json, &refs->path[i]);
    mw_json_array_end(json);
    if (!refs->has_path_root) {
        mw_field_null(json, MW_F(refs, path_root));
        return;
    }
    mw_field_key(json, MW_F(refs, path_root));
    json_root(json, &refs->path_root);
}

enum mw_status mw_report_refs_json(const struct mw_analysis *analysis, const struct mw_refs *refs,
                                   struct mw_sink sink, struct mw_error *err)
{
    struct mw_json json;
    mw_json_init(&json, sink);
    mw_field_object_begin(&json, MW_SCOPE_refs);
    mw_field_text(&json, MW_F(refs, schema), "memwhy.refs/1");
    mw_field_text(&json, MW_F(refs, memwhy_version), MW_VERSION);
    mw_field_time(&json, MW_F(refs, taken_at), analysis->taken_at);
    mw_field_key(&json, MW_F(refs, target));
    mw_json_target(&json, analysis);
    mw_field_address(&json, MW_F(refs, address), refs->address);
    mw_field_text(&json, MW_F(refs, kind), mw_refs_kind_name(refs->kind));
    mw_field_text(&json, MW_F(refs, name), mw_text_or_null(refs->name));
    mw_field_u64(&json, MW_F(refs, tid), refs->tid ? (uint64_t)refs->tid : MW_UNKNOWN);
    if (refs->kind == MW_REFS_BLOCK) {
        mw_field_key(&json, MW_F(refs, block));
        json_block(&json, analysis, refs);
    } else {
        mw_field_null(&json, MW_F(refs, block));
    }
    json_lists(&json, refs);
    mw_field_key(&json, MW_F(refs, findings));
    mw_json_findings(&json, &analysis->findings);
    mw_field_key(&json, MW_F(refs, partial));
    mw_json_partial(&json, analysis);
    mw_field_object_end(&json);
    return mw_json_finish(&json, err);
}

/* ---- for people ---- */

enum { LINE_BYTES = 384, PATH_ENDS = 6 };

static void put_line(struct mw_text *text, const char *label, const char *words)
{
    mw_screen_label(text, label);
    mw_text_wrap(text, MW_SCREEN_TEXT_COLUMN, 0, MW_STYLE_PLAIN, words);
    mw_text_newline(text);
}

static void root_words(const struct mw_refs_root *root, char words[LINE_BYTES])
{
    char place[64] = "", thread[32] = "";
    if (root->place.address)
        snprintf(place, sizeof place, " 0x%llx", (unsigned long long)root->place.address);
    if (root->place.tid)
        snprintf(thread, sizeof thread, " of thread %d", root->place.tid);
    snprintf(words, LINE_BYTES, "%s%s%s%s%s", mw_root_kind_name(root->place.kind), thread, place,
             root->name[0] ? "  " : "", root->name);
}

static void step_words(const struct mw_refs_step *step, char words[LINE_BYTES])
{
    char offset[32] = "";
    if (step->offset != MW_UNKNOWN)
        snprintf(offset, sizeof offset, " +0x%llx", (unsigned long long)step->offset);
    snprintf(words, LINE_BYTES, "block 0x%llx%s (%llu bytes)",
             (unsigned long long)step->block.address, offset,
             (unsigned long long)step->block.usable_bytes);
}

static void put_block(struct mw_text *text, const struct mw_analysis *analysis,
                      const struct mw_refs *refs)
{
    char words[LINE_BYTES], bytes[32], count[32];
    bool is_exact = mw_reach_is_exact(&analysis->reach);
    snprintf(words, sizeof words, "byte %llu of a block of %llu usable bytes at 0x%llx%s%s",
             (unsigned long long)(refs->address - refs->block.address),
             (unsigned long long)refs->block.usable_bytes, (unsigned long long)refs->block.address,
             refs->layout[0] ? ": " : "", refs->layout);
    put_line(text, "what", words);
    if (refs->is_reachable)
        snprintf(words, sizeof words,
                 "held: a register, a stack, data or other memory leads to it");
    else
        snprintf(words, sizeof words, "%s: %s", is_exact ? "lost" : "perhaps lost",
                 refs->is_direct ? "nothing leads to it" : "only blocks that are lost lead to it");
    put_line(text, "state", words);
    snprintf(words, sizeof words, "%s in %s block%s: what %s lost with it, it included",
             mw_bytes_format(bytes, refs->retained_bytes),
             mw_count_format(count, refs->retained_count), refs->retained_count == 1 ? "" : "s",
             !refs->is_reachable && is_exact ? "is" : "would be");
    put_line(text, "holds", words);
}

static void put_referrers(struct mw_text *text, const struct mw_refs *refs, size_t max)
{
    char words[LINE_BYTES];
    size_t shown = 0;
    for (size_t i = 0; i < refs->root_count && shown < max; i++, shown++) {
        root_words(&refs->roots[i], words);
        put_line(text, i == 0 ? "roots" : "", words);
    }
    for (size_t i = 0; i < refs->referrer_count && shown < max; i++, shown++) {
        step_words(&refs->referrers[i], words);
        put_line(text, i == 0 ? "from" : "", words);
    }
    uint64_t total = refs->root_total + refs->referrer_total;
    if (total > shown) {
        snprintf(words, sizeof words, "and %llu more", (unsigned long long)(total - shown));
        put_line(text, "", words);
    }
    if (total == 0)
        put_line(text, "from", "nothing points to it");
}

static void put_path(struct mw_text *text, const struct mw_refs *refs)
{
    char words[LINE_BYTES];
    const char *label = "path";
    if (refs->has_path_root) {
        root_words(&refs->path_root, words);
        put_line(text, label, words);
        label = "";
    }
    for (size_t i = 0; i < refs->path_count; i++) {
        if (i == PATH_ENDS && refs->path_count > 2 * PATH_ENDS) {
            size_t left_out = refs->path_count - 2 * PATH_ENDS;
            snprintf(words, sizeof words, "... %zu more blocks", left_out);
            put_line(text, label, words);
            i += left_out;
        }
        step_words(&refs->path[i], words);
        put_line(text, label, words);
        label = "";
    }
}

static void put_place(struct mw_text *text, const struct mw_refs *refs)
{
    char words[LINE_BYTES];
    static const char *const about[] = {
        [MW_REFS_UNMAPPED] = "nothing is mapped here",
        [MW_REFS_BLOCK] = "",
        [MW_REFS_HEAP_FREE] = "memory of malloc that is no block in use: free, cached or its own",
        [MW_REFS_STACK] = "a stack",
        [MW_REFS_MODULE] = "code, data or another part of a mapped file",
        [MW_REFS_MAPPING] = "anonymous memory",
    };
    char thread[40] = "";
    if (refs->tid)
        snprintf(thread, sizeof thread, " of thread %d", refs->tid);
    snprintf(words, sizeof words, "%s%s%s%s", about[refs->kind], thread, refs->name[0] ? ": " : "",
             refs->name);
    put_line(text, "what", words);
}

enum mw_status mw_report_refs_text(const struct mw_analysis *analysis, const struct mw_refs *refs,
                                   const struct mw_report_text_options *options,
                                   struct mw_sink sink, struct mw_error *err)
{
    struct mw_text text;
    const struct mw_screen_word word = mw_screen_word(options->target);
    char command[MW_SCREEN_COMMAND_BYTES], head[64];
    mw_text_init(&text, sink, options->look);
    mw_screen_title(&text, analysis, "refs", options->target);
    mw_text_newline(&text);
    snprintf(head, sizeof head, "0x%llx", (unsigned long long)refs->address);
    mw_text_put(&text, MW_STYLE_BOLD, head);
    mw_text_newline(&text);
    if (refs->kind == MW_REFS_BLOCK) {
        put_block(&text, analysis, refs);
        put_referrers(&text, refs, options->count_max);
        put_path(&text, refs);
    } else {
        put_place(&text, refs);
    }
    mw_text_newline(&text);
    mw_screen_partial(&text, analysis);
    mw_text_put(&text, MW_STYLE_BOLD, "NEXT");
    if (refs->kind == MW_REFS_BLOCK)
        snprintf(command, sizeof command, "memwhy blocks %s --size %llu --fields", word.text,
                 (unsigned long long)refs->block.size_bytes);
    else
        snprintf(command, sizeof command, "memwhy maps %s", word.text);
    mw_screen_command(&text, command,
                      refs->kind == MW_REFS_BLOCK ? "what blocks of this size have in common"
                                                  : "every mapping with its owner");
    mw_screen_next_of_stdin(&text, options->target);
    return mw_text_finish(&text, err);
}
