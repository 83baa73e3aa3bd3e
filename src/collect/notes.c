/* collect/notes.c: threads, process, auxiliary vector, files; then what only a capture has.
 *
 * The layouts are those of this machine's own <sys/procfs.h>: a capture is taken where the process
 * runs. NT_PRPSINFO comes first, as of gcore: nobody shall take the file's holes for residency.
 * References: core(5), elf(5); Linux 6.18 fs/binfmt_elf.c. */
#include "collect/notes.h"

#include "image/capture.h"
#include "proc/smaps.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/procfs.h>

static void pad(struct mw_str *out)
{
    static const char zeros[4];
    mw_str_append(out, zeros, (4 - out->length % 4) % 4);
}

static void note_put(struct mw_str *out, const char *name, uint32_t type, const void *content,
                     size_t length)
{
    const Elf64_Nhdr header = {(Elf64_Word)strlen(name) + 1, (Elf64_Word)length, type};
    mw_str_append(out, &header, sizeof header);
    mw_str_append(out, name, strlen(name) + 1);
    pad(out);
    mw_str_append(out, content, length);
    pad(out);
}

static void own_put(struct mw_str *out, enum mw_capture_note type, const struct mw_str *content)
{
    if (content->status != MW_OK)
        out->status = content->status;
    note_put(out, MW_CAPTURE_NOTE_NAME, (uint32_t)type, mw_str_text(content), content->length);
}

static void process_put(const struct mw_image *image, struct mw_str *out)
{
    const struct mw_process *process = &image->process;
    struct elf_prpsinfo info = {
        .pr_sname = process->state,
        .pr_pid = process->pid,
        .pr_ppid = process->ppid,
    };
    info.pr_uid = (__typeof__(info.pr_uid))process->uid;
    snprintf(info.pr_fname, sizeof info.pr_fname, "%.15s", process->comm);
    snprintf(info.pr_psargs, sizeof info.pr_psargs, "%.79s",
             process->command ? process->command : process->comm);
    note_put(out, "CORE", NT_PRPSINFO, &info, sizeof info);
}

static void thread_put(const struct mw_thread *thread, struct mw_str *out)
{
    struct elf_prstatus status = {.pr_pid = thread->tid};
    size_t bytes = thread->register_count * sizeof thread->registers[0];
    memcpy(&status.pr_reg, thread->registers,
           bytes < sizeof status.pr_reg ? bytes : sizeof status.pr_reg);
    note_put(out, "CORE", NT_PRSTATUS, &status, sizeof status);
}

static void auxv_put(const struct mw_image *image, struct mw_str *out)
{
    static const uint64_t end[2] = {AT_NULL, 0};
    struct mw_str auxv = MW_STR_INIT(sizeof image->auxv + sizeof end);
    mw_str_append(&auxv, image->auxv, image->auxv_count * sizeof image->auxv[0]);
    mw_str_append(&auxv, end, sizeof end);
    note_put(out, "CORE", NT_AUXV, mw_str_text(&auxv), auxv.length);
    mw_str_deinit(&auxv);
}

static bool is_file(const struct mw_mapping *map)
{
    return map->name[0] == '/';
}

/* Count, page size; start, end, offset in pages for each; then the names. */
static void files_put(const struct mw_image *image, struct mw_str *out)
{
    struct mw_str files = MW_STR_INIT(out->max);
    uint64_t count = 0;
    for (size_t i = 0; i < image->regions.count; i++)
        count += is_file(&image->regions.items[i]);
    const uint64_t head[2] = {count, image->page_size};
    mw_str_append(&files, head, sizeof head);
    for (size_t i = 0; i < image->regions.count; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        const uint64_t entry[3] = {map->start, map->end, map->offset / image->page_size};
        if (is_file(map))
            mw_str_append(&files, entry, sizeof entry);
    }
    for (size_t i = 0; i < image->regions.count; i++)
        if (is_file(&image->regions.items[i]))
            mw_str_append(&files, image->regions.items[i].name,
                          strlen(image->regions.items[i].name) + 1);
    if (files.status != MW_OK)
        out->status = files.status;
    note_put(out, "CORE", NT_FILE, mw_str_text(&files), files.length);
    mw_str_deinit(&files);
}

