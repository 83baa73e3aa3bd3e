/* report/report_text.c: the one screen: header, verdicts, account, next commands. */
#include "report/screen.h"

#include "report/parts_json.h"

#include <stdio.h>
#include <string.h>

enum { COMMAND_COLUMNS_MAX = 40, HEADER_GAP = 2, MANY_THREADS = 64 };

char *mw_screen_seconds(char text[32], double seconds)
{
    if (seconds < 0.1)
        snprintf(text, 32, "%.*f ms", seconds < 0.01 ? 1 : 0, seconds * 1e3);
    else
        snprintf(text, 32, "%.2f s", seconds);
    return text;
}

/* A piece of a header line, on a new line when this one is full. */
static void put_piece(struct mw_text *text, unsigned gap, const char *piece)
{
    if (piece[0] == '\0')
        return;
    if (text->column > 0 && text->column + gap + mw_text_width(piece) > text->look.width) {
        mw_text_newline(text);
        mw_text_pad(text, MW_SCREEN_LABEL_COLUMN);
    } else if (text->column > 0) {
        mw_text_pad(text, text->column + gap);
    }
    unsigned room = text->look.width - text->column;
    bool fits = mw_text_width(piece) <= room;
    mw_text_put_bytes(text, MW_STYLE_PLAIN, piece,
                      fits ? strlen(piece) : mw_text_fit(piece, room - 3));
    if (!fits)
        mw_text_put(text, MW_STYLE_PLAIN, "...");
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

bool mw_screen_may_hold_secret(const char *argument, size_t length)
{
    static const char *const words[] = {"pass", "secret", "token", "key", "auth", "cred", "pwd"};
    if (memchr(argument, '@', length))
        return true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t word = strlen(words[i]);
        for (size_t at = 0; at + word <= length; at++)
            if (strncasecmp(argument + at, words[i], word) == 0)
                return true;
    }
    return false;
}

/* An argument that is a plain word: no program text, no query, no address with a user in it. */
static bool is_plain(const char *argument, size_t length)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._/+:=,-";
    return strspn(argument, allowed) >= length && !mw_screen_may_hold_secret(argument, length);
}

/* Program and first arguments, up to the first that is not plain. */
static void command_format(char piece[128], const struct mw_process *process)
{
    const char *command = process->command ? process->command : process->comm;
    size_t program = strcspn(command, " ");
    size_t used = 0;
    for (const char *at = command; *at && used < COMMAND_COLUMNS_MAX;) {
        size_t length = strcspn(at, " ");
        bool is_program = at == command;
        bool is_code = length == 2 && (strncmp(at, "-c", 2) == 0 || strncmp(at, "-e", 2) == 0);
        if (!is_program && (is_code || !is_plain(at, length)))
            break;
        for (size_t i = 0; is_program && i + 1 < program; i++) /* without its folders */
            if (command[i] == '/') {
                at = command + i + 1;
                length = program - i - 1;
            }
        if (used > 0 && used + 1 + length > COMMAND_COLUMNS_MAX)
            break;
        length = length > COMMAND_COLUMNS_MAX ? COMMAND_COLUMNS_MAX : length;
        used +=
            (size_t)snprintf(piece + used, 128 - used, "%s%.*s", used ? " " : "", (int)length, at);
        at += length;
        at += strspn(at, " ");
    }
    piece[used] = '\0';
}

static const struct runtime_words {
    const char *kind, *label, *heap;
} runtime_words[] = {
    {"dotnet", ".NET", "GC heap"},        {"jvm", "JDK", "Java heap"},
    {"cpython", "Python", "Python heap"}, {"go", "Go", "Go heap"},
    {"node", "Node", "V8 heap"},
};

static const char *runtime_label(const char *kind)
{
    for (size_t i = 0; i < sizeof runtime_words / sizeof *runtime_words; i++)
        if (strcmp(kind, runtime_words[i].kind) == 0)
            return runtime_words[i].label;
    return kind;
}

const char *mw_screen_heap_name(const struct mw_analysis *analysis)
{
    for (size_t i = 0; i < sizeof runtime_words / sizeof *runtime_words; i++)
        if (analysis->runtime_count == 1 &&
            strcmp(analysis->runtimes[0].kind, runtime_words[i].kind) == 0)
            return runtime_words[i].heap;
    return "managed heap";
}

