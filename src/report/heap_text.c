/* report/heap_text.c: the screen of `memwhy heap`: totals, parameters in force, arenas, sizes. */
#include "report/screen.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the widest row of the arenas takes; a narrower screen leaves out the last columns. */
enum { ARENA_COLUMNS = 96, NARROW_LESS = 2 };

struct heap_screen {
    struct mw_text *text;
    const struct mw_allocator *allocator;
    const size_t *order; /* of the rows of the table at hand */
};

/* Is the figure an estimate, when a sample of the arenas was read? */
static bool is_estimated(const struct mw_allocator *allocator, enum mw_field field)
{
    return allocator->sampled_count > 0 && field != MW_F(allocator, mmapped_bytes) &&
           field != MW_F(allocator, system_bytes) && field != MW_F(allocator, top_bytes) &&
           field != MW_F(allocator, skipped_bytes);
}

/* "  in use     318.4  2,041,339 blocks" */
static void put_total(struct heap_screen *screen, unsigned depth, enum mw_field field,
                      uint64_t bytes, const char *note)
{
    struct mw_text *text = screen->text;
    char figure[40], digits[32];
    if (bytes == MW_UNKNOWN)
        snprintf(figure, sizeof figure, "-");
    else
        snprintf(figure, sizeof figure, "%s%s", is_estimated(screen->allocator, field) ? "~" : "",
                 mw_unit_format(digits, text->unit, bytes));
    mw_text_pad(text, 2 + 2 * depth);
    mw_text_put(text, MW_STYLE_PLAIN, mw_field_row(field)->heading);
    mw_text_put_right(text, 28, figure);
    if (note[0]) {
        mw_text_pad(text, 30);
        mw_text_wrap(text, 30, 0, MW_STYLE_PLAIN, note);
    }
    mw_text_newline(text);
}

/* The kinds of free chunks that glibc alone has. */
static void put_free_kinds(struct heap_screen *screen)
{
    const struct mw_allocator *a = screen->allocator;
    const char *about = a->sampled_count > 0 ? "~" : "";
    char note[160], count[32], figure[32];
    put_total(screen, 1, MW_F(allocator, trimmable_bytes), a->trimmable_bytes,
              "what malloc_trim(0) would give back");
    snprintf(note, sizeof note, "%s%s chunks cached by threads", about,
             mw_count_format(count, a->tcache_count));
    put_total(screen, 1, MW_F(allocator, tcache_bytes), a->tcache_bytes, note);
    snprintf(note, sizeof note, "%s%s chunks", about, mw_count_format(count, a->fastbin_count));
    put_total(screen, 1, MW_F(allocator, fastbin_bytes), a->fastbin_bytes, note);
    snprintf(note, sizeof note, "%s of it resident in thread arenas: malloc_trim leaves it",
             mw_unit_format(figure, screen->text->unit, a->thread_top_rss));
    put_total(screen, 1, MW_F(allocator, top_bytes), a->top_bytes, a->thread_top_rss ? note : "");
}

static void put_totals(struct heap_screen *screen)
{
    bool is_glibc = mw_allocator_is_glibc(screen->allocator);
    const struct mw_allocator *a = screen->allocator;
    const char *about = a->sampled_count > 0 ? "~" : "";
    char note[160], count[32], figure[32], margin[48] = "";
    if (a->sampled_count > 0)
        snprintf(margin, sizeof margin, "± %s, ",
                 mw_unit_format(figure, screen->text->unit, a->in_use_margin_bytes));
    snprintf(note, sizeof note, "%s%s%s blocks", margin, about,
             mw_count_format(count, a->in_use_count));
    put_total(screen, 0, MW_F(allocator, in_use_bytes), a->in_use_bytes, note);
    if (a->mmapped_count == MW_UNKNOWN)
        snprintf(note, sizeof note,
                 "blocks with a mapping of their own could not be counted, and are in none of "
                 "these figures");
    else
        snprintf(note, sizeof note, "%s blocks with a mapping of their own",
                 mw_count_format(count, a->mmapped_count));
    put_total(screen, 1, MW_F(allocator, mmapped_bytes), a->mmapped_bytes, note);
    snprintf(note, sizeof note, "%s%s%s chunks", margin, about,
             mw_count_format(count, a->free_count));
    put_total(screen, 0, MW_F(allocator, free_bytes), a->free_bytes, note);
    put_total(screen, 1, MW_F(allocator, free_resident_bytes), a->free_resident_bytes,
              is_glibc ? "" : "in groups of slots that hold live blocks, too");
    if (is_glibc)
        put_free_kinds(screen);
    put_total(screen, 0, MW_F(allocator, metadata_bytes), a->metadata_bytes,
              is_glibc ? "headers, fences, gaps" : "headers of groups, gaps, pages of metadata");
    if (a->skipped_bytes > 0)
        put_total(screen, 0, MW_F(allocator, skipped_bytes), a->skipped_bytes,
                  "damaged, not parsed: see the notes");
    put_total(screen, 0, MW_F(allocator, system_bytes), a->system_bytes, "all of these together");
}

