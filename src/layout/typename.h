/* layout/typename.h: the mangled name of a type, as in typeinfo and vtables, made readable. */
#ifndef MW_LAYOUT_TYPENAME_H
#define MW_LAYOUT_TYPENAME_H

#include <stdbool.h>
#include <stddef.h>

/* Demangle a type of the Itanium C++ ABI: "N6icinga4HostE" → "icinga::Host". Default arguments of
 * the standard library's templates are left out, and std::string is called that. What does not fit
 * into room is cut and ends in "...". False, with name untouched, when mangled is no type, or holds
 * what types rarely hold (expressions), or is nested deeper than 48. Allocates nothing; work is
 * bounded by 32 KiB of text. */
bool mw_type_name(const char *mangled, size_t length, char *name, size_t room);

#endif
