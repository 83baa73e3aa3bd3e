/* report/group_text.c: the screen of a cgroup: what it is charged with and how that fits to its
 * processes, the processes by PSS, verdicts about the group; below it the screen of the worst. */
#include "report/group_report.h"

#include "report/screen.h"

#include <stdio.h>
#include <string.h>

enum {
    ROWS_MAX = 20,
    VALUE_COLUMN = 32, /* figures of the table of charges end here */
    PERCENT_COLUMN = 36,
    NOTE_COLUMN = 38,
    NOTE_BYTES = 256,
};

static void put_title(struct mw_text *text, const struct mw_group *group, const char *target)
{
    char processes[32], groups[32];
    const char *path = group->cgroup.path;
    mw_text_printf(text, MW_STYLE_PLAIN, "memwhy %.60s%s  %s process%s", target,
                   strlen(target) > 60 ? "..." : "", mw_count_format(processes, group->count),
                   group->count == 1 ? "" : "es");
    if (group->group_count > 1)
        mw_text_printf(text, MW_STYLE_PLAIN, " in %s cgroups",
                       mw_count_format(groups, group->group_count));
    mw_text_newline(text);
    /* The end of a long path tells more than its beginning. */
    size_t length = strlen(path), room = text->look.width - 14;
    mw_text_printf(text, MW_STYLE_PLAIN, "cgroup v%d %s", group->cgroup.version,
                   length > room ? "..." : "");
    mw_text_put(text, MW_STYLE_PLAIN, length > room ? path + length - (room - 3) : path);
    mw_text_newline(text);
}

static void put_usage(struct mw_text *text, const struct mw_group *group)
{
    const struct mw_cgroup *cgroup = &group->cgroup;
    char figure[32], limit[32];
    if (cgroup->usage == MW_UNKNOWN) {
        mw_text_put(text, MW_STYLE_BOLD, "CHARGED");
        mw_text_put(text, MW_STYLE_PLAIN, " is not known: this cgroup has no memory controller");
    } else {
        mw_text_printf(text, MW_STYLE_BOLD, "CHARGED %s %s",
                       mw_unit_format(figure, text->unit, cgroup->usage), text->unit.name);
    }
    if (cgroup->limit != MW_UNKNOWN && cgroup->limit > 0 && cgroup->usage != MW_UNKNOWN) {
        bool is_own = strcmp(cgroup->limit_path, cgroup->path) == 0;
        mw_text_printf(text, MW_STYLE_PLAIN, " of %s (%.0f%%)%s",
                       mw_unit_format(limit, text->unit, cgroup->limit),
                       (double)cgroup->usage * 100 / (double)cgroup->limit,
                       is_own ? "" : ", the limit of a group above it");
    } else if (cgroup->usage != MW_UNKNOWN) {
        mw_text_put(text, MW_STYLE_PLAIN, ", no limit");
    }
    if (cgroup->peak != MW_UNKNOWN)
        mw_text_printf(text, MW_STYLE_PLAIN, "   peak %s",
                       mw_unit_format(figure, text->unit, cgroup->peak));
    if (cgroup->swap != MW_UNKNOWN && cgroup->swap > 0)
        mw_text_printf(text, MW_STYLE_PLAIN, "   swap %s",
                       mw_unit_format(figure, text->unit, cgroup->swap));
    if (cgroup->oom_kills != MW_UNKNOWN && cgroup->oom_kills > 0)
        mw_text_printf(text, MW_STYLE_PLAIN, "   OOM kills %s",
                       mw_count_format(figure, cgroup->oom_kills));
    mw_text_newline(text);
    mw_text_newline(text);
}

static void put_charge(struct mw_text *text, const struct mw_cgroup *cgroup, const char *label,
                       int64_t bytes, const char *note)
{
    char figure[32];
    mw_text_pad(text, MW_SCREEN_LABEL_COLUMN);
    mw_text_put(text, MW_STYLE_PLAIN, label);
    mw_text_put_right(text, VALUE_COLUMN,
                      bytes < 0 ? mw_unit_format_signed(figure, text->unit, bytes)
                                : mw_unit_format(figure, text->unit, (uint64_t)bytes));
    if (cgroup->usage != MW_UNKNOWN && cgroup->usage > 0 && bytes >= 0) {
        snprintf(figure, sizeof figure, "%.0f", (double)bytes * 100 / (double)cgroup->usage);
        mw_text_put_right(text, PERCENT_COLUMN, figure);
    }
    if (note[0]) {
        mw_text_pad(text, NOTE_COLUMN);
        mw_text_wrap(text, NOTE_COLUMN, 2, MW_STYLE_PLAIN, note);
    }
    mw_text_newline(text);
}

