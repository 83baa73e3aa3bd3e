/* symbol/debug_file.c: where separate debug files lie. A file is believed for its build-id, never
 * for its name or place; those only say where to look:
 *
 *   DIR of --symbols   .build-id/xx/yyyy.debug, xx/yyyy.debug, xxyyyy.debug, NAME.debug, NAME
 *   this machine       /usr/lib/debug/.build-id/xx/yyyy.debug
 *   the target's own   the same below its root
 *   debuginfod         when asked for
 *
 * References: gdb manual "Separate Debug Files"; elfutils 0.188 debuginfod/debuginfod.h. */
#include "symbol/module.h"

#if MW_WITH_SYMBOLS

#include "base/alloc.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { HEX_ROOM = MW_BUILD_ID_MAX * 2 + 1, PATH_ROOM = 4096 };

static void hex_of(const struct mw_build_id *id, char hex[HEX_ROOM])
{
    for (size_t i = 0; i < id->length; i++)
        snprintf(hex + i * 2, 3, "%02x", id->bytes[i]);
}

/* Take over fd; is it the wanted file? */
static bool accept_file(int fd, const struct mw_build_id *id, struct mw_elf_file *file_out)
{
    struct mw_elf_file file;
    struct mw_build_id found;
    if (!mw_elf_file_open(fd, &file))
        return false;
    mw_elf_file_build_id(&file, &found);
    if (!mw_build_id_equal(id, &found)) {
        mw_elf_file_close(&file);
        return false;
    }
    *file_out = file;
    return true;
}

static int open_here(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

static bool find_in_dir(const char *dir, const char *name, const struct mw_build_id *id,
                        struct mw_elf_file *file_out)
{
    char hex[HEX_ROOM] = "", paths[5][PATH_ROOM];
    hex_of(id, hex);
    snprintf(paths[0], PATH_ROOM, "%s/.build-id/%.2s/%s.debug", dir, hex, hex + 2);
    snprintf(paths[1], PATH_ROOM, "%s/%.2s/%s.debug", dir, hex, hex + 2);
    snprintf(paths[2], PATH_ROOM, "%s/%s.debug", dir, hex);
    snprintf(paths[3], PATH_ROOM, "%s/%s.debug", dir, name);
    snprintf(paths[4], PATH_ROOM, "%s/%s", dir, name);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (accept_file(open_here(paths[i]), id, file_out))
            return true;
    return false;
}

struct mw_elf_file mw_debug_file_find(struct mw_names *names, const struct mw_module *module,
                                      const struct mw_build_id *id)
{
    struct mw_elf_file file = MW_ELF_FILE_CLOSED;
    char hex[HEX_ROOM] = "", path[HEX_ROOM + 64];
    const char *slash = strrchr(module->path, '/');
    if (id->length < 2)
        return file;
    if (names->options.symbols_dir &&
        find_in_dir(names->options.symbols_dir, slash ? slash + 1 : module->path, id, &file))
        return file;
    hex_of(id, hex);
    snprintf(path, sizeof path, "/usr/lib/debug/.build-id/%.2s/%s.debug", hex, hex + 2);
    if (accept_file(open_here(path), id, &file) ||
        accept_file(mw_image_open_path(names->image, path), id, &file))
        return file;
    const struct mw_elfutils *lib = mw_elfutils();
    if (names->options.debuginfod && lib->debuginfod_find)
        (void)accept_file(lib->debuginfod_find(id->bytes, (int)id->length), id, &file);
    if (names->options.debuginfod && !lib->debuginfod_find) {
        mw_finding_add(&names->image->findings, "debuginfod-missing", 0, 0,
                       "debuginfod was asked for, and libdebuginfod.so.1 is not here");
        names->options.debuginfod = false; /* said once */
    }
    return file;
}

#endif
