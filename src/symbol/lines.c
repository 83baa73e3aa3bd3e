/* symbol/lines.c: source lines from DWARF.
 *
 * The unit that holds an address is looked up in .debug_aranges, and where a compiler left that out
 * (clang) among all units, at most UNITS_MAX. libdw keeps the line table of a unit it has read.
 *
 * Reference: DWARF 5, 6.1.2 and 6.2. */
#include "symbol/module.h"

#include <string.h>

#if MW_WITH_SYMBOLS

enum { UNITS_MAX = 1 << 17 };

static bool unit_find(const struct mw_elfutils *lib, Dwarf *dwarf, Dwarf_Addr address,
                      Dwarf_Die *unit_out)
{
    Dwarf_Off at = 0, next;
    size_t header;
    if (lib->dwarf_addrdie(dwarf, address, unit_out))
        return true;
    for (size_t i = 0; i < UNITS_MAX; i++, at = next) {
        if (lib->dwarf_nextcu(dwarf, at, &next, &header, NULL, NULL, NULL) != 0 || next <= at)
            return false;
        if (lib->dwarf_offdie(dwarf, at + header, unit_out) &&
            lib->dwarf_haspc(unit_out, address) == 1)
            return true;
    }
    return false;
}

bool mw_names_line(struct mw_names *names, mw_addr address, char *file, size_t file_room,
                   unsigned *line_out)
{
    struct mw_module *module = mw_names_module(names, address);
    const struct mw_elfutils *lib = module ? mw_elfutils() : NULL;
    Dwarf *dwarf = lib ? mw_module_dwarf(names, module) : NULL;
    Dwarf_Die unit;
    int line;
    if (!dwarf || file_room == 0 || !unit_find(lib, dwarf, address - module->bias, &unit))
        return false;
    Dwarf_Line *row = lib->dwarf_getsrc_die(&unit, address - module->bias);
    const char *path = row ? lib->dwarf_linesrc(row, NULL, NULL) : NULL;
    if (!path || lib->dwarf_lineno(row, &line) != 0 || line <= 0)
        return false;
    size_t length = strlen(path);
    const char *from = length < file_room ? path : path + length - (file_room - 1);
    memcpy(file, from, strlen(from) + 1);
    *line_out = (unsigned)line;
    return true;
}

#else

bool mw_names_line(struct mw_names *names, mw_addr address, char *file, size_t file_room,
                   unsigned *line_out)
{
    (void)names;
    (void)address;
    (void)file;
    (void)file_room;
    (void)line_out;
    return false; /* no lines without elfutils */
}

#endif