static void put_software(struct mw_text *text, const struct mw_analysis *analysis)
{
    char piece[128];
    for (size_t i = 0; i < analysis->runtime_count; i++) {
        const struct mw_runtime *runtime = &analysis->runtimes[i];
        /* "17.0.15+6-Debian-1deb12u1": the build's name is in the JSON */
        snprintf(piece, sizeof piece, "%s%s%.*s", runtime_label(runtime->kind),
                 runtime->version[0] ? " " : "", (int)strcspn(runtime->version, "+"),
                 runtime->version);
        put_piece(text, HEADER_GAP, piece);
    }
    for (size_t i = 0; i < analysis->allocator_count; i++) {
        const struct mw_allocator *allocator = &analysis->allocators[i];
        snprintf(piece, sizeof piece, "%s%s%s", allocator->kind, allocator->version[0] ? " " : "",
                 allocator->version);
        put_piece(text, HEADER_GAP, piece);
    }
}

/* "paused 0.36 s, 4 stops"; with the longest one when there is room on the line. */
static void put_pauses(struct mw_text *text, const struct mw_pauses *pauses)
{
    char piece[128], total[32], longest[32];
    mw_screen_seconds(total, (double)pauses->total_ns / 1e9);
    mw_screen_seconds(longest, (double)pauses->longest_ns / 1e9);
    int length = snprintf(piece, sizeof piece, "paused %s, %llu stop%s", total,
                          (unsigned long long)pauses->count, pauses->count == 1 ? "" : "s");
    if (pauses->count == 0)
        snprintf(piece, sizeof piece, "not paused");
    else if (pauses->count > 1 &&
             text->column + HEADER_GAP + (unsigned)length + 15 <= text->look.width)
        snprintf(piece + length, sizeof piece - (size_t)length, ", longest %s", longest);
    put_piece(text, HEADER_GAP, piece);
}

static void put_process(struct mw_text *text, const struct mw_analysis *analysis)
{
    const struct mw_process *process = &analysis->image.process;
    char piece[128], figure[32];
    if (process->uptime_seconds >= 0) {
        snprintf(piece, sizeof piece, "up %s", mw_duration_format(figure, process->uptime_seconds));
        put_piece(text, HEADER_GAP, piece);
    }
    if (process->thread_count != MW_UNKNOWN && process->thread_count >= MANY_THREADS) {
        snprintf(piece, sizeof piece, "%s threads", mw_count_format(figure, process->thread_count));
        put_piece(text, HEADER_GAP, piece);
    }
    if (process->cpus_online != MW_UNKNOWN) {
        snprintf(piece, sizeof piece, "%llu CPU%s", (unsigned long long)process->cpus_online,
                 process->cpus_online == 1 ? "" : "s");
        put_piece(text, HEADER_GAP, piece);
    }
    if (analysis->image.kind == MW_IMAGE_LIVE) {
        put_pauses(text, &analysis->image.pauses);
    } else {
        put_piece(text, HEADER_GAP, mw_image_kind_name(analysis->image.kind));
    }
}

void mw_screen_title(struct mw_text *text, const struct mw_analysis *analysis, const char *command,
                     const char *target)
{
    char piece[128];
    const char *name = analysis->image.kind == MW_IMAGE_LIVE ? target : base_name(target);
    snprintf(piece, sizeof piece, "memwhy %s%s%.80s", command, command[0] ? " " : "", name);
    put_piece(text, HEADER_GAP, piece);
    command_format(piece, &analysis->image.process);
    put_piece(text, HEADER_GAP, piece);
    put_software(text, analysis);
    put_process(text, analysis);
    mw_text_newline(text);
}

/* Figures of the second line: a thousand and more without decimals, all in the screen's unit. */
static char *rough_format(char figure[32], struct mw_unit unit, uint64_t bytes)
{
    if (bytes / unit.bytes >= 1000)
        unit.decimals = 0;
    return mw_unit_format(figure, unit, bytes);
}

static void put_runtime_figures(struct mw_text *text, const struct mw_analysis *analysis)
{
    const struct mw_account *account = &analysis->account;
    char piece[128], figure[32];
    if (analysis->runtime_count != 1 || !account->has_rss)
        return;
    const struct mw_runtime *runtime = &analysis->runtimes[0];
    uint64_t managed = account->rows[MW_CATEGORY_MANAGED_HEAP].rss_bytes;
    if (runtime->heap_rss != MW_UNKNOWN)
        managed = runtime->heap_rss;
    if (managed == 0 || managed > account->rss_bytes)
        return;
    snprintf(piece, sizeof piece, "%s %s", mw_screen_heap_name(analysis),
             mw_unit_format(figure, text->unit, managed));
    put_piece(text, 3, piece);
    snprintf(piece, sizeof piece, "gap %s",
             mw_unit_format(figure, text->unit, account->rss_bytes - managed));
    put_piece(text, 3, piece);
}

