/* verdict/settings.c: what the environment asks of malloc, what malloc's own parameters say, and
 * what is left of old workarounds.
 *
 * A setting is in force only when the parameter in the target's memory (mp_) has its value: a
 * supervisor may have dropped the variable, glibc may have refused the value, the program may have
 * called mallopt() after it. The environment is that of the exec (/proc/PID/environ).
 *
 * References: glibc 2.26 to 2.44 elf/dl-tunables.list (names and aliases; the alias is not used
 * when GLIBC_TUNABLES sets the tunable), malloc/malloc.c do_set_mmap_threshold (refuses more than
 * HEAP_MAX_SIZE / 2), do_set_tcache_count. */
#include "verdict/build.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct knob_row {
    const char *variable, *tunable;
    size_t offset; /* in struct mw_heap_parameters */
    const char *name;
    bool is_size;
};

enum { PRELOADS_MAX = 16 }; /* entries of LD_PRELOAD that are looked at */

#define PARAMETER(field) offsetof(struct mw_heap_parameters, field)

static const struct knob_row knob_rows[MW_KNOB_COUNT] = {
    [MW_KNOB_ARENA_MAX] = {"MALLOC_ARENA_MAX", "glibc.malloc.arena_max", PARAMETER(arena_max),
                           "arena_max", false},
    [MW_KNOB_MMAP_THRESHOLD] = {"MALLOC_MMAP_THRESHOLD_", "glibc.malloc.mmap_threshold",
                                PARAMETER(mmap_threshold), "mmap_threshold", true},
    [MW_KNOB_TRIM_THRESHOLD] = {"MALLOC_TRIM_THRESHOLD_", "glibc.malloc.trim_threshold",
                                PARAMETER(trim_threshold), "trim_threshold", true},
    [MW_KNOB_TOP_PAD] = {"MALLOC_TOP_PAD_", "glibc.malloc.top_pad", PARAMETER(top_pad), "top_pad",
                         true},
    [MW_KNOB_MMAP_MAX] = {"MALLOC_MMAP_MAX_", "glibc.malloc.mmap_max", PARAMETER(mmaps_max),
                          "mmap_max", false},
    [MW_KNOB_TCACHE_COUNT] = {NULL, "glibc.malloc.tcache_count", PARAMETER(tcache_count),
                              "tcache_count", false},
};

/* The value of `tunable` in a GLIBC_TUNABLES text: the last one wins. */
static bool tunable_find(const char *text, const char *tunable, const char **value, size_t *length)
{
    size_t name_length = strlen(tunable);
    bool found = false;
    while (*text) {
        size_t item = strcspn(text, ":");
        if (item > name_length && text[name_length] == '=' &&
            strncmp(text, tunable, name_length) == 0) {
            *value = text + name_length + 1;
            *length = item - name_length - 1;
            found = true;
        }
        text += item + (text[item] == ':');
    }
    return found;
}

/* As glibc reads it: decimal, 0x or octal, nothing after it. */
static bool number_parse(const char *text, uint64_t *value)
{
    char *end;
    errno = 0;
    if (text[0] < '0' || text[0] > '9')
        return false;
    *value = strtoull(text, &end, 0);
    return errno == 0 && *end == '\0';
}

static void knob_value_set(struct mw_knob_state *state, const char *value, size_t length)
{
    snprintf(state->value, sizeof state->value, "%.*s", (int)(length < 31 ? length : 31), value);
    state->is_number = length < sizeof state->value && number_parse(state->value, &state->wanted);
    state->agrees = state->is_number && state->wanted == state->in_force;
}

struct mw_knob_state mw_knob_read(const struct mw_scope *scope, enum mw_knob knob)
{
    assert(knob < MW_KNOB_COUNT && scope->figures.glibc);
    const struct knob_row *row = &knob_rows[knob];
    struct mw_knob_state state = {0};
    const char *parameters = (const char *)&scope->figures.glibc->parameters;
    memcpy(&state.in_force, parameters + row->offset, sizeof state.in_force);
    const char *tunables = mw_process_setting(scope->process, "GLIBC_TUNABLES");
    const char *value = NULL;
    size_t length = 0;
    if (tunables && tunable_find(tunables, row->tunable, &value, &length)) {
        state.variable = row->tunable;
    } else if (row->variable && (value = mw_process_setting(scope->process, row->variable))) {
        state.variable = row->variable;
        length = strlen(value);
    }
    if (state.variable)
        knob_value_set(&state, value, length);
    return state;
}

