/* image/core_notes.c: the notes of a core: threads, process, auxiliary vector, names of files.
 *
 * A note is bounded by the file, all note segments by MW_LIMIT_ELF_NOTE_BYTES; entries by the
 * bounds of base/limits.h. The kernel begins with the NT_PRSTATUS of the thread that died, gdb's
 * gcore with NT_PRPSINFO (seen with Linux 6.18 and gdb 13.1): that tells the two apart.
 *
 * References: core(5); Linux 6.18 fs/binfmt_elf.c fill_note_info(); gdb 13 linux-tdep.c. */
#include "image/core.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/vec.h"
#include "proc/mapping.h"

#include <assert.h>
#include <elf.h>
#include <string.h>

enum { AUXV_ENTRIES_MAX = 128, ARM_TLS = 0x401 /* NT_ARM_TLS */ };

static void parse_auxv(struct mw_core_notes *notes, struct mw_image *image,
                       const struct mw_elf_note *note)
{
    struct mw_cursor cur = mw_cursor_of(note->content, note->length);
    for (int i = 0; i < AUXV_ENTRIES_MAX; i++) {
        uint64_t type = mw_cursor_u64(&cur), value = mw_cursor_u64(&cur);
        if (cur.failed || type == AT_NULL)
            return;
        if (type == AT_PAGESZ)
            notes->page_size = value;
        else
            mw_image_auxv_store(image, type, value);
    }
}

static enum mw_status add_thread(struct mw_core_notes *notes, uint16_t machine,
                                 const struct mw_elf_note *note)
{
    struct mw_elf_prstatus prstatus;
    if (mw_elf_prstatus_parse(machine, note->content, note->length, &prstatus) != MW_OK)
        return MW_CORRUPT;
    struct mw_thread thread = {
        .tid = prstatus.tid,
        .has_registers = true,
        .pc = prstatus.pc,
        .sp = prstatus.sp,
        .tp = prstatus.tp,
        .register_count = prstatus.register_count,
    };
    static_assert(sizeof thread.registers == sizeof prstatus.registers, "same order, same size");
    memcpy(thread.registers, prstatus.registers, sizeof thread.registers);
    struct {
        struct mw_thread *items;
        size_t count, room;
    } list = {notes->threads, notes->thread_count, notes->thread_room};
    enum mw_status status = mw_vec_push(&list, MW_LIMIT_THREADS, thread);
    notes->threads = list.items;
    notes->thread_count = list.count;
    notes->thread_room = list.room;
    return status;
}

static enum mw_status add_files(struct mw_core_notes *notes, const struct mw_elf_note *note)
{
    struct mw_elf_files files;
    if (mw_elf_files_parse(note->content, note->length, &files) != MW_OK)
        return MW_CORRUPT;
    struct {
        struct mw_elf_file *items;
        size_t count, room;
    } list = {notes->files, notes->file_count, notes->file_room};
    enum mw_status status = MW_OK;
    struct mw_elf_file file;
    while (status == MW_OK && mw_elf_file_next(&files, &file))
        status = mw_vec_push(&list, MW_LIMIT_MAPPINGS, file);
    notes->files = list.items;
    notes->file_count = list.count;
    notes->file_room = list.room;
    return status == MW_OK && files.done < files.count ? MW_CORRUPT : status;
}

/* Returns MW_CORRUPT for a note that is too short for its type. */
static enum mw_status store_note(struct mw_core_notes *notes, struct mw_image *image,
                                 uint16_t machine, const struct mw_elf_note *note)
{
    if (mw_elf_note_is(note, "CORE", NT_PRSTATUS))
        return add_thread(notes, machine, note);
    if (mw_elf_note_is(note, "CORE", NT_FILE))
        return add_files(notes, note);
    if (mw_elf_note_is(note, "CORE", NT_PRFPREG) || mw_elf_note_is(note, "LINUX", NT_X86_XSTATE))
        return mw_vectors_add(&image->vectors,
                              notes->thread_count ? notes->threads[notes->thread_count - 1].tid : 0,
                              note->content, note->length);
    if (note->type < MW_CAPTURE_NOTES_END &&
        mw_elf_note_is(note, MW_CAPTURE_NOTE_NAME, note->type)) {
        notes->capture.notes[note->type].bytes = note->content;
        notes->capture.notes[note->type].length = note->length;
    } else if (mw_elf_note_is(note, "CORE", NT_AUXV))
        parse_auxv(notes, image, note);
    else if (mw_elf_note_is(note, "CORE", NT_PRPSINFO)) {
        if (mw_elf_prpsinfo_parse(note->content, note->length, &notes->process) != MW_OK)
            return MW_CORRUPT;
        notes->has_process = true;
    } else if (machine == EM_AARCH64 && mw_elf_note_is(note, "LINUX", ARM_TLS)) {
        if (notes->thread_count > 0 && note->length >= sizeof(uint64_t))
            memcpy(&notes->threads[notes->thread_count - 1].tp, note->content, sizeof(uint64_t));
    } else if (note->name_length == 10 && memcmp(note->name, "VMCOREINFO", 10) == 0)
        notes->is_kernel_dump = true;
    return MW_OK;
}