/* musl's malloc cannot be set; what decides when it gives memory back takes the place. */
static void put_rules(struct mw_text *text, const struct mw_allocator *allocator)
{
    char line[320];
    mw_text_newline(text);
    mw_text_put(text, MW_STYLE_BOLD, "PARAMETERS");
    mw_text_put(text, MW_STYLE_PLAIN, "  none: musl's malloc has no settings and no malloc_trim");
    mw_text_newline(text);
    snprintf(line, sizeof line,
             "up to 32 blocks of one size share a group, which is given back when the last of them "
             "is freed; blocks of %llu bytes and more have a mapping of their own",
             (unsigned long long)allocator->parameters.mmap_threshold);
    mw_text_pad(text, 2);
    mw_text_wrap(text, 2, 0, MW_STYLE_PLAIN, line);
    mw_text_newline(text);
}

/* Names in the environment that set malloc's parameters. */
static bool sets_malloc(const char *name)
{
    return strncmp(name, "MALLOC_", 7) == 0 || strcmp(name, "GLIBC_TUNABLES") == 0;
}

static void put_environment(struct mw_text *text, const struct mw_process *process)
{
    bool any = false;
    mw_text_pad(text, 2);
    mw_text_put(text, MW_STYLE_PLAIN, "environment:");
    for (size_t i = 0; i < process->setting_count; i++) {
        if (!sets_malloc(process->settings[i].name))
            continue;
        any = true;
        mw_text_pad(text, text->column + 1);
        mw_text_printf(text, MW_STYLE_PLAIN, "%.80s=%.200s", process->settings[i].name,
                       process->settings[i].value);
    }
    if (!any)
        mw_text_put(text, MW_STYLE_PLAIN,
                    process->has_settings ? " sets none of them" : " could not be read");
    mw_text_newline(text);
}

static void put_parameters_in_force(struct mw_text *text, const struct mw_heap_parameters *p)
{
    char line[512], mmap[32], trim[32], pad[32], cache[32];
    snprintf(line, sizeof line,
             "mmap_threshold %s, trim_threshold %s (%s), top_pad %s, arena_max %llu%s, "
             "mmap_max %llu, tcache %llu of at most %s per size and thread",
             mw_bytes_format(mmap, p->mmap_threshold), mw_bytes_format(trim, p->trim_threshold),
             p->no_dyn_threshold ? "fixed" : "both adapt", mw_bytes_format(pad, p->top_pad),
             (unsigned long long)p->arena_max, p->arena_max == 0 ? " (none set)" : "",
             (unsigned long long)p->mmaps_max, (unsigned long long)p->tcache_count,
             mw_bytes_format(cache, p->tcache_max_bytes));
    mw_text_pad(text, 2);
    mw_text_wrap(text, 2, 0, MW_STYLE_PLAIN, line);
    mw_text_newline(text);
    if (p->thp_pagesize || p->hp_pagesize) {
        snprintf(line, sizeof line, "huge pages: thp %s, hugetlb %s",
                 mw_bytes_format(mmap, p->thp_pagesize), mw_bytes_format(trim, p->hp_pagesize));
        mw_text_pad(text, 2);
        mw_text_put(text, MW_STYLE_PLAIN, line);
        mw_text_newline(text);
    }
}

