/* image/core_initial.c: what a loader makes of a module's writable data: relative relocations.
 *
 * A page of .data that was never in the core has no contents that anybody knows any more; what the
 * program found there when it started is known, and constants stay what they were. The file has it
 * but for the pointers: R_*_RELATIVE and DT_RELR are the bias plus what the file says. Every other
 * relocation needs the loader's symbol search, so such a word is unknown and a read ends before it.
 *
 * Trusts nothing: tables are read from the checked file, bounded by RELOCS_MAX and its size, and an
 * address outside of what is asked for is never written. Reading is O(log n) to find the first.
 *
 * References: gABI; glibc 2.36 elf/do-rel.h, sysdeps/{x86_64,aarch64}/dl-machine.h. */
#include "image/core_files.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/vec.h"

#include <elf.h>
#include <string.h>

enum {
    WORD_BYTES = 8,
    RELOCS_MAX = 1 << 22, /* a browser of 200 MB has a million */
    DYNAMIC_MAX = 16 << 10,
    TABLE_STEP = 4096 * MW_ELF_RELA_BYTES,
};

struct relocs {
    struct mw_elf_reloc *items;
    size_t count, room;
};

/* Where the file has what lies at a file address; false when no segment holds all of it. */
static bool offset_of(const struct mw_core_module *module, uint64_t address, uint64_t length,
                      uint64_t *offset_out)
{
    for (size_t i = 0; i < module->segment_count; i++) {
        const struct mw_elf_segment *segment = &module->segments[i];
        if (segment->type == PT_LOAD && address >= segment->address &&
            address - segment->address <= segment->file_bytes &&
            length <= segment->file_bytes - (address - segment->address))
            return !__builtin_add_overflow(segment->offset, address - segment->address, offset_out);
    }
    return false;
}

static bool add(struct relocs *relocs, uint64_t at, uint64_t addend, enum mw_elf_reloc_kind kind)
{
    return mw_vec_push(relocs, RELOCS_MAX,
                       (struct mw_elf_reloc){.at = at, .addend = addend, .kind = kind}) == MW_OK;
}

static bool load_rela(struct relocs *relocs, const struct mw_core_module *module, int fd,
                      uint16_t machine, uint64_t table, uint64_t bytes)
{
    uint64_t offset;
    if (bytes == 0)
        return true;
    if (bytes / MW_ELF_RELA_BYTES > RELOCS_MAX || !offset_of(module, table, bytes, &offset))
        return false;
    MW_FREE uint8_t *buffer = mw_calloc(TABLE_STEP, 1);
    for (uint64_t done = 0; done < bytes && buffer; done += TABLE_STEP) {
        size_t step = bytes - done < TABLE_STEP ? (size_t)(bytes - done) : TABLE_STEP;
        if (mw_io_pread_full(fd, buffer, step, offset + done) < (ssize_t)step)
            return false;
        for (size_t i = 0; i + MW_ELF_RELA_BYTES <= step; i += MW_ELF_RELA_BYTES) {
            struct mw_elf_reloc reloc = mw_elf_rela_parse(machine, buffer + i);
            if (reloc.kind == MW_ELF_RELOC_NONE)
                continue;
            if (reloc.kind == MW_ELF_RELOC_OTHER_2) {
                if (!add(relocs, reloc.at, 0, MW_ELF_RELOC_OTHER))
                    return false;
                reloc.at += WORD_BYTES;
                reloc.kind = MW_ELF_RELOC_OTHER;
            }
            if (!add(relocs, reloc.at, reloc.addend, reloc.kind))
                return false;
        }
    }
    return buffer != NULL;
}

struct relr {
    struct relocs *relocs;
    const struct mw_core_module *module;
};

/* The addend lies where the pointer will be: keep where that is in the file. */
static bool visit_relr(void *user, uint64_t at)
{
    const struct relr *relr = user;
    uint64_t offset;
    return offset_of(relr->module, at, WORD_BYTES, &offset) &&
           add(relr->relocs, at, offset, MW_ELF_RELOC_IN_PLACE);
}

static bool load_relr(struct relocs *relocs, const struct mw_core_module *module, int fd,
                      uint64_t table, uint64_t bytes)
{
    uint64_t offset;
    if (bytes == 0)
        return true;
    if (bytes > (uint64_t)RELOCS_MAX * WORD_BYTES || !offset_of(module, table, bytes, &offset))
        return false;
    MW_FREE uint8_t *buffer = mw_calloc((size_t)bytes, 1);
    struct relr relr = {relocs, module};
    return buffer && mw_io_pread_full(fd, buffer, (size_t)bytes, offset) == (ssize_t)bytes &&
           mw_elf_relr_each(buffer, (size_t)bytes, visit_relr, &relr);
}

