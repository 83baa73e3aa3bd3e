/* report/report_markdown.c: what a maintainer needs to see: versions, account, verdicts,
 * parameters, what is missing. Nothing of the target's memory, no arguments, no paths but the
 * program's name: it is made to be pasted into a public issue. Lines are not wrapped: the reader's
 * renderer does that. */
#include "report/emit.h"

#include "report/parts_json.h"
#include "report/screen.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

enum { ENDLESS = 1 << 20 };

/* A cell or a sentence: what Markdown would take for syntax is escaped. */
static void put_md(struct mw_text *text, const char *piece)
{
    for (; *piece; piece++) {
        size_t plain = strcspn(piece, "|<>*`\\[]#\n");
        mw_text_put_bytes(text, MW_STYLE_PLAIN, piece, plain);
        piece += plain;
        if (*piece == '\0')
            return;
        if (*piece == '\n')
            mw_text_put(text, MW_STYLE_PLAIN, " ");
        else
            mw_text_printf(text, MW_STYLE_PLAIN, "\\%c", *piece);
    }
}

static void put_line(struct mw_text *text, const char *line)
{
    mw_text_put(text, MW_STYLE_PLAIN, line);
    mw_text_newline(text);
}

static void put_heading(struct mw_text *text, const char *heading)
{
    mw_text_newline(text);
    mw_text_printf(text, MW_STYLE_PLAIN, "### %s", heading);
    mw_text_newline(text);
    mw_text_newline(text);
}

/* "- label: value" */
static void put_fact(struct mw_text *text, const char *label, const char *value)
{
    mw_text_printf(text, MW_STYLE_PLAIN, "- %s: ", label);
    put_md(text, value);
    mw_text_newline(text);
}

static void put_fact_bytes(struct mw_text *text, const char *label, uint64_t bytes)
{
    char value[96], figure[32];
    if (bytes == MW_UNKNOWN)
        return;
    snprintf(value, sizeof value, "%s %s (%llu bytes)", mw_unit_format(figure, text->unit, bytes),
             text->unit.name, (unsigned long long)bytes);
    put_fact(text, label, value);
}