static void put_parameters(struct heap_screen *screen, const struct mw_analysis *analysis)
{
    struct mw_text *text = screen->text;
    bool is_known = !screen->allocator->lacks_parameters;
    mw_text_newline(text);
    mw_text_put(text, MW_STYLE_BOLD, "PARAMETERS");
    mw_text_put(text, MW_STYLE_PLAIN,
                is_known ? "  in force, read from malloc's own memory"
                         : "  not found in malloc's memory: what is in force is not known");
    mw_text_newline(text);
    if (is_known)
        put_parameters_in_force(text, &screen->allocator->parameters);
    put_environment(text, &analysis->image.process);
}

static void arena_cells(void *user, size_t index, struct mw_text_cell *cells)
{
    const struct heap_screen *screen = user;
    const struct mw_arena *arena = &screen->allocator->arenas[screen->order[index]];
    struct mw_unit unit = screen->text->unit;
    bool resident = screen->allocator->free_resident_bytes != MW_UNKNOWN;
    if (arena->is_main)
        memcpy(cells[0].text, "main", 5);
    else
        snprintf(cells[0].text, MW_TEXT_CELL_BYTES, "0x%llx", (unsigned long long)arena->address);
    bool was_read = !arena->is_estimated;
    resident = resident && was_read;
    mw_text_cell_bytes(&cells[1], unit, arena->system_bytes);
    mw_text_cell_bytes(&cells[2], unit, was_read ? arena->in_use_bytes : MW_UNKNOWN);
    mw_text_cell_count(&cells[3], was_read ? arena->in_use_count : MW_UNKNOWN);
    mw_text_cell_bytes(&cells[4], unit, was_read ? arena->free_bytes : MW_UNKNOWN);
    mw_text_cell_bytes(&cells[5], unit, resident ? arena->free_rss : MW_UNKNOWN);
    mw_text_cell_bytes(&cells[6], unit, resident ? arena->trimmable_bytes : MW_UNKNOWN);
    mw_text_cell_count(&cells[7], arena->attached_threads);
    mw_text_cell_count(&cells[8], arena->heap_count);
    mw_text_cell_bytes(&cells[9], unit, arena->top_bytes);
}

struct ordered {
    uint64_t key;
    size_t index;
};

static int ordered_descending(const void *a, const void *b)
{
    const struct ordered *left = a, *right = b;
    if (left->key != right->key)
        return left->key < right->key ? 1 : -1;
    return (left->index > right->index) - (left->index < right->index);
}

/* Indices by descending key; ties keep their order. NULL when out of memory. */
static size_t *order_by(size_t count, uint64_t (*key)(const struct mw_allocator *, size_t),
                        const struct mw_allocator *allocator)
{
    struct ordered *rows = mw_calloc(count, sizeof *rows);
    size_t *order = mw_calloc(count, sizeof *order);
    for (size_t i = 0; rows && order && i < count; i++)
        rows[i] = (struct ordered){key(allocator, i), i};
    if (rows && order) {
        qsort(rows, count, sizeof *rows, ordered_descending);
        for (size_t i = 0; i < count; i++)
            order[i] = rows[i].index;
    } else {
        free(order);
        order = NULL;
    }
    free(rows);
    return order;
}

static uint64_t arena_key(const struct mw_allocator *allocator, size_t index)
{
    return allocator->arenas[index].system_bytes;
}

static uint64_t size_key(const struct mw_allocator *allocator, size_t index)
{
    const struct mw_size_row *row = &allocator->sizes[index];
    return row->size_bytes * row->in_use_count;
}

static void put_table_head(struct mw_text *text, const char *name, size_t shown, size_t count,
                           const char *by)
{
    char shown_text[32], count_text[32];
    mw_text_newline(text);
    mw_text_put(text, MW_STYLE_BOLD, name);
    if (shown < count)
        mw_text_printf(text, MW_STYLE_PLAIN, "  the %s largest of %s by %s, in %s",
                       mw_count_format(shown_text, shown), mw_count_format(count_text, count), by,
                       text->unit.name);
    else
        mw_text_printf(text, MW_STYLE_PLAIN, "  all %s by %s, in %s",
                       mw_count_format(count_text, count), by, text->unit.name);
    mw_text_newline(text);
}