/* "no limit", "4", "31.4 MiB" */
static struct mw_label knob_label(enum mw_knob knob, uint64_t value)
{
    if (knob == MW_KNOB_ARENA_MAX && value == 0)
        return (struct mw_label){"no limit"};
    return knob_rows[knob].is_size ? mw_label_size(value) : mw_label_count(value);
}

void mw_settings_note_arena_max(struct mw_scope *scope, struct mw_verdict *verdict)
{
    if (scope->figures.glibc->lacks_parameters)
        return;
    struct mw_knob_state state = mw_knob_read(scope, MW_KNOB_ARENA_MAX);
    struct mw_label in_force = knob_label(MW_KNOB_ARENA_MAX, state.in_force);
    const char *source = "environ, mp_ in memory";
    if (!scope->process->has_settings)
        mw_verdict_figure(scope, verdict, "mp_ in memory", state.in_force,
                          "malloc's own arena_max: %s; the environment was not read",
                          in_force.text);
    else if (!state.variable && state.in_force == 0)
        mw_verdict_figure(scope, verdict, source, 0,
                          "MALLOC_ARENA_MAX unset (environment and malloc agree)");
    else if (!state.variable)
        mw_verdict_figure(scope, verdict, source, state.in_force,
                          "malloc's own arena_max is %s without a setting in the environment: the "
                          "program calls mallopt()",
                          in_force.text);
    else
        mw_verdict_figure(scope, verdict, source, state.in_force, "%s=%s in the environment, %s",
                          state.variable, MW_NAME(state.value),
                          state.agrees ? "and in force" : "but not in force");
}

/* Why malloc does not have the value that the environment asks for, as far as values tell. */
static const char *disagreement_reason(enum mw_knob knob, const struct mw_knob_state *state)
{
    if (!state->is_number)
        return "it is not a number that glibc reads";
    if (knob == MW_KNOB_MMAP_THRESHOLD && state->wanted > MW_MMAP_THRESHOLD_MAX)
        return "glibc refuses more than 32 MiB";
    return "the program set it by mallopt(), or its loader ignored the environment";
}

static void disagreement_add(struct mw_scope *scope, enum mw_knob knob)
{
    struct mw_knob_state state = mw_knob_read(scope, knob);
    if (!state.variable || state.agrees)
        return;
    mw_known_add(scope, "not in force: %s=%s is in the environment, malloc's own %s is %s: %s",
                 state.variable, MW_NAME(state.value), knob_rows[knob].name,
                 knob_label(knob, state.in_force).text, disagreement_reason(knob, &state));
}

/* Any of these four turns the adaptation of both thresholds off. */
static bool fixes_thresholds(const struct mw_scope *scope)
{
    static const enum mw_knob knobs[] = {MW_KNOB_TRIM_THRESHOLD, MW_KNOB_TOP_PAD,
                                         MW_KNOB_MMAP_THRESHOLD, MW_KNOB_MMAP_MAX};
    for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++)
        if (mw_knob_read(scope, knobs[i]).variable)
            return true;
    return false;
}

void mw_beside_settings(struct mw_scope *scope)
{
    const struct mw_allocator *glibc = scope->figures.glibc;
    if (!glibc || glibc->lacks_parameters || !scope->process->has_settings)
        return;
    for (int knob = 0; knob < MW_KNOB_COUNT; knob++)
        disagreement_add(scope, (enum mw_knob)knob);
    struct mw_knob_state cap = mw_knob_read(scope, MW_KNOB_ARENA_MAX);
    if (!cap.variable && cap.in_force > 0)
        mw_known_add(scope,
                     "set by the program: malloc's arena_max is %s and the environment does not "
                     "ask for it",
                     knob_label(MW_KNOB_ARENA_MAX, cap.in_force).text);
    if (glibc->parameters.no_dyn_threshold && !fixes_thresholds(scope))
        mw_known_add(scope,
                     "set by the program: mmap_threshold is fixed at %s and trim_threshold at %s "
                     "by mallopt(), not by the environment",
                     MW_SIZE(glibc->parameters.mmap_threshold),
                     MW_SIZE(glibc->parameters.trim_threshold));
}