/* "; 3.1 is in none of them", "; 3.1 of theirs is charged elsewhere", or nothing when both agree
 * in the unit of the screen. */
static void difference_note(char note[64], struct mw_unit unit, uint64_t charged,
                            uint64_t processes)
{
    int64_t difference;
    char figure[32];
    note[0] = '\0';
    if (!mw_group_difference(charged, processes, &difference))
        return;
    uint64_t size = difference < 0 ? (uint64_t)-difference : (uint64_t)difference;
    if (size < unit.bytes / 20)
        return;
    snprintf(note, 64,
             difference < 0 ? "; %s of theirs is charged elsewhere" : "; %s is in none of them",
             mw_unit_format(figure, unit, size));
}

static void put_anonymous(struct mw_text *text, const struct mw_group *group)
{
    const struct mw_cgroup *cgroup = &group->cgroup;
    char note[NOTE_BYTES] = "", difference[64], figure[32];
    if (cgroup->anon == MW_UNKNOWN)
        return;
    difference_note(difference, text->unit, cgroup->anon, group->sums.pss_anon);
    if (group->sums.pss_anon != MW_UNKNOWN)
        snprintf(note, sizeof note, "processes have %s (PSS)%s",
                 mw_unit_format(figure, text->unit, group->sums.pss_anon), difference);
    put_charge(text, cgroup, "anonymous", (int64_t)cgroup->anon, note);
}

static void put_file(struct mw_text *text, const struct mw_group *group)
{
    const struct mw_cgroup *cgroup = &group->cgroup;
    char note[NOTE_BYTES] = "", difference[64], figure[32], mapped[32];
    uint64_t unmapped = mw_group_unmapped_file(group), pss = mw_group_pss_mapped(group);
    int used = 0;
    if (cgroup->file == MW_UNKNOWN)
        return;
    if (unmapped != MW_UNKNOWN)
        used = snprintf(note, sizeof note, "%s in no process, %s mapped",
                        mw_unit_format(figure, text->unit, unmapped),
                        mw_unit_format(mapped, text->unit, cgroup->file_mapped));
    difference_note(difference, text->unit, cgroup->file_mapped, pss);
    if (pss != MW_UNKNOWN)
        used += snprintf(note + used, sizeof note - (size_t)used, "%sprocesses have %s (PSS)%s",
                         used ? "; " : "", mw_unit_format(figure, text->unit, pss), difference);
    if (cgroup->shmem != MW_UNKNOWN && cgroup->shmem >= text->unit.bytes / 20)
        snprintf(note + used, sizeof note - (size_t)used, "; %s of it is tmpfs and shared memory",
                 mw_unit_format(figure, text->unit, cgroup->shmem));
    put_charge(text, cgroup, "file cache", (int64_t)cgroup->file, note);
}

static void part_note(char note[NOTE_BYTES], struct mw_unit unit, const char *name, uint64_t bytes)
{
    char figure[32];
    size_t used = strlen(note);
    if (bytes != MW_UNKNOWN && bytes >= unit.bytes / 20)
        snprintf(note + used, NOTE_BYTES - used, "%s%s %s", used ? ", " : "", name,
                 mw_unit_format(figure, unit, bytes));
}

static void put_kernel(struct mw_text *text, const struct mw_cgroup *cgroup, uint64_t kernel)
{
    char note[NOTE_BYTES] = "";
    part_note(note, text->unit, "slab", cgroup->slab);
    part_note(note, text->unit, "reclaimable", cgroup->slab_reclaimable);
    part_note(note, text->unit, "page tables", cgroup->page_tables);
    part_note(note, text->unit, "stacks", cgroup->kernel_stack);
    part_note(note, text->unit, "per-CPU", cgroup->percpu);
    put_charge(text, cgroup, "kernel", (int64_t)kernel, note);
}

/* v1 keeps the books of sockets apart: they are not in the usage. */
static uint64_t socket_bytes(const struct mw_cgroup *cgroup)
{
    return cgroup->version == 2 ? cgroup->sock : MW_UNKNOWN;
}