static int compare_relocs(const void *a, const void *b)
{
    const struct mw_elf_reloc *left = a, *right = b;
    return left->at < right->at ? -1 : left->at > right->at;
}

/* Words that overlap, or the same one twice, are nothing that a linker writes. */
static bool is_sane(const struct relocs *relocs)
{
    for (size_t i = 1; i < relocs->count; i++)
        if (relocs->items[i].at - relocs->items[i - 1].at < WORD_BYTES)
            return false;
    return true;
}

bool mw_core_module_dynamic(struct mw_core_module *module, int fd)
{
    uint8_t bytes[DYNAMIC_MAX];
    for (size_t i = 0; i < module->segment_count; i++) {
        const struct mw_elf_segment *segment = &module->segments[i];
        if (segment->type != PT_DYNAMIC)
            continue;
        size_t length =
            segment->file_bytes < sizeof bytes ? (size_t)segment->file_bytes : sizeof bytes;
        if (mw_io_pread_full(fd, bytes, length, segment->offset) < (ssize_t)length)
            return false;
        mw_elf_dynamic_parse(bytes, length, &module->dynamic);
        return true;
    }
    return true;
}

static bool load_tables(const struct mw_core_module *module, int fd, uint16_t machine,
                        struct relocs *relocs)
{
    const struct mw_elf_dynamic *dynamic = &module->dynamic;
    return !dynamic->has_other_tables &&
           load_rela(relocs, module, fd, machine, dynamic->rela, dynamic->rela_bytes) &&
           load_rela(relocs, module, fd, machine, dynamic->jmprel, dynamic->jmprel_bytes) &&
           load_relr(relocs, module, fd, dynamic->relr, dynamic->relr_bytes);
}

bool mw_core_module_relocs(struct mw_core_module *module, int fd, uint16_t machine)
{
    if (module->relocs_tried)
        return module->relocs_known;
    module->relocs_tried = true;
    struct relocs relocs = {0};
    bool known = load_tables(module, fd, machine, &relocs);
    if (relocs.count > 0)
        qsort(relocs.items, relocs.count, sizeof *relocs.items, compare_relocs);
    if (!known || !is_sane(&relocs))
        mw_vec_deinit(&relocs);
    else
        module->relocs_known = true;
    module->relocs = relocs.items;
    module->reloc_count = relocs.count;
    return module->relocs_known;
}

/* The first relocation whose word does not end at or before file address `at`. */
static size_t first_at(const struct mw_core_module *module, uint64_t at)
{
    size_t low = 0, high = module->reloc_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t word = module->relocs[middle].at;
        if (word < at && at - word >= WORD_BYTES)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool value_of(const struct mw_core_module *module, const struct mw_elf_reloc *reloc, int fd,
                     uint64_t *value_out)
{
    uint64_t addend = reloc->addend;
    if (reloc->kind == MW_ELF_RELOC_IN_PLACE &&
        mw_io_pread_full(fd, &addend, sizeof addend, reloc->addend) != sizeof addend)
        return false;
    *value_out = module->bias + addend;
    return reloc->kind == MW_ELF_RELOC_RELATIVE || reloc->kind == MW_ELF_RELOC_IN_PLACE;
}

size_t mw_core_module_relocate(const struct mw_core_module *module, int fd, mw_addr address,
                               uint8_t *bytes, size_t length)
{
    uint64_t at = address - module->bias;
    for (size_t i = first_at(module, at); i < module->reloc_count; i++) {
        const struct mw_elf_reloc *reloc = &module->relocs[i];
        if (reloc->at >= at && reloc->at - at >= length)
            break;
        uint64_t value;
        if (!value_of(module, reloc, fd, &value))
            return reloc->at > at ? (size_t)(reloc->at - at) : 0;
        uint8_t word[WORD_BYTES];
        memcpy(word, &value, sizeof word);
        for (size_t k = 0; k < WORD_BYTES; k++) {
            uint64_t byte = reloc->at + k - at; /* before `at`: wraps, and is too large */
            if (byte < length)
                bytes[byte] = word[k];
        }
    }
    return length;
}