static void put_arenas(struct heap_screen *screen, size_t max)
{
    static const struct mw_text_column columns[] = {
        {MW_F(arena, address), NULL, false},
        {MW_F(arena, system_bytes), NULL, false},
        {MW_F(arena, in_use_bytes), NULL, false},
        {MW_F(arena, in_use_count), NULL, false},
        {MW_F(arena, free_bytes), NULL, false},
        {MW_F(arena, free_resident_bytes), "resident", false},
        {MW_F(arena, trimmable_bytes), "trim", false},
        {MW_F(arena, attached_threads), NULL, false},
        {MW_F(arena, heaps), NULL, false},
        {MW_F(arena, top_bytes), NULL, false},
    };
    size_t all = sizeof columns / sizeof *columns;
    bool is_narrow = screen->text->look.width < ARENA_COLUMNS;
    size_t count = screen->allocator->arena_count;
    size_t *order = order_by(count, arena_key, screen->allocator);
    if (!order) {
        mw_text_out_of_memory(screen->text);
        return;
    }
    screen->order = order;
    put_table_head(screen->text, "ARENAS", count < max ? count : max, count, "size");
    mw_text_table(screen->text, &(struct mw_text_table){
                                    .columns = columns,
                                    .column_count = is_narrow ? all - NARROW_LESS : all,
                                    .row_count = count < max ? count : max,
                                    .row = arena_cells,
                                    .user = screen,
                                    .indent = 2,
                                });
    free(order);
}

static void size_cells(void *user, size_t index, struct mw_text_cell *cells)
{
    const struct heap_screen *screen = user;
    const struct mw_size_row *row = &screen->allocator->sizes[screen->order[index]];
    struct mw_unit unit = screen->text->unit;
    mw_count_format(cells[0].text, row->size_bytes);
    mw_text_cell_count(&cells[1], row->in_use_count);
    mw_text_cell_bytes(&cells[2], unit, row->size_bytes * row->in_use_count);
    mw_text_cell_count(&cells[3], row->free_count);
    mw_text_cell_bytes(&cells[4], unit, row->size_bytes * row->free_count);
}

static void put_sizes(struct heap_screen *screen, size_t max)
{
    static const struct mw_text_column columns[] = {
        {MW_F(size, size_bytes), "chunk bytes", false},
        {MW_F(size, in_use_count), "blocks in use", false},
        {MW_F(size, in_use_bytes), NULL, false},
        {MW_F(size, free_count), "free chunks", false},
        {MW_F(size, free_bytes), NULL, false},
    };
    size_t count = screen->allocator->size_count;
    size_t *order = order_by(count, size_key, screen->allocator);
    if (!order) {
        mw_text_out_of_memory(screen->text);
        return;
    }
    screen->order = order;
    put_table_head(screen->text, "SIZES", count < max ? count : max, count,
                   screen->allocator->sampled_count > 0
                       ? "bytes in use, of the arenas that were read"
                       : "bytes in use");
    mw_text_table(screen->text, &(struct mw_text_table){
                                    .columns = columns,
                                    .column_count = sizeof columns / sizeof *columns,
                                    .row_count = count < max ? count : max,
                                    .row = size_cells,
                                    .user = screen,
                                    .indent = 2,
                                });
    free(order);
}

static void put_arena_count(struct mw_text *text, const struct mw_allocator *allocator)
{
    mw_text_printf(text, MW_STYLE_PLAIN, "  %zu arena%s", allocator->arena_count,
                   allocator->arena_count == 1 ? "" : "s");
    if (allocator->arena_limit != MW_UNKNOWN)
        mw_text_printf(text, MW_STYLE_PLAIN, " of at most %llu",
                       (unsigned long long)allocator->arena_limit);
}

static const char *counters_words(const struct mw_allocator *allocator)
{
    if (allocator->reconciled)
        return "[all sums equal its own counters]";
    if (allocator->sample_is_sound)
        return "[a sample of the arenas was read; ~ is an estimate]";
    return "[some sums differ from its own counters: see the notes]";
}