/* What the parts leave of the usage; the files are read one after the other. */
static void put_rest(struct mw_text *text, const struct mw_cgroup *cgroup, uint64_t kernel)
{
    const uint64_t parts[] = {cgroup->anon, cgroup->file, kernel, socket_bytes(cgroup)};
    uint64_t sum = 0;
    int64_t rest;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i] != MW_UNKNOWN && __builtin_add_overflow(sum, parts[i], &sum))
            return;
    if (!mw_group_difference(cgroup->usage, sum, &rest))
        return;
    uint64_t size = rest < 0 ? (uint64_t)-rest : (uint64_t)rest;
    if (size >= text->unit.bytes / 20)
        put_charge(text, cgroup, "not in memory.stat", rest,
                   rest < 0 ? "the figures are some moments apart" : "");
}

static void put_charges(struct mw_text *text, const struct mw_group *group)
{
    const struct mw_cgroup *cgroup = &group->cgroup;
    uint64_t kernel = mw_cgroup_kernel_bytes(cgroup), sockets = socket_bytes(cgroup);
    if (cgroup->anon == MW_UNKNOWN && cgroup->file == MW_UNKNOWN && kernel == MW_UNKNOWN)
        return;
    mw_text_put(text, MW_STYLE_BOLD, "CHARGED");
    mw_text_put_right(text, VALUE_COLUMN, text->unit.name);
    mw_text_put_right(text, PERCENT_COLUMN, "%");
    mw_text_newline(text);
    put_anonymous(text, group);
    put_file(text, group);
    if (kernel != MW_UNKNOWN)
        put_kernel(text, cgroup, kernel);
    if (sockets != MW_UNKNOWN && sockets > 0)
        put_charge(text, cgroup, "sockets", (int64_t)sockets, "");
    put_rest(text, cgroup, kernel);
    mw_text_newline(text);
}

struct process_table {
    struct mw_text *text;
    const struct mw_group *group;
    size_t shown; /* rows of processes; then the others together, then the sum */
};

static void sum_known(uint64_t *sum, uint64_t bytes)
{
    if (bytes != MW_UNKNOWN && __builtin_add_overflow(*sum, bytes, sum))
        *sum = MW_UNKNOWN;
}

static void process_cells(struct process_table *table, const struct mw_group_process *process,
                          struct mw_text_cell *cells)
{
    struct mw_unit unit = table->text->unit;
    const struct mw_rollup *rollup = &process->rollup;
    char figure[32];
    snprintf(cells[0].text, MW_TEXT_CELL_BYTES, "%d", process->row.pid);
    mw_text_cell_bytes(&cells[1], unit, rollup->pss);
    if (process->has_rollup)
        mw_text_cell_bytes(&cells[2], unit, rollup->rss);
    else
        snprintf(cells[2].text, MW_TEXT_CELL_BYTES, "~%s",
                 mw_unit_format(figure, unit, process->row.rss_bytes));
    mw_text_cell_bytes(&cells[3], unit, rollup->pss_anon);
    mw_text_cell_bytes(&cells[4], unit, mw_group_process_private(process));
    mw_text_cell_bytes(&cells[5], unit, process->row.swap_bytes);
    mw_text_cell_count(&cells[6], process->row.threads);
    cells[7].long_text = process->row.name;
    if (process->row.pid == table->group->self_pid)
        cells[8].long_text = "this command";
    else if (!process->has_rollup)
        cells[8].long_text = "may not be read";
}

/* The processes from `from` on, together. */
static void sum_cells(struct process_table *table, size_t from, const char *label,
                      struct mw_text_cell *cells)
{
    const struct mw_group *group = table->group;
    struct mw_unit unit = table->text->unit;
    uint64_t pss = 0, rss = 0, anon = 0, private = 0, swap = 0, threads = 0;
    for (size_t i = from; i < group->count; i++) {
        const struct mw_group_process *process = &group->processes[i];
        sum_known(&pss, process->rollup.pss);
        sum_known(&rss, process->rollup.rss); /* unknown when it was not read */
        sum_known(&anon, process->rollup.pss_anon);
        sum_known(&private, mw_group_process_private(process));
        sum_known(&swap, process->row.swap_bytes);
        sum_known(&threads, process->row.threads);
    }
    snprintf(cells[0].text, MW_TEXT_CELL_BYTES, "%s", label);
    mw_text_cell_bytes(&cells[1], unit, pss);
    mw_text_cell_bytes(&cells[2], unit, rss);
    mw_text_cell_bytes(&cells[3], unit, anon);
    mw_text_cell_bytes(&cells[4], unit, private);
    mw_text_cell_bytes(&cells[5], unit, swap);
    mw_text_cell_count(&cells[6], threads);
}

