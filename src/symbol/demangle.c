/* symbol/demangle.c: see demangle.h. libiberty does the work.
 *
 * A mangled name of a hundred bytes can stand for a text of terabytes: its substitutions double.
 * libiberty's callback form prints piece by piece from the stack, allocating nothing, so that we
 * may leave it by longjmp when the room is full. Its recursion is bounded by itself (2048).
 *
 * References: libiberty of binutils 2.40, cp-demangle.c (d_print_init, d_growable),
 * rust-demangle.c.
 */
#include "symbol/demangle.h"

#if MW_WITH_DEMANGLE

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <string.h>

struct printing {
    jmp_buf full;
    char *text;
    size_t room, used;
};

static void take_piece(const char *piece, size_t length, void *user)
{
    struct printing *printing = user;
    size_t left = printing->room - 1 - printing->used;
    size_t taken = length < left ? length : left;
    memcpy(printing->text + printing->used, piece, taken);
    printing->used += taken;
    if (taken < length)
        longjmp(printing->full, 1);
}

/* Rust's v0 is told by its prefix; its legacy form is a C++ name to look at, and is tried first. */
static bool print(const char *name, struct printing *printing)
{
    enum { OPTIONS = DMGL_PARAMS | DMGL_ANSI };
    if (rust_demangle_callback(name, 0, take_piece, printing))
        return true;
    printing->used = 0;
    return name[1] == 'Z' && cplus_demangle_v3_callback(name, OPTIONS, take_piece, printing);
}

/* False: no such name. What longjmp comes back to has no variables of its own. */
static bool print_until_full(const char *name, struct printing *printing)
{
    if (setjmp(printing->full) == 0)
        return print(name, printing) && printing->used > 0;
    memcpy(printing->text + printing->used - 3, "...", 3);
    return true;
}

bool mw_demangle(const char *name, char *text, size_t room)
{
    char buffer[MW_DEMANGLE_INPUT_MAX];
    struct printing printing = {.text = buffer,
                                .room = room < sizeof buffer ? room : sizeof buffer};
    bool is_mangled = name[0] == '_' && (name[1] == 'Z' || name[1] == 'R');
    if (!is_mangled || room < 8 || strnlen(name, MW_DEMANGLE_INPUT_MAX) == MW_DEMANGLE_INPUT_MAX ||
        !print_until_full(name, &printing))
        return false;
    buffer[printing.used] = '\0';
    memcpy(text, buffer, printing.used + 1);
    return true;
}

#else

bool mw_demangle(const char *name, char *text, size_t room)
{
    (void)name;
    (void)text;
    (void)room;
    return false;
}

#endif
