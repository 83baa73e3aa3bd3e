/* collect/write.c: an ELF64 core, written from front to back.
 *
 *   ELF header │ program headers │ section 0 │ notes │ … │ memory of each stored run
 *
 * Section 0 is there when the number of program headers does not fit into 16 bits (PN_XNUM).
 * Memory begins on a page, so that what can map it may. Reads are of 1 MiB. */
#include "collect/write.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/str.h"
#include "collect/notes.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_BYTES = 1 << 20, MAPPING_TEXT_BYTES = 800 };

struct writing {
    int fd;
    struct mw_image *image;
    const struct mw_capture_layout *layout;
    struct mw_context *context;
    struct mw_capture_written *written;
    uint64_t at; /* bytes written */
    struct mw_error *err;
};

static enum mw_status put(struct writing *writing, const void *bytes, size_t length)
{
    int problem = mw_io_write_full(writing->fd, bytes, length);
    if (problem != 0)
        return mw_fail_errno(writing->err, problem, "cannot write the capture");
    writing->at += length;
    return MW_OK;
}

static enum mw_status put_zeros(struct writing *writing, uint64_t count)
{
    static const uint8_t zeros[4096];
    enum mw_status status = MW_OK;
    while (count > 0 && status == MW_OK) {
        size_t step = count < sizeof zeros ? (size_t)count : sizeof zeros;
        status = put(writing, zeros, step);
        count -= step;
    }
    return status;
}

struct places {
    size_t header_count; /* with the notes */
    bool has_section;
    uint64_t notes, memory; /* offsets in the file */
};

static struct places places_of(const struct writing *writing, size_t notes_bytes)
{
    struct places places = {.header_count = writing->layout->runs.count + 1};
    places.has_section = places.header_count >= PN_XNUM;
    places.notes = sizeof(Elf64_Ehdr) + places.header_count * sizeof(Elf64_Phdr) +
                   (places.has_section ? sizeof(Elf64_Shdr) : 0);
    const uint64_t page = writing->image->page_size, end = places.notes + notes_bytes;
    places.memory = (end + page - 1) & ~(page - 1);
    return places;
}

static enum mw_status header_put(struct writing *writing, const struct places *places)
{
    Elf64_Ehdr header = {
        .e_type = ET_CORE,
        .e_machine = writing->image->arch == MW_ARCH_AARCH64 ? EM_AARCH64 : EM_X86_64,
        .e_version = EV_CURRENT,
        .e_phoff = sizeof header,
        .e_ehsize = sizeof header,
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = (Elf64_Half)(places->has_section ? PN_XNUM : places->header_count),
    };
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    if (places->has_section) {
        header.e_shoff = places->notes - sizeof(Elf64_Shdr);
        header.e_shentsize = sizeof(Elf64_Shdr);
        header.e_shnum = 1;
    }
    return put(writing, &header, sizeof header);
}

static enum mw_status headers_put(struct writing *writing, const struct places *places,
                                  size_t notes_bytes)
{
    const Elf64_Phdr notes = {
        .p_type = PT_NOTE, .p_offset = places->notes, .p_filesz = notes_bytes, .p_align = 4};
    enum mw_status status = put(writing, &notes, sizeof notes);
    uint64_t offset = places->memory;
    for (size_t i = 0; i < writing->layout->runs.count && status == MW_OK; i++) {
        const struct mw_capture_run *run = &writing->layout->runs.items[i];
        const Elf64_Phdr load = {
            .p_type = PT_LOAD,
            .p_flags = (run->perms & MW_PERM_READ ? PF_R : 0u) |
                       (run->perms & MW_PERM_WRITE ? PF_W : 0u) |
                       (run->perms & MW_PERM_EXEC ? PF_X : 0u),
            .p_offset = offset,
            .p_vaddr = run->start,
            .p_filesz = run->is_stored ? run->end - run->start : 0,
            .p_memsz = run->end - run->start,
            .p_align = writing->image->page_size,
        };
        status = put(writing, &load, sizeof load);
        offset += load.p_filesz;
    }
    if (status == MW_OK && places->has_section) {
        const Elf64_Shdr section = {.sh_info = (Elf64_Word)places->header_count};
        status = put(writing, &section, sizeof section);
    }
    return status;
}

static enum mw_status run_put(struct writing *writing, const struct mw_capture_run *run,
                              uint8_t *buffer)
{
    enum mw_status status = MW_OK;
    for (mw_addr at = run->start; at < run->end && status == MW_OK;) {
        size_t step = run->end - at < STEP_BYTES ? (size_t)(run->end - at) : STEP_BYTES;
        if (mw_context_canceled(writing->context))
            return mw_fail(writing->err, MW_CANCELED, "canceled");
        size_t got = mw_image_read_some(writing->image, at, buffer, step);
        if (got < step) { /* that page cannot be read: go on behind it */
            const size_t page = writing->image->page_size;
            step = got / page * page + page;
            memset(buffer + got, 0, step - got);
            writing->written->unreadable_bytes += step - got;
        }
        status = put(writing, buffer, step);
        at += step;
        mw_context_progress(writing->context, "writing", writing->at,
                            writing->layout->stored_bytes);
    }
    return status;
}

static enum mw_status memory_put(struct writing *writing)
{
    uint8_t *buffer = mw_calloc(STEP_BYTES, 1);
    enum mw_status status = buffer ? MW_OK : mw_fail(writing->err, MW_NOMEM, "out of memory");
    const uint64_t from = writing->at;
    for (size_t i = 0; i < writing->layout->runs.count && status == MW_OK; i++)
        if (writing->layout->runs.items[i].is_stored)
            status = run_put(writing, &writing->layout->runs.items[i], buffer);
    free(buffer);
    writing->written->memory_bytes = writing->at - from;
    return status;
}

enum mw_status mw_capture_write(int fd, struct mw_image *image,
                                const struct mw_capture_layout *layout, int64_t when,
                                struct mw_context *context, struct mw_capture_written *written_out,
                                struct mw_error *err)
{
    struct mw_str notes = MW_STR_INIT(MW_LIMIT_ELF_NOTE_BYTES);
    struct writing writing = {.fd = fd,
                              .image = image,
                              .layout = layout,
                              .context = context,
                              .written = written_out,
                              .err = err};
    *written_out = (struct mw_capture_written){0};
    mw_capture_notes_put(image, layout, when, &notes);
    if (notes.status != MW_OK) {
        enum mw_status problem = notes.status;
        mw_str_deinit(&notes);
        return mw_fail(err, problem, "the notes of the capture are too large");
    }
    const struct places places = places_of(&writing, notes.length);
    enum mw_status status = header_put(&writing, &places);
    if (status == MW_OK)
        status = headers_put(&writing, &places, notes.length);
    if (status == MW_OK)
        status = put(&writing, mw_str_text(&notes), notes.length);
    mw_str_deinit(&notes);
    if (status == MW_OK)
        status = put_zeros(&writing, places.memory - writing.at);
    if (status == MW_OK)
        status = memory_put(&writing);
    written_out->file_bytes = writing.at;
    return status;
}

uint64_t mw_capture_size(const struct mw_image *image, const struct mw_capture_layout *layout)
{
    return layout->stored_bytes + layout->runs.count * sizeof(Elf64_Phdr) +
           layout->pages.count * 16 + image->regions.count * MAPPING_TEXT_BYTES +
           image->thread_count * 512;
}
