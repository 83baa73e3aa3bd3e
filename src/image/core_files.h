/* image/core_files.h: private to the files of the core image: what the core leaves out, from the
 * files that its mappings name. */
#ifndef MW_IMAGE_CORE_FILES_H
#define MW_IMAGE_CORE_FILES_H

#include "elf/elf_module.h"
#include "image/core.h"

#include <sys/types.h>

/* One program or library where it was loaded. */
struct mw_core_module {
    mw_addr base, bias; /* of the ELF header; a file address plus bias is one of the target */
    const char *name;   /* of its regions */
    struct mw_elf_build_id id;
    struct mw_elf_segment *segments; /* all program headers */
    size_t segment_count;
    uint64_t missing_bytes; /* of its regions, that the core leaves out */

    bool is_good; /* the file is here and has the same build-id */
    dev_t device;
    ino_t inode;
    uint64_t file_bytes;

    struct mw_elf_dynamic dynamic;
    bool relocs_tried, relocs_known;
    struct mw_elf_reloc *relocs; /* ascending by address */
    size_t reloc_count;
};

struct mw_core_files {
    struct mw_core_module *items;
    size_t count, room;
    uint16_t machine;
    int fd;        /* of the module read last; -1 none */
    size_t opened; /* which one that is */
};

/* Find the modules among the regions, compare each with its file, give regions of unknown
 * permissions theirs. What does not match is a finding. MW_NOMEM. Opens a file for each module. */
enum mw_status mw_core_files_load(struct mw_image *image, uint16_t machine,
                                  struct mw_error *err) MW_MUST_CHECK;
void mw_core_files_deinit(struct mw_core_files *files);

/* Of region `index`: may what lies behind its bytes in the core be read from its file as content
 * that the process saw? Not so where it could be written. */
bool mw_core_files_have(const struct mw_image *image, size_t index);

/* Bytes of the file of region `index` from `skip` behind its start: contents of what cannot be
 * written, or with is_initial also what a loader makes of what can. Returns how many from the start
 * are known, within the region. */
size_t mw_core_files_read(struct mw_image *image, size_t index, uint64_t skip, void *buffer,
                          size_t length, bool is_initial);

/* The checked file of a region for the caller, or -1. */
int mw_core_files_open(struct mw_image *image, const struct mw_mapping *region);

/* ops->read_initial */
size_t mw_core_read_initial(struct mw_image *image, mw_addr address, void *buffer, size_t length);

/* core_module.c: name a file that is safe to open: regular, and of a real file system. -1 and
 * errno. */
int mw_core_file_open(const char *name);
/* Parse the headers at base from the core's own bytes. False when there are none or they make no
 * sense; module_out->id.length is 0 when there is no build-id. MW_NOMEM. */
enum mw_status mw_core_module_read(struct mw_image *image, mw_addr base, bool *found_out,
                                   struct mw_core_module *module_out) MW_MUST_CHECK;
/* The build-id of an opened file; false when it has none. */
bool mw_core_file_build_id(int fd, struct mw_elf_build_id *id_out);
/* The PT_LOAD that region map is of; NULL when the file lies there as data. */
const struct mw_elf_segment *mw_core_module_segment(const struct mw_core_module *module,
                                                    const struct mw_mapping *map,
                                                    uint64_t page_size);
void mw_core_module_deinit(struct mw_core_module *module);

/* core_initial.c: what the dynamic section says. False when the file has less than it says. */
bool mw_core_module_dynamic(struct mw_core_module *module, int fd);
/* The relocations of a module from its file, once. */
bool mw_core_module_relocs(struct mw_core_module *module, int fd, uint16_t machine);
/* Apply them to length bytes that lie at `address`; returns how many from the start are known. */
size_t mw_core_module_relocate(const struct mw_core_module *module, int fd, mw_addr address,
                               uint8_t *bytes, size_t length);

#endif