static void smaps_put(const struct mw_image *image, struct mw_str *out)
{
    struct mw_str text = MW_STR_INIT(out->max);
    for (size_t i = 0; i < image->regions.count; i++)
        mw_smaps_format(&image->regions.items[i], &text);
    own_put(out, MW_CAPTURE_SMAPS, &text);
    mw_str_deinit(&text);
}

static void pages_put(const struct mw_capture_layout *layout, struct mw_str *out)
{
    struct mw_str pages = MW_STR_INIT(out->max);
    for (size_t i = 0; i < layout->pages.count; i++) {
        const struct mw_capture_pages *run = &layout->pages.items[i];
        const struct mw_capture_page_note note = {run->start, run->count, run->flags};
        mw_str_append(&pages, &note, sizeof note);
    }
    own_put(out, MW_CAPTURE_PAGES, &pages);
    mw_str_deinit(&pages);
}

static void number_put(struct mw_str *text, const char *name, uint64_t value)
{
    if (value != MW_UNKNOWN)
        mw_str_printf(text, "%s=%llu\n", name, (unsigned long long)value);
}

static void facts_put(const struct mw_image *image, int64_t when, struct mw_str *out)
{
    const struct mw_process *process = &image->process;
    struct mw_str text = MW_STR_INIT(1 << 16);
    mw_str_printf(&text, "memwhy=%s\n", MW_VERSION);
    number_put(&text, "taken_at", (uint64_t)when);
    number_put(&text, "started_at", (uint64_t)process->started_at);
    if (process->uptime_seconds >= 0)
        number_put(&text, "uptime_ms", (uint64_t)(process->uptime_seconds * 1000));
    number_put(&text, "cpus_online", process->cpus_online);
    number_put(&text, "cpus_allowed", process->cpus_allowed);
    number_put(&text, "threads", process->thread_count);
    number_put(&text, "vm_hwm", process->vm_hwm);
    number_put(&text, "vm_peak", process->vm_peak);
    number_put(&text, "vm_size", process->vm_size);
    number_put(&text, "vm_pte", process->vm_pte);
    number_put(&text, "max_map_count", process->max_map_count);
    number_put(&text, "limit_stack", process->limit_stack);
    number_put(&text, "limit_as", process->limit_as);
    number_put(&text, "pauses", image->pauses.count);
    number_put(&text, "paused_ns", image->pauses.total_ns);
    number_put(&text, "longest_pause_ns", image->pauses.longest_ns);
    number_put(&text, "has_settings", process->has_settings);
    own_put(out, MW_CAPTURE_PROCESS, &text);
    mw_str_deinit(&text);
}

static void settings_put(const struct mw_image *image, struct mw_str *out)
{
    struct mw_str text = MW_STR_INIT(1 << 20);
    for (size_t i = 0; i < image->process.setting_count; i++) {
        const struct mw_setting *setting = &image->process.settings[i];
        mw_str_printf(&text, "%s=%s", setting->name, setting->value);
        mw_str_append(&text, "", 1);
    }
    own_put(out, MW_CAPTURE_SETTINGS, &text);
    mw_str_deinit(&text);
}

static void names_put(const struct mw_image *image, struct mw_str *out)
{
    struct mw_str text = MW_STR_INIT(1 << 26);
    for (size_t i = 0; i < image->thread_count; i++)
        mw_str_printf(&text, "%d %.15s\n", image->threads[i].tid, image->threads[i].name);
    own_put(out, MW_CAPTURE_THREADS, &text);
    mw_str_deinit(&text);
}

void mw_capture_notes_put(const struct mw_image *image, const struct mw_capture_layout *layout,
                          int64_t when, struct mw_str *out)
{
    process_put(image, out);
    for (size_t i = 0; i < image->thread_count; i++)
        if (image->threads[i].has_registers)
            thread_put(&image->threads[i], out);
    auxv_put(image, out);
    files_put(image, out);
    smaps_put(image, out);
    pages_put(layout, out);
    facts_put(image, when, out);
    settings_put(image, out);
    names_put(image, out);
}