static void table_row(void *user, size_t index, struct mw_text_cell *cells)
{
    struct process_table *table = user;
    char label[32], figure[24];
    if (index < table->shown) {
        process_cells(table, &table->group->processes[index], cells);
    } else if (index == table->shown && table->shown < table->group->count) {
        snprintf(figure, sizeof figure, "%zu", table->group->count - table->shown);
        snprintf(label, sizeof label, "%s more", figure);
        sum_cells(table, table->shown, label, cells);
    } else {
        sum_cells(table, 0, "sum", cells);
    }
}

static void put_processes(struct mw_text *text, const struct mw_group *group, bool all)
{
    static const struct mw_text_column columns[] = {
        {MW_F(group_process, pid), NULL, false},
        {MW_F(group_process, pss_bytes), NULL, false},
        {MW_F(group_process, rss_bytes), NULL, false},
        {MW_F(group_process, pss_anon_bytes), "anon PSS", false},
        {MW_F(group_process, private_bytes), NULL, false},
        {MW_F(group_process, swap_bytes), NULL, false},
        {MW_F(group_process, threads), NULL, false},
        {MW_F(group_process, command), NULL, false},
        {MW_F(process, hint), NULL, true},
    };
    if (group->count == 0) {
        mw_text_put(text, MW_STYLE_PLAIN, "No process with memory of its own is in it.");
        mw_text_newline(text);
        mw_text_newline(text);
        return;
    }
    struct process_table table = {.text = text, .group = group, .shown = group->count};
    if (!all && group->count > ROWS_MAX)
        table.shown = ROWS_MAX - 1;
    mw_text_put(text, MW_STYLE_BOLD, "PROCESSES");
    mw_text_printf(text, MW_STYLE_PLAIN, " by PSS, in %s%s; nothing was paused for this table",
                   text->unit.name,
                   group->read_count < group->count ? "; ~ is an estimate, - not known" : "");
    mw_text_newline(text);
    mw_text_table(text, &(struct mw_text_table){
                            .columns = columns,
                            .column_count = sizeof columns / sizeof *columns,
                            .row_count = table.shown + (table.shown < group->count) + 1,
                            .row = table_row,
                            .user = &table,
                            .indent = MW_SCREEN_LABEL_COLUMN,
                        });
    mw_text_newline(text);
}

/* The blocks of a report, of verdicts without a process. */
static void put_verdicts(struct mw_text *text, const struct mw_group *group,
                         const struct mw_report_text_options *options)
{
    const struct mw_analysis shell = {.verdicts = group->verdicts};
    mw_screen_verdicts(text, &shell, options);
}

static void put_worst(struct mw_text *text, const struct mw_group *group,
                      const struct mw_analysis *worst, const struct mw_report_text_options *options)
{
    char pid[16], figure[32];
    struct mw_report_text_options own = *options;
    const struct mw_process *process = &worst->image.process;
    uint64_t pss = worst->account.has_pss ? worst->account.pss_bytes : MW_UNKNOWN;
    mw_text_put(text, MW_STYLE_BOLD, "WORST");
    mw_text_printf(text, MW_STYLE_PLAIN, "  PID %d, %s", process->pid, process->comm);
    if (pss != MW_UNKNOWN && group->sums.pss != MW_UNKNOWN && group->sums.pss > 0)
        mw_text_printf(text, MW_STYLE_PLAIN, ": %s %s of PSS, %.0f%% of all. Its report:",
                       mw_unit_format(figure, text->unit, pss), text->unit.name,
                       (double)pss * 100 / (double)group->sums.pss);
    mw_text_newline(text);
    mw_text_newline(text);
    snprintf(pid, sizeof pid, "%d", process->pid);
    own.target = pid;
    mw_screen_report(text, worst, &own);
}

enum mw_status mw_report_group_text(const struct mw_group *group, const struct mw_analysis *worst,
                                    const struct mw_report_text_options *options,
                                    struct mw_sink sink, struct mw_error *err)
{
    struct mw_text text;
    uint64_t largest = group->cgroup.usage;
    mw_text_init(&text, sink, options->look);
    if (largest == MW_UNKNOWN)
        largest = group->sums.rss == MW_UNKNOWN ? 0 : group->sums.rss;
    text.unit = mw_unit_for(largest);
    put_title(&text, group, options->target);
    put_usage(&text, group);
    if (group->is_partial)
        mw_screen_why_partial(&text, &group->why_partial);
    put_charges(&text, group);
    put_processes(&text, group, options->all);
    put_verdicts(&text, group, options);
    if (worst)
        put_worst(&text, group, worst, options);
    return mw_text_finish(&text, err);
}