/* A cap that is in force and changes nothing here. */
static void arena_cap_leftover(struct mw_scope *scope)
{
    const struct mw_figures *figures = &scope->figures;
    struct mw_knob_state cap = mw_knob_read(scope, MW_KNOB_ARENA_MAX);
    if (!cap.variable || !cap.agrees || cap.in_force == 0)
        return;
    uint64_t arenas = mw_sum(figures->main.count, figures->other.count);
    uint64_t kept = mw_kept_bytes(scope);
    uint64_t threads = scope->process->thread_count;
    if (mw_known(threads) && threads <= cap.in_force && arenas < cap.in_force)
        mw_known_add(
            scope,
            "without effect: %s=%s is in force, and %s thread%s would need no more than %s "
            "arena%s without it",
            cap.variable, MW_NAME(cap.value), MW_COUNT(threads), MW_PLURAL(threads),
            MW_COUNT(arenas), MW_PLURAL(arenas));
    else if (mw_is_worth(scope, kept, 10, 8 * MW_MIB) && figures->main.free_bytes >= kept / 10 * 9)
        mw_known_add(scope,
                     "without effect: %s=%s is in force, and %s of the %s kept is in the main "
                     "arena, which it does not touch",
                     cap.variable, MW_NAME(cap.value), MW_BYTES(figures->main.free_bytes),
                     MW_BYTES(kept));
}

static const char *const allocator_names[] = {"jemalloc", "tcmalloc", "mimalloc",
                                              "snmalloc", "hoard",    "malloc"};

/* Does this file name an allocator? */
static bool names_allocator(const char *name)
{
    for (size_t i = 0; i < sizeof allocator_names / sizeof *allocator_names; i++)
        if (strstr(name, allocator_names[i]))
            return true;
    return false;
}

/* One entry of LD_PRELOAD: an allocator that is asked for and not there. */
static void preload_leftover(struct mw_scope *scope, const char *entry, size_t length)
{
    char path[256];
    if (length == 0 || length >= sizeof path)
        return;
    memcpy(path, entry, length);
    path[length] = '\0';
    const char *slash = strrchr(path, '/');
    char *name = path + (slash ? slash + 1 - path : 0);
    if (!names_allocator(name))
        return;
    struct mw_phrase shown = mw_phrase_name(name);
    char *version = strstr(name, ".so");
    if (version)
        *version = '\0'; /* libjemalloc.so.2 may be mapped as libjemalloc.so.2.0.1 */
    if (!mw_is_mapped(scope, name))
        mw_known_add(scope,
                     "not in force: LD_PRELOAD names %s and it is not mapped: this process uses "
                     "its own malloc",
                     shown.text);
}

/* Linked into the program, it has no file of its own. */
static bool has_allocator(const struct mw_scope *scope, const char *kind)
{
    for (size_t i = 0; i < scope->evidence->allocator_count; i++)
        if (scope->evidence->allocators[i].kind &&
            strcmp(scope->evidence->allocators[i].kind, kind) == 0)
            return true;
    return false;
}

void mw_beside_leftovers(struct mw_scope *scope)
{
    const struct mw_image *image = scope->evidence->image;
    if (!scope->process->has_settings)
        return;
    if (scope->figures.glibc && !scope->figures.glibc->lacks_parameters)
        arena_cap_leftover(scope);
    if (!image || image->regions.count == 0)
        return;
    const char *preload = mw_process_setting(scope->process, "LD_PRELOAD");
    for (int entries = 0; preload && *preload && entries < PRELOADS_MAX; entries++) {
        size_t length = strcspn(preload, ": ");
        preload_leftover(scope, preload, length);
        preload += length + (preload[length] != '\0');
    }
    if (mw_process_setting(scope->process, "MALLOC_CONF") && !mw_is_mapped(scope, "libjemalloc") &&
        !has_allocator(scope, "jemalloc") && scope->figures.is_glibc)
        mw_known_add(scope, "without effect: MALLOC_CONF is jemalloc's setting, no libjemalloc is "
                            "mapped, and glibc's malloc is in use");
}