static void put_in_use(struct mw_text *text, const struct mw_analysis *analysis)
{
    const struct mw_account_row *in_use = &analysis->account.rows[MW_CATEGORY_MALLOC_IN_USE];
    char piece[128], figure[32];
    bool is_sampled = false;
    for (size_t i = 0; i < analysis->allocator_count; i++)
        is_sampled = is_sampled || analysis->allocators[i].sampled_count > 0;
    if (!analysis->heap_was_read || !analysis->account.has_rss || in_use->rss_bytes == 0)
        return;
    snprintf(piece, sizeof piece, "in use %s%s", is_sampled ? "~" : "",
             mw_unit_format(figure, text->unit, in_use->rss_bytes));
    put_piece(text, 3, piece);
}

static void put_container(struct mw_text *text, const struct mw_cgroup *cgroup)
{
    char piece[128], usage[32], limit[32];
    if (cgroup->version == 0 || cgroup->usage == MW_UNKNOWN)
        return;
    rough_format(usage, text->unit, cgroup->usage);
    if (cgroup->limit == MW_UNKNOWN || cgroup->limit == 0)
        snprintf(piece, sizeof piece, "cgroup %s %s, no limit", usage, text->unit.name);
    else
        snprintf(piece, sizeof piece, "container %s %s of %s (%.0f%%)", usage, text->unit.name,
                 rough_format(limit, text->unit, cgroup->limit),
                 (double)cgroup->usage * 100 / (double)cgroup->limit);
    put_piece(text, 3, piece);
}

static void put_figures(struct mw_text *text, const struct mw_analysis *analysis)
{
    const struct mw_account *account = &analysis->account;
    const struct mw_process *process = &analysis->image.process;
    char piece[128], figure[32];
    snprintf(piece, sizeof piece, "%s %s %s", mw_where_total_name(analysis),
             mw_unit_format(figure, text->unit, mw_where_total(analysis)), text->unit.name);
    mw_text_put(text, MW_STYLE_BOLD, piece);
    if (!account->has_rss)
        put_piece(text, 3, "what was resident is not known: sizes throughout");
    if (process->vm_hwm != MW_UNKNOWN && process->vm_hwm > account->rss_bytes && account->has_rss) {
        snprintf(piece, sizeof piece, "peak %s", rough_format(figure, text->unit, process->vm_hwm));
        put_piece(text, 3, piece);
    }
    put_runtime_figures(text, analysis);
    put_in_use(text, analysis);
    if (account->has_swap && account->swap_bytes > 0) {
        snprintf(piece, sizeof piece, "swap %s",
                 mw_unit_format(figure, text->unit, account->swap_bytes));
        put_piece(text, 3, piece);
    }
    put_container(text, &analysis->cgroup);
    mw_text_newline(text);
}

void mw_screen_header(struct mw_text *text, const struct mw_analysis *analysis,
                      const struct mw_report_text_options *options)
{
    mw_screen_title(text, analysis, "", options->target);
    put_figures(text, analysis);
    mw_text_newline(text);
}

void mw_screen_why_partial(struct mw_text *text, const struct mw_error *why)
{
    mw_text_put(text, MW_STYLE_BOLD, "PARTIAL");
    mw_text_pad(text, MW_SCREEN_TEXT_COLUMN);
    mw_text_wrap(text, MW_SCREEN_TEXT_COLUMN, 0, MW_STYLE_PLAIN, why->text);
    mw_text_newline(text);
    if (why->hint[0]) {
        mw_screen_label(text, "hint");
        mw_text_wrap(text, MW_SCREEN_TEXT_COLUMN, 0, MW_STYLE_PLAIN, why->hint);
        mw_text_newline(text);
    }
    mw_text_newline(text);
}

void mw_screen_partial(struct mw_text *text, const struct mw_analysis *analysis)
{
    if (analysis->is_partial)
        mw_screen_why_partial(text, &analysis->why_partial);
}

void mw_screen_report(struct mw_text *text, const struct mw_analysis *analysis,
                      const struct mw_report_text_options *options)
{
    text->unit = mw_unit_for(mw_where_total(analysis));
    mw_screen_header(text, analysis, options);
    mw_screen_partial(text, analysis);
    mw_screen_verdicts(text, analysis, options);
    mw_screen_where(text, analysis, options);
    mw_screen_notes(text, analysis);
    mw_screen_next(text, analysis, options);
}

enum mw_status mw_report_text(const struct mw_analysis *analysis,
                              const struct mw_report_text_options *options, struct mw_sink sink,
                              struct mw_error *err)
{
    struct mw_text text;
    mw_text_init(&text, sink, options->look);
    mw_screen_report(&text, analysis, options);
    return mw_text_finish(&text, err);
}
