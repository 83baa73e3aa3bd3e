/* report/pins_text.c: the screen of `memwhy pins`. */
#include "report/screen.h"

#include "report/parts_json.h"

#include <stdio.h>

struct pins_screen {
    struct mw_text *text;
    const struct mw_allocator *allocator;
    bool is_narrow; /* no room for the heap, which the block's address tells too */
};

enum { PIN_COLUMNS = 90 };

static void pin_cells(void *user, size_t index, struct mw_text_cell *cells)
{
    const struct pins_screen *screen = user;
    const struct mw_pin *pin = &screen->allocator->pins[index];
    if (!screen->is_narrow)
        snprintf((cells++)->text, MW_TEXT_CELL_BYTES, "0x%llx", (unsigned long long)pin->heap);
    snprintf(cells[0].text, MW_TEXT_CELL_BYTES, "0x%llx", (unsigned long long)pin->block);
    mw_bytes_format(cells[1].text, pin->size_bytes);
    cells[2].long_text = mw_block_state_name(pin->state);
    mw_bytes_format(cells[3].text, pin->distance_from_top_bytes);
    mw_text_cell_bytes(&cells[4], screen->text->unit, pin->would_release_bytes);
    cells[5].long_text = mw_content_name(pin->content);
}

static void put_pins(struct mw_text *text, const struct mw_allocator *allocator, size_t max)
{
    static const struct mw_text_column columns[] = {
        {MW_F(pin, heap), NULL, false},
        {MW_F(pin, block), NULL, false},
        {MW_F(pin, size_bytes), NULL, false},
        {MW_F(pin, state), NULL, false},
        {MW_F(pin, distance_from_top_bytes), NULL, false},
        {MW_F(pin, would_release_bytes), "releases", false},
        {MW_F(pin, content), NULL, true},
    };
    struct pins_screen screen = {text, allocator, text->look.width < PIN_COLUMNS};
    size_t count = allocator->pin_count < max ? allocator->pin_count : max;
    mw_text_newline(text);
    mw_text_put(text, MW_STYLE_BOLD, "PINS");
    char about[128];
    snprintf(about, sizeof about,
             "the last live block of each heap, and what would be released without it and its "
             "like (%s)",
             text->unit.name);
    mw_text_pad(text, text->column + 2);
    mw_text_wrap(text, 2, 0, MW_STYLE_PLAIN, about);
    mw_text_newline(text);
    mw_text_table(text, &(struct mw_text_table){
                            .columns = columns + screen.is_narrow,
                            .column_count = sizeof columns / sizeof *columns - screen.is_narrow,
                            .row_count = count,
                            .row = pin_cells,
                            .user = &screen,
                            .indent = 2,
                        });
    if (count < allocator->pin_count) {
        mw_text_printf(text, MW_STYLE_PLAIN, "  and %zu more: --count 0",
                       allocator->pin_count - count);
        mw_text_newline(text);
    }
}

static const char *no_pins_words(const struct mw_analysis *analysis)
{
    const struct mw_allocator *walked = mw_screen_walked(analysis);
    if (!analysis->heap_was_read)
        return "no allocator that memwhy knows is in this target";
    if (walked && !mw_allocator_is_glibc(walked))
        return "musl has no heap that a block could pin at its end: a group of up to 32 blocks of "
               "one size is given back when the last of them is freed";
    return "no live block keeps free memory at the end of a heap";
}

enum mw_status mw_report_pins_text(const struct mw_analysis *analysis,
                                   const struct mw_report_text_options *options,
                                   struct mw_sink sink, struct mw_error *err)
{
    struct mw_text text;
    const struct mw_screen_word word = mw_screen_word(options->target);
    char command[MW_SCREEN_COMMAND_BYTES];
    size_t pins = 0;
    mw_text_init(&text, sink, options->look);
    text.unit = mw_unit_for(mw_where_total(analysis));
    mw_screen_title(&text, analysis, "pins", options->target);
    for (size_t i = 0; i < analysis->allocator_count; i++) {
        pins += analysis->allocators[i].pin_count;
        if (analysis->allocators[i].pin_count > 0)
            put_pins(&text, &analysis->allocators[i], options->count_max);
    }
    mw_text_newline(&text);
    mw_screen_partial(&text, analysis);
    if (pins == 0 && !analysis->is_partial) {
        mw_text_wrap(&text, 0, 0, MW_STYLE_PLAIN, no_pins_words(analysis));
        mw_text_newline(&text);
    }
    if (pins > 0) {
        mw_text_wrap(&text, 0, 0, MW_STYLE_PLAIN,
                     "A heap shrinks only from its end: free memory below a live block stays. "
                     "malloc_trim(0) gives back the whole pages inside it all the same; the heap "
                     "itself shrinks once the block is freed (a block in tcache or fastbin is free "
                     "for the program and still in the way).");
        mw_text_newline(&text);
    }
    const struct mw_allocator *walked = mw_screen_walked(analysis);
    if (walked) {
        bool is_glibc = mw_allocator_is_glibc(walked) && walked->free_resident_bytes != MW_UNKNOWN;
        mw_text_put(&text, MW_STYLE_BOLD, "NEXT");
        snprintf(command, sizeof command, "memwhy %s %s", is_glibc ? "trim" : "heap", word.text);
        mw_screen_command(&text, command,
                          is_glibc ? "what malloc_trim(0) would give back in spite of them"
                                   : "sizes of blocks in use and free");
        mw_screen_next_of_stdin(&text, options->target);
    } else {
        mw_screen_next_without_heap(&text, options->target);
    }
    return mw_text_finish(&text, err);
}