static const char *program_name(const struct mw_process *process)
{
    const char *path = process->exe ? process->exe : process->comm;
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void md_versions(struct mw_text *text, const struct mw_analysis *analysis)
{
    const struct mw_process *process = &analysis->image.process;
    char value[160];
    put_heading(text, "Environment");
    put_fact(text, "program", program_name(process));
    for (size_t i = 0; i < analysis->runtime_count; i++) {
        snprintf(value, sizeof value, "%s %s", analysis->runtimes[i].kind,
                 analysis->runtimes[i].version);
        put_fact(text, "runtime", value);
    }
    for (size_t i = 0; i < analysis->allocator_count; i++) {
        const struct mw_allocator *allocator = &analysis->allocators[i];
        snprintf(value, sizeof value, "%s %s%s", allocator->kind, allocator->version,
                 !allocator->walked      ? " (recognised, not walked)"
                 : allocator->reconciled ? " (walked; all sums equal its own counters)"
                 : allocator->sample_is_sound
                     ? " (a sample of its arenas walked; the others are estimates)"
                     : " (walked; some sums differ from its own counters)");
        put_fact(text, "allocator", value);
    }
    snprintf(value, sizeof value, "%s, %s", mw_image_kind_name(analysis->image.kind),
             mw_arch_name(analysis->image.arch) ? mw_arch_name(analysis->image.arch) : "?");
    put_fact(text, "target", value);
    if (process->thread_count != MW_UNKNOWN && process->cpus_online != MW_UNKNOWN &&
        process->cpus_allowed != MW_UNKNOWN) {
        snprintf(value, sizeof value, "threads %llu, CPUs online %llu, allowed %llu",
                 (unsigned long long)process->thread_count,
                 (unsigned long long)process->cpus_online,
                 (unsigned long long)process->cpus_allowed);
        put_fact(text, "size", value);
    }
    for (size_t i = 0; i < process->setting_count; i++) {
        const struct mw_setting *setting = &process->settings[i];
        bool is_open = !mw_screen_may_hold_secret(setting->value, strlen(setting->value));
        snprintf(value, sizeof value, "%.60s=%.90s", setting->name,
                 is_open ? setting->value : "(left out: it may hold a secret)");
        put_fact(text, "setting", value);
    }
}

/* Without what only glibc has. */
static void md_slots(struct mw_text *text, const struct mw_allocator *allocator)
{
    char value[200];
    snprintf(value, sizeof value,
             "in use %llu bytes in %llu blocks (%llu mmapped); free %llu bytes in %llu slots",
             (unsigned long long)allocator->in_use_bytes,
             (unsigned long long)allocator->in_use_count,
             (unsigned long long)allocator->mmapped_count,
             (unsigned long long)allocator->free_bytes, (unsigned long long)allocator->free_count);
    put_fact(text, allocator->kind, value);
}

static void md_parameters(struct mw_text *text, const struct mw_heap_parameters *p)
{
    char value[200];
    snprintf(value, sizeof value,
             "mmap_threshold %llu, trim_threshold %llu, top_pad %llu, arena_max %llu, "
             "dynamic threshold %s, tcache_count %llu",
             (unsigned long long)p->mmap_threshold, (unsigned long long)p->trim_threshold,
             (unsigned long long)p->top_pad, (unsigned long long)p->arena_max,
             p->no_dyn_threshold ? "off" : "on", (unsigned long long)p->tcache_count);
    put_fact(text, "malloc parameters in force", value);
}

static void md_allocator(struct mw_text *text, const struct mw_allocator *allocator)
{
    char value[200], limit[48] = "", mmapped[48] = "mmapped ones not counted";
    if (!allocator->walked)
        return;
    if (!mw_allocator_is_glibc(allocator)) {
        md_slots(text, allocator);
        return;
    }
    if (allocator->lacks_parameters)
        put_fact(text, "malloc parameters in force", "not found");
    else
        md_parameters(text, &allocator->parameters);
    if (allocator->arena_limit != MW_UNKNOWN)
        snprintf(limit, sizeof limit, " of at most %llu",
                 (unsigned long long)allocator->arena_limit);
    if (allocator->mmapped_count != MW_UNKNOWN)
        snprintf(mmapped, sizeof mmapped, "%llu mmapped",
                 (unsigned long long)allocator->mmapped_count);
    snprintf(value, sizeof value,
             "%zu arena%s%s; in use %llu bytes in %llu blocks (%s); free "
             "%llu bytes (tops %llu, tcache %llu)",
             allocator->arena_count, allocator->arena_count == 1 ? "" : "s", limit,
             (unsigned long long)allocator->in_use_bytes,
             (unsigned long long)allocator->in_use_count, mmapped,
             (unsigned long long)allocator->free_bytes, (unsigned long long)allocator->top_bytes,
             (unsigned long long)allocator->tcache_bytes);
    put_fact(text, allocator->kind, value);
}

static void md_account(struct mw_text *text, const struct mw_analysis *analysis)
{
    const struct mw_account *account = &analysis->account;
    put_heading(text, "Account");
    put_fact_bytes(text,
                   account->has_rss ? mw_where_total_name(analysis) : "mapped (residency unknown)",
                   mw_where_total(analysis));
    put_fact_bytes(text, "peak RSS", analysis->image.process.vm_hwm);
    if (account->has_swap)
        put_fact_bytes(text, "swap", account->swap_bytes);
    if (analysis->cgroup.version != 0) {
        put_fact_bytes(text, "cgroup usage", analysis->cgroup.usage);
        put_fact_bytes(text, "cgroup limit", analysis->cgroup.limit);
    }
    for (size_t i = 0; i < analysis->allocator_count; i++)
        md_allocator(text, &analysis->allocators[i]);
    mw_text_newline(text);
    put_line(text, "| category | resident bytes | size bytes | count |");
    put_line(text, "|---|---:|---:|---:|");
    for (size_t i = 0; i < MW_CATEGORY_COUNT; i++) {
        const struct mw_account_row *row = &account->rows[i];
        if (row->size_bytes == 0)
            continue;
        char resident[32] = "-";
        if (row->rss_bytes != MW_UNKNOWN)
            snprintf(resident, sizeof resident, "%llu", (unsigned long long)row->rss_bytes);
        mw_text_printf(text, MW_STYLE_PLAIN, "| %s | %s | %llu | %llu |",
                       mw_category_id(row->category), resident, (unsigned long long)row->size_bytes,
                       (unsigned long long)row->count);
        mw_text_newline(text);
    }
}

static void md_verdict(struct mw_text *text, const struct mw_verdict *verdict)
{
    char figure[32];
    mw_text_printf(text, MW_STYLE_PLAIN,
                   "- **%s** %s %s `%s` (%s%s%s): ", mw_class_name(verdict->verdict_class),
                   mw_unit_format(figure, text->unit, verdict->bytes), text->unit.name, verdict->id,
                   mw_basis_name(verdict->basis), verdict->part_of ? ", part of " : "",
                   verdict->part_of ? verdict->part_of : "");
    put_md(text, verdict->summary);
    mw_text_newline(text);
    for (size_t i = 0; i < verdict->evidence_count; i++) {
        if (verdict->evidence[i].names_file)
            continue;
        mw_text_put(text, MW_STYLE_PLAIN, "  - ");
        put_md(text, verdict->evidence[i].text);
        mw_text_printf(text, MW_STYLE_PLAIN, " (%s)", verdict->evidence[i].source);
        mw_text_newline(text);
    }
    for (size_t i = 0; i < verdict->ruled_out_count; i++) {
        mw_text_printf(text, MW_STYLE_PLAIN, "  - not `%s`: ", verdict->ruled_out[i].id);
        put_md(text, verdict->ruled_out[i].why);
        mw_text_newline(text);
    }
}

static void md_verdicts(struct mw_text *text, const struct mw_analysis *analysis)
{
    const struct mw_verdicts *verdicts = &analysis->verdicts;
    put_heading(text, "Verdicts");
    for (size_t i = 0; i < verdicts->count; i++)
        if (!verdicts->items[i].minor || i + 1 == verdicts->count)
            md_verdict(text, &verdicts->items[i]);
    if (verdicts->was)
        put_fact(text, "freed memory last held (kinds)", verdicts->was);
    if (verdicts->peak)
        put_fact(text, "peak", verdicts->peak);
    if (verdicts->container)
        put_fact(text, "container", verdicts->container);
    for (size_t i = 0; i < verdicts->known_count; i++)
        put_fact(text, "known", verdicts->known[i]);
}

static void md_missing(struct mw_text *text, const struct mw_analysis *analysis)
{
    if (analysis->findings.count == 0 && !analysis->is_partial)
        return;
    put_heading(text, "What is incomplete");
    if (analysis->is_partial)
        put_fact(text, "partial", analysis->why_partial.text);
    for (size_t i = 0; i < analysis->findings.count; i++) {
        const struct mw_finding *finding = &analysis->findings.items[i];
        char value[320];
        snprintf(value, sizeof value, "%s (%llu times, %llu bytes)", finding->text,
                 (unsigned long long)finding->count, (unsigned long long)finding->bytes);
        put_fact(text, finding->kind, value);
    }
}

enum mw_status mw_report_markdown(const struct mw_analysis *analysis, struct mw_sink sink,
                                  struct mw_error *err)
{
    struct mw_text text;
    char value[160], when[32], paused[32];
    mw_text_init(&text, sink, (struct mw_text_look){ENDLESS, false});
    text.unit = mw_unit_for(mw_where_total(analysis));
    mw_text_put(&text, MW_STYLE_PLAIN, "## Memory of ");
    put_md(&text, program_name(&analysis->image.process));
    mw_text_newline(&text);
    mw_text_newline(&text);
    snprintf(value, sizeof value, "memwhy %s, %s; %llu pause%s, %s in all.", MW_VERSION,
             mw_clock_rfc3339(when, analysis->taken_at),
             (unsigned long long)analysis->image.pauses.count,
             analysis->image.pauses.count == 1 ? "" : "s",
             mw_screen_seconds(paused, (double)analysis->image.pauses.total_ns / 1e9));
    put_line(&text, value);
    md_versions(&text, analysis);
    md_account(&text, analysis);
    md_verdicts(&text, analysis);
    md_missing(&text, analysis);
    return mw_text_finish(&text, err);
}
