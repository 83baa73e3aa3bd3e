/* symbol/demangle.h: names of C++ and Rust as people write them. */
#ifndef MW_SYMBOL_DEMANGLE_H
#define MW_SYMBOL_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

enum { MW_DEMANGLE_INPUT_MAX = 1024 };

/* Demangle name into text of room bytes: C++ (Itanium ABI) with parameters, Rust (legacy and v0)
 * without its hash. What does not fit ends in "...". False: it is no such name, longer than
 * MW_DEMANGLE_INPUT_MAX, or memwhy was built without libiberty; text is untouched. Work is bounded:
 * a name that doubles itself again and again is cut like any long one. */
bool mw_demangle(const char *name, char *text, size_t room);

#endif