static enum mw_status parse_notes(struct mw_core_notes *notes, struct mw_image *image,
                                  uint16_t machine, struct mw_cursor *cur, struct mw_error *err)
{
    struct mw_elf_note note;
    bool is_first = notes->block_count == 1;
    while (mw_elf_note_next(cur, &note)) {
        if (is_first)
            notes->is_kernels = mw_elf_note_is(&note, "CORE", NT_PRSTATUS);
        is_first = false;
        enum mw_status status = store_note(notes, image, machine, &note);
        if (status == MW_CORRUPT)
            mw_finding_add(&image->findings, "core-note", 0, note.length,
                           "a note of type %u in the core makes no sense", note.type);
        else if (status != MW_OK)
            return mw_fail(err, status, "the notes of the core are too many for us");
    }
    if (cur->failed)
        mw_finding_add(&image->findings, "core-note", 0, 0, "the notes of the core are cut");
    return MW_OK;
}

enum mw_status mw_core_notes_load(struct mw_core_notes *notes, struct mw_image *image,
                                  const struct mw_elf_segment *segment, uint16_t machine,
                                  struct mw_error *err)
{
    const struct mw_core *core = mw_core_of(image);
    if (notes->block_count == sizeof notes->blocks / sizeof *notes->blocks ||
        notes->block_bytes == MW_LIMIT_ELF_NOTE_BYTES || segment->offset >= core->file_size) {
        mw_finding_add(&image->findings, "core-note", 0, segment->file_bytes,
                       "notes of the core were not read");
        return MW_OK;
    }
    uint64_t length = core->file_size - segment->offset;
    if (length > segment->file_bytes)
        length = segment->file_bytes;
    if (length > MW_LIMIT_ELF_NOTE_BYTES - notes->block_bytes)
        length = MW_LIMIT_ELF_NOTE_BYTES - notes->block_bytes;
    notes->block_bytes += length;
    uint8_t *block = mw_calloc((size_t)length, 1);
    if (!block)
        return mw_fail(err, MW_NOMEM, "out of memory for the notes of the core");
    notes->blocks[notes->block_count++] = block;
    ssize_t got = mw_io_pread_full(core->fd, block, (size_t)length, segment->offset);
    if (got < (ssize_t)length)
        mw_finding_add(&image->findings, "core-note", 0, length - (got > 0 ? (uint64_t)got : 0),
                       "notes of the core cannot be read");
    struct mw_cursor cur = mw_cursor_of(block, got > 0 ? (size_t)got : 0);
    return parse_notes(notes, image, machine, &cur, err);
}

static int compare_files(const void *a, const void *b)
{
    const struct mw_elf_file *left = a, *right = b;
    if (left->start != right->start)
        return left->start < right->start ? -1 : 1;
    if (left->end != right->end) /* the longest first: it keeps all */
        return left->end > right->end ? -1 : 1;
    return left->offset < right->offset ? -1 : left->offset > right->offset;
}

/* Cut each to what lies behind those before it, as segments are: an address is one file's. */
static void separate_files(struct mw_core_notes *notes, struct mw_findings *findings)
{
    size_t kept = 0;
    mw_addr floor = 0;
    for (size_t i = 0; i < notes->file_count; i++) {
        struct mw_elf_file file = notes->files[i];
        if (file.start < floor || file.start >= file.end)
            mw_finding_add(findings, "core-note", file.start, 0,
                           "a file in the notes of the core overlaps another or has no bytes");
        if (file.end <= floor || file.start >= file.end)
            continue;
        if (file.start < floor) {
            file.offset += floor - file.start;
            file.start = floor;
        }
        floor = file.end;
        notes->files[kept++] = file;
    }
    notes->file_count = kept;
}

void mw_core_notes_finish(struct mw_core_notes *notes, struct mw_findings *findings)
{
    if (notes->file_count > 0)
        qsort(notes->files, notes->file_count, sizeof *notes->files, compare_files);
    separate_files(notes, findings);
}

const struct mw_elf_file *mw_core_notes_file(const struct mw_core_notes *notes, mw_addr address)
{
    size_t low = 0, high = notes->file_count;
    while (low < high) { /* the first that starts behind address */
        size_t middle = low + (high - low) / 2;
        if (notes->files[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    assert(low <= notes->file_count);
    return low > 0 && address < notes->files[low - 1].end ? &notes->files[low - 1] : NULL;
}

void mw_core_notes_deinit(struct mw_core_notes *notes)
{
    for (size_t i = 0; i < notes->block_count; i++)
        free(notes->blocks[i]);
    free(notes->files);
    free(notes->threads);
    *notes = (struct mw_core_notes){0};
}
