/* symbol/names.h: what an address is called: module and offset, symbol and offset, source line.
 *
 * Opening costs nothing: modules are listed at the first question, the symbols of a module are read
 * at the first question about it. Symbols come from the files behind the mappings (checked to be
 * the mapped ones), from separate debug files with the same build-id, from perf maps, else from
 * what the loader left in memory. Everything read is hostile and bounded (base/limits.h). */
#ifndef MW_SYMBOL_NAMES_H
#define MW_SYMBOL_NAMES_H

#include "base/context.h"
#include "image/image.h"

struct mw_names;

struct mw_names_options {
    const char *symbols_dir; /* with debug files, flat or .build-id/xx/yyyy.debug; NULL: none */
    bool debuginfod;         /* ask the servers of DEBUGINFOD_URLS for what is nowhere here */
};

enum {
    MW_NAME_MODULE_ROOM = 128,
    MW_NAME_SYMBOL_ROOM = 512,
    MW_NAME_TEXT_ROOM = MW_NAME_MODULE_ROOM + MW_NAME_SYMBOL_ROOM + 64,
};

/* Texts are a target's: as they are, to be escaped like any other before they are printed. What
 * does not fit ends in "...". */
struct mw_name {
    char module[MW_NAME_MODULE_ROOM]; /* last part of the path; "" when in no module */
    mw_addr module_base;              /* of its ELF header; 0 without a module */
    uint64_t module_offset;           /* address - module_base */
    char symbol[MW_NAME_SYMBOL_ROOM]; /* demangled; "" when unknown */
    mw_addr symbol_address;
    uint64_t symbol_offset; /* address - symbol_address */
    bool is_exact;          /* the symbol has a size and the address is inside; else it is only the
                             * nearest one before */
};

/* image, context and symbols_dir must outlive it. MW_NOMEM. */
enum mw_status mw_names_open(struct mw_image *image, const struct mw_names_options *options,
                             struct mw_context *context, struct mw_names **names_out,
                             struct mw_error *err) MW_MUST_CHECK;
void mw_names_free(struct mw_names *names); /* NULL is fine */

/* Name address. False when it is in no module and no perf map knows it (*name_out is then empty).
 * May read files and the target's memory the first time a module is met; O(log n) from then on. Not
 * for two threads at once. */
bool mw_names_resolve(struct mw_names *names, mw_addr address, struct mw_name *name_out);

/* The same for the address that a call returns to: the name of the call, so that one at the very
 * end of a function is not taken for the next. Offsets are those of the address itself. */
bool mw_names_resolve_return(struct mw_names *names, mw_addr address, struct mw_name *name_out);

/* "symbol+0x1f (libx.so)", "libx.so+0x4c1d37", "symbol" at its start, "" for an empty name. */
void mw_names_format(const struct mw_name *name, char text[MW_NAME_TEXT_ROOM]);

/* The source line of address, if there are DWARF lines: file cut at its front to room bytes.
 * Expensive the first time a module is met: its debug sections are read. */
bool mw_names_line(struct mw_names *names, mw_addr address, char *file, size_t file_room,
                   unsigned *line_out);

#endif