static void put_allocator(struct mw_text *text, const struct mw_analysis *analysis,
                          const struct mw_allocator *allocator, size_t max)
{
    struct heap_screen screen = {.text = text, .allocator = allocator};
    mw_text_newline(text);
    mw_text_printf(text, MW_STYLE_BOLD, "%s %s", allocator->kind, allocator->version);
    if (!allocator->walked) {
        mw_text_put(text, MW_STYLE_PLAIN,
                    "  recognised, not walked: its memory is malloc.unsplit in the account");
        mw_text_newline(text);
        return;
    }
    bool is_glibc = mw_allocator_is_glibc(allocator);
    if (is_glibc)
        put_arena_count(text, allocator);
    mw_text_printf(text, MW_STYLE_PLAIN, "%s%llu heap%s, in %s", is_glibc ? ", " : "  ",
                   (unsigned long long)allocator->heap_count, allocator->heap_count == 1 ? "" : "s",
                   text->unit.name);
    mw_text_pad(text, text->column + 2);
    mw_text_wrap(text, 2, 0, MW_STYLE_PLAIN, counters_words(allocator));
    mw_text_newline(text);
    put_totals(&screen);
    if (is_glibc) {
        put_parameters(&screen, analysis);
        put_arenas(&screen, max);
    } else {
        put_rules(text, allocator);
    }
    put_sizes(&screen, max);
}

static void put_content(struct mw_text *text, const struct mw_allocator *allocator)
{
    uint64_t sum = 0;
    char line[512] = "free memory last held (sampled):";
    size_t start = strlen(line), used = start;
    for (int kind = 0; kind < MW_CONTENT_COUNT; kind++)
        sum += allocator->content_bytes[kind];
    for (int kind = 0; kind < MW_CONTENT_COUNT; kind++) {
        unsigned share = sum ? (unsigned)(allocator->content_bytes[kind] * 100 / sum) : 0;
        if (share == 0)
            continue;
        int more = snprintf(line + used, sizeof line - used, "%s %s %u%%", used > start ? "," : "",
                            mw_content_name((enum mw_content)kind), share);
        assert(more > 0 && (size_t)more < sizeof line - used); /* few kinds of short names */
        used += (size_t)more;
    }
    if (used == start)
        return;
    mw_text_pad(text, 2);
    mw_text_wrap(text, 4, 0, MW_STYLE_PLAIN, line);
    mw_text_newline(text);
}

static void put_next(struct mw_text *text, const char *target, bool is_glibc)
{
    const struct mw_screen_word word = mw_screen_word(target);
    char command[MW_SCREEN_COMMAND_BYTES];
    mw_text_put(text, MW_STYLE_BOLD, "NEXT");
    if (is_glibc) {
        snprintf(command, sizeof command, "memwhy pins %s", word.text);
        mw_screen_command(text, command, "which live blocks keep free memory resident");
        snprintf(command, sizeof command, "memwhy trim %s", word.text);
        mw_screen_command(text, command, "what malloc_trim(0) would give back");
    } else {
        snprintf(command, sizeof command, "memwhy report %s", word.text);
        mw_screen_command(text, command, "what it comes to");
    }
    mw_screen_next_of_stdin(text, target);
}

enum mw_status mw_report_heap_text(const struct mw_analysis *analysis,
                                   const struct mw_report_text_options *options,
                                   struct mw_sink sink, struct mw_error *err)
{
    struct mw_text text;
    mw_text_init(&text, sink, options->look);
    text.unit = mw_unit_for(mw_where_total(analysis));
    mw_screen_title(&text, analysis, "heap", options->target);
    for (size_t i = 0; i < analysis->allocator_count; i++) {
        put_allocator(&text, analysis, &analysis->allocators[i], options->count_max);
        put_content(&text, &analysis->allocators[i]);
    }
    if (analysis->allocator_count == 0 && !analysis->is_partial) {
        mw_text_newline(&text);
        mw_text_put(&text, MW_STYLE_PLAIN, "no allocator that memwhy knows is in this target");
        mw_text_newline(&text);
    }
    mw_text_newline(&text);
    mw_screen_partial(&text, analysis);
    mw_screen_notes(&text, analysis);
    const struct mw_allocator *walked = mw_screen_walked(analysis);
    if (walked)
        put_next(&text, options->target, mw_allocator_is_glibc(walked));
    else
        mw_screen_next_without_heap(&text, options->target);
    return mw_text_finish(&text, err);
}
