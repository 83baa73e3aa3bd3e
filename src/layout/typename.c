/* layout/typename.c: a demangler of types, not of functions.
 *
 * Recursive descent over the grammar of the Itanium C++ ABI (5.1, "Mangling"), of which typeinfo
 * names and vtables use: nested and local names, templates, substitutions, qualifiers, functions,
 * arrays, literals, lambdas. Every production returns a piece of one pool of text that only grows;
 * what contains others is written anew behind them. So a substitution is a piece that stays, a
 * hostile name ends where the pool does, and nothing is allocated. */
#include "layout/typename.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { POOL = 32 << 10, SUBSTITUTIONS = 96, ARGUMENTS = 48, DEPTH = 48, STEPS = 20000 };

struct piece {
    uint16_t start, length;
};

struct demangler {
    const char *at, *end;
    bool failed;
    unsigned depth, steps;
    size_t used;
    struct piece substitutions[SUBSTITUTIONS];
    size_t substitution_count;
    struct piece arguments[ARGUMENTS]; /* of the template read last: what T_ means */
    size_t argument_count;
    char pool[POOL];
};

static struct piece parse_type(struct demangler *dem);
static struct piece parse_name(struct demangler *dem);

/* ---- text ------------------------------------------------------------------------------------ */

static struct piece begin(const struct demangler *dem)
{
    return (struct piece){(uint16_t)dem->used, 0};
}

/* Append to the piece that was begun last. */
static void put(struct demangler *dem, struct piece *piece, const char *text, size_t length)
{
    assert((size_t)piece->start + piece->length == dem->used);
    if (dem->failed || length > POOL - 1 - dem->used) {
        dem->failed = true;
        return;
    }
    memmove(dem->pool + dem->used, text, length);
    dem->used += length;
    piece->length = (uint16_t)(piece->length + length);
}

static void puts_(struct demangler *dem, struct piece *piece, const char *text)
{
    put(dem, piece, text, strlen(text));
}

static void put_piece(struct demangler *dem, struct piece *piece, struct piece from)
{
    put(dem, piece, dem->pool + from.start, from.length);
}

static struct piece text_of(struct demangler *dem, const char *text)
{
    struct piece piece = begin(dem);
    puts_(dem, &piece, text);
    return piece;
}

static bool is_text(const struct demangler *dem, struct piece piece, const char *text)
{
    return piece.length == strlen(text) && memcmp(dem->pool + piece.start, text, piece.length) == 0;
}

static bool begins(const struct demangler *dem, struct piece piece, const char *text)
{
    size_t length = strlen(text);
    return piece.length >= length && memcmp(dem->pool + piece.start, text, length) == 0;
}

static struct piece with_suffix(struct demangler *dem, struct piece from, const char *suffix)
{
    struct piece piece = begin(dem);
    put_piece(dem, &piece, from);
    puts_(dem, &piece, suffix);
    return piece;
}

static struct piece failed(struct demangler *dem)
{
    dem->failed = true;
    return (struct piece){0, 0};
}

/* ---- input ----------------------------------------------------------------------------------- */

static char peek(const struct demangler *dem)
{
    return !dem->failed && dem->at < dem->end ? *dem->at : '\0';
}

static char peek2(const struct demangler *dem)
{
    return !dem->failed && dem->end - dem->at > 1 ? dem->at[1] : '\0';
}

static bool eat(struct demangler *dem, char c)
{
    if (peek(dem) != c || c == '\0')
        return false;
    dem->at++;
    return true;
}

static bool eat2(struct demangler *dem, const char *two)
{
    if (peek(dem) != two[0] || peek2(dem) != two[1])
        return false;
    dem->at += 2;
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A number; at most 2^20, which is more than any text here is long. */
static size_t parse_number(struct demangler *dem)
{
    size_t value = 0;
    if (!is_digit(peek(dem)))
        dem->failed = true;
    while (is_digit(peek(dem)) && value < 1 << 20)
        value = value * 10 + (size_t)(*dem->at++ - '0');
    return value;
}

/* [base 36 number] _ : 0 for none, else the number + 1. */
static size_t parse_seq(struct demangler *dem)
{
    size_t value = 0;
    bool any = false;
    for (char c = peek(dem); (is_digit(c) || (c >= 'A' && c <= 'Z')) && value < 1 << 20;
         c = peek(dem)) {
        value = value * 36 + (size_t)(is_digit(c) ? c - '0' : c - 'A' + 10);
        any = true;
        dem->at++;
    }
    if (!eat(dem, '_'))
        dem->failed = true;
    return any ? value + 1 : 0;
}

/* [decimal number] _ in the same way. */
static size_t parse_discriminator(struct demangler *dem)
{
    size_t value = is_digit(peek(dem)) ? parse_number(dem) + 1 : 0;
    if (!eat(dem, '_'))
        dem->failed = true;
    return value;
}

static bool enter(struct demangler *dem)
{
    dem->depth++;
    if (dem->depth > DEPTH || ++dem->steps > STEPS)
        dem->failed = true;
    return !dem->failed;
}

static struct piece leave(struct demangler *dem, struct piece piece)
{
    dem->depth--;
    return piece;
}

static struct piece substitution_add(struct demangler *dem, struct piece piece)
{
    if (dem->substitution_count < SUBSTITUTIONS)
        dem->substitutions[dem->substitution_count++] = piece;
    else
        dem->failed = true;
    return piece;
}

/* ---- names ----------------------------------------------------------------------------------- */

static struct piece parse_source_name(struct demangler *dem)
{
    size_t length = parse_number(dem);
    if (dem->failed || length == 0 || length > (size_t)(dem->end - dem->at))
        return failed(dem);
    const char *name = dem->at;
    dem->at += length;
    struct piece piece = begin(dem);
    if (length >= 10 && memcmp(name, "_GLOBAL__N", 10) == 0)
        puts_(dem, &piece, "(anonymous namespace)");
    else
        put(dem, &piece, name, length);
    while (!dem->failed && peek(dem) == 'B' && is_digit(peek2(dem))) { /* an ABI tag */
        dem->at++;
        size_t tag = parse_number(dem);
        if (dem->failed || tag > (size_t)(dem->end - dem->at))
            return failed(dem);
        dem->at += tag;
    }
    return piece;
}

/* Types until E or the end, as "A, B". */
static struct piece parse_types(struct demangler *dem)
{
    struct piece types[ARGUMENTS];
    size_t count = 0;
    while (!dem->failed && peek(dem) != 'E' && peek(dem) != '\0' && peek(dem) != '_') {
        if (count == ARGUMENTS)
            return failed(dem);
        types[count++] = parse_type(dem);
    }
    struct piece list = begin(dem);
    for (size_t i = 0; i < count; i++) {
        if (count == 1 && is_text(dem, types[i], "void"))
            break;
        if (i > 0)
            puts_(dem, &list, ", ");
        put_piece(dem, &list, types[i]);
    }
    return list;
}

/* Ut [n] _ and Ul types E [n] _ */
static struct piece parse_unnamed(struct demangler *dem)
{
    char number[40];
    if (eat2(dem, "Ut")) {
        snprintf(number, sizeof number, "{unnamed#%zu}", parse_discriminator(dem) + 1);
        return text_of(dem, number);
    }
    dem->at += 2;
    struct piece types = parse_types(dem);
    if (!eat(dem, 'E'))
        return failed(dem);
    snprintf(number, sizeof number, ")#%zu}", parse_discriminator(dem) + 1);
    struct piece piece = begin(dem);
    puts_(dem, &piece, "{lambda(");
    put_piece(dem, &piece, types);
    puts_(dem, &piece, number);
    return piece;
}

static const struct {
    char code[3];
    const char *name;
} operators[] = {
    {"cl", "operator()"}, {"ix", "operator[]"},  {"aS", "operator="},    {"eq", "operator=="},
    {"ne", "operator!="}, {"lt", "operator<"},   {"gt", "operator>"},    {"ls", "operator<<"},
    {"rs", "operator>>"}, {"pt", "operator->"},  {"de", "operator*"},    {"pl", "operator+"},
    {"mi", "operator-"},  {"pp", "operator++"},  {"mm", "operator--"},   {"pL", "operator+="},
    {"or", "operator|"},  {"an", "operator&"},   {"nt", "operator!"},    {"le", "operator<="},
    {"ge", "operator>="}, {"ss", "operator<=>"}, {"nw", "operator new"}, {"dl", "operator delete"},
};

static struct piece parse_unqualified(struct demangler *dem, struct piece scope)
{
    char c = peek(dem), second = peek2(dem);
    if (is_digit(c))
        return parse_source_name(dem);
    if (c == 'L' && is_digit(second)) { /* with internal linkage */
        dem->at++;
        return parse_source_name(dem);
    }
    if (c == 'U' && (second == 't' || second == 'l'))
        return parse_unnamed(dem);
    if ((c == 'C' || c == 'D') && is_digit(second)) { /* con- and destructors hold lambdas, too */
        dem->at += 2;
        size_t from = scope.length;
        while (from > 0 && dem->pool[scope.start + from - 1] != ':')
            from--;
        struct piece piece = begin(dem);
        if (c == 'D')
            puts_(dem, &piece, "~");
        put(dem, &piece, dem->pool + scope.start + from, scope.length - from);
        return piece;
    }
    if (eat2(dem, "cv")) {
        struct piece type = parse_type(dem), piece = begin(dem);
        puts_(dem, &piece, "operator ");
        put_piece(dem, &piece, type);
        return piece;
    }
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (eat2(dem, operators[i].code))
            return text_of(dem, operators[i].name);
    return failed(dem);
}

static struct piece parse_literal(struct demangler *dem)
{
    if (eat2(dem, "_Z")) { /* the address of a function or variable: its name without parameters */
        struct piece name = parse_name(dem);
        if (peek(dem) != 'E')
            (void)parse_types(dem);
        return eat(dem, 'E') ? with_suffix(dem, name, "") : failed(dem);
    }
    bool is_bool = peek(dem) == 'b', is_named = is_digit(peek(dem)) || peek(dem) == 'N';
    struct piece type = parse_type(dem), piece = begin(dem);
    bool negative = eat(dem, 'n');
    const char *from = dem->at;
    while (is_digit(peek(dem)))
        dem->at++;
    size_t digits = (size_t)(dem->at - from);
    if (!eat(dem, 'E'))
        return failed(dem);
    if (is_bool && digits == 1) {
        puts_(dem, &piece, *from == '0' ? "false" : "true");
        return piece;
    }
    if (is_named) {
        puts_(dem, &piece, "(");
        put_piece(dem, &piece, type);
        puts_(dem, &piece, ")");
    }
    if (negative)
        puts_(dem, &piece, "-");
    put(dem, &piece, from, digits);
    return piece;
}

static size_t parse_arguments_into(struct demangler *dem, struct piece *arguments, size_t count)
{
    while (!dem->failed && !eat(dem, 'E')) {
        if (count == ARGUMENTS || peek(dem) == '\0') {
            dem->failed = true;
        } else if (eat(dem, 'J')) {
            if (enter(dem))
                count = parse_arguments_into(dem, arguments, count);
            dem->depth--;
        } else {
            arguments[count++] = eat(dem, 'L') ? parse_literal(dem) : parse_type(dem);
        }
    }
    return count;
}

/* Arguments that the standard library's templates have anyway. */
static bool is_default(const struct demangler *dem, struct piece argument)
{
    static const char *const names[] = {"std::allocator<", "std::char_traits<",
                                        "std::less<",      "std::hash<",
                                        "std::equal_to<",  "std::default_delete<"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (begins(dem, argument, names[i]))
            return true;
    return false;
}

/* I arguments E behind a template's name. */
static struct piece parse_template(struct demangler *dem, struct piece name)
{
    struct piece arguments[ARGUMENTS];
    dem->at++;
    size_t count = enter(dem) ? parse_arguments_into(dem, arguments, 0) : 0;
    dem->depth--;
    if (dem->failed)
        return (struct piece){0, 0};
    memcpy(dem->arguments, arguments, count * sizeof *arguments);
    dem->argument_count = count;
    bool is_std = begins(dem, name, "std::");
    struct piece piece = begin(dem);
    put_piece(dem, &piece, name);
    puts_(dem, &piece, "<");
    size_t shown = 0;
    for (size_t i = 0; i < count; i++) {
        if (is_std && i > 0 && is_default(dem, arguments[i]))
            continue;
        if (shown++ > 0)
            puts_(dem, &piece, ", ");
        put_piece(dem, &piece, arguments[i]);
    }
    puts_(dem, &piece, ">");
    return is_text(dem, piece, "std::basic_string<char>") ? text_of(dem, "std::string") : piece;
}

/* S… : one met before, or an abbreviation. *is_new_out: a prefix that is no substitution yet. */
static struct piece parse_substitution(struct demangler *dem, bool *is_std_out)
{
    static const struct {
        char code;
        const char *name;
    } names[] = {{'t', "std"},          {'a', "std::allocator"}, {'b', "std::basic_string"},
                 {'s', "std::string"},  {'i', "std::istream"},   {'o', "std::ostream"},
                 {'d', "std::iostream"}};
    dem->at++;
    char c = peek(dem);
    *is_std_out = c == 't';
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (c == names[i].code) {
            dem->at++;
            return text_of(dem, names[i].name);
        }
    }
    size_t index = parse_seq(dem);
    if (dem->failed || index >= dem->substitution_count)
        return failed(dem);
    return dem->substitutions[index];
}

static struct piece join(struct demangler *dem, struct piece scope, struct piece name)
{
    struct piece piece = begin(dem);
    if (is_text(dem, name, "__cxx11") && is_text(dem, scope, "std"))
        put_piece(dem, &piece, scope); /* the version of the ABI is no part of the name */
    else if (scope.length == 0)
        put_piece(dem, &piece, name);
    else {
        put_piece(dem, &piece, scope);
        puts_(dem, &piece, "::");
        put_piece(dem, &piece, name);
    }
    return piece;
}

/* T_ and T1_ */
static struct piece parse_parameter(struct demangler *dem)
{
    dem->at++;
    size_t index = parse_seq(dem);
    if (dem->failed)
        return (struct piece){0, 0};
    return index < dem->argument_count ? dem->arguments[index] : text_of(dem, "auto");
}

/* N … E */
static struct piece parse_nested(struct demangler *dem)
{
    dem->at++;
    while (peek(dem) == 'r' || peek(dem) == 'V' || peek(dem) == 'K' || peek(dem) == 'R' ||
           peek(dem) == 'O')
        dem->at++;
    struct piece name = {0, 0};
    while (!dem->failed && !eat(dem, 'E')) {
        bool is_std = false, is_known = false;
        if (peek(dem) == '\0')
            return failed(dem);
        if (peek(dem) == 'I') {
            name = parse_template(dem, name);
        } else if (peek(dem) == 'S') {
            name = parse_substitution(dem, &is_std);
            is_known = true;
        } else if (peek(dem) == 'T') {
            name = parse_parameter(dem);
        } else {
            name = join(dem, name, parse_unqualified(dem, name));
        }
        if (!is_known && peek(dem) != 'E')
            substitution_add(dem, name);
    }
    return name;
}

/* Z function E entity: a type inside a function. */
static struct piece parse_local(struct demangler *dem)
{
    dem->at++;
    struct piece function = parse_name(dem);
    struct piece types = parse_types(dem), scope = begin(dem);
    put_piece(dem, &scope, function);
    puts_(dem, &scope, "(");
    put_piece(dem, &scope, types);
    puts_(dem, &scope, ")");
    if (!eat(dem, 'E'))
        return failed(dem);
    if (eat(dem, 'd'))
        (void)parse_discriminator(dem); /* in a default argument */
    struct piece name = join(dem, scope, parse_name(dem));
    if (eat(dem, '_')) { /* which of several of that name */
        if (eat(dem, '_'))
            (void)parse_discriminator(dem);
        else if (is_digit(peek(dem)))
            dem->at++;
    }
    return name;
}

static struct piece parse_name_inner(struct demangler *dem)
{
    char c = peek(dem);
    if (c == 'N')
        return parse_nested(dem);
    if (c == 'Z')
        return parse_local(dem);
    struct piece name = {0, 0};
    bool is_std = false, is_known = false;
    if (c == 'S') {
        name = parse_substitution(dem, &is_std);
        is_known = !is_std;
        if (is_std)
            name = join(dem, name, parse_unqualified(dem, name));
    } else {
        name = parse_unqualified(dem, name);
    }
    if (peek(dem) == 'I') {
        if (!is_known)
            substitution_add(dem, name);
        name = parse_template(dem, name);
    }
    return name;
}

static struct piece parse_name(struct demangler *dem)
{
    struct piece name = enter(dem) ? parse_name_inner(dem) : (struct piece){0, 0};
    return leave(dem, name);
}

/* ---- types ----------------------------------------------------------------------------------- */

static const char *builtin(char c)
{
    static const char *const names[26] = {
        ['a' - 'a'] = "signed char", ['b' - 'a'] = "bool",
        ['c' - 'a'] = "char",        ['d' - 'a'] = "double",
        ['e' - 'a'] = "long double", ['f' - 'a'] = "float",
        ['g' - 'a'] = "__float128",  ['h' - 'a'] = "unsigned char",
        ['i' - 'a'] = "int",         ['j' - 'a'] = "unsigned",
        ['l' - 'a'] = "long",        ['m' - 'a'] = "unsigned long",
        ['n' - 'a'] = "__int128",    ['o' - 'a'] = "unsigned __int128",
        ['s' - 'a'] = "short",       ['t' - 'a'] = "unsigned short",
        ['v' - 'a'] = "void",        ['w' - 'a'] = "wchar_t",
        ['x' - 'a'] = "long long",   ['y' - 'a'] = "unsigned long long",
        ['z' - 'a'] = "...",
    };
    return c >= 'a' && c <= 'z' ? names[c - 'a'] : NULL;
}

static const char *builtin_d(char c)
{
    switch (c) {
    case 'n':
        return "std::nullptr_t";
    case 'i':
        return "char32_t";
    case 's':
        return "char16_t";
    case 'u':
        return "char8_t";
    case 'a':
        return "auto";
    case 'h':
        return "_Float16";
    }
    return NULL;
}

/* [qualifiers] F [Y] result parameters E */
static struct piece parse_function(struct demangler *dem)
{
    dem->at++;
    (void)eat(dem, 'Y');
    struct piece result = parse_type(dem), types = parse_types(dem), piece = begin(dem);
    (void)(eat(dem, 'R') || eat(dem, 'O'));
    if (!eat(dem, 'E'))
        return failed(dem);
    put_piece(dem, &piece, result);
    puts_(dem, &piece, " (");
    put_piece(dem, &piece, types);
    puts_(dem, &piece, ")");
    return piece;
}

static struct piece parse_array(struct demangler *dem)
{
    char size[32] = " []";
    dem->at++;
    if (is_digit(peek(dem)))
        snprintf(size, sizeof size, " [%zu]", parse_number(dem));
    if (!eat(dem, '_'))
        return failed(dem);
    return with_suffix(dem, parse_type(dem), size);
}

static struct piece parse_member_pointer(struct demangler *dem)
{
    dem->at++;
    struct piece class = parse_type(dem), member = parse_type(dem), piece = begin(dem);
    put_piece(dem, &piece, member);
    puts_(dem, &piece, " ");
    put_piece(dem, &piece, class);
    puts_(dem, &piece, "::*");
    return piece;
}

static struct piece parse_qualified(struct demangler *dem)
{
    bool is_const = false, is_volatile = false;
    for (char c = peek(dem); c == 'r' || c == 'V' || c == 'K'; c = peek(dem)) {
        is_const |= c == 'K';
        is_volatile |= c == 'V';
        dem->at++;
    }
    struct piece type = parse_type(dem);
    if (is_volatile)
        type = with_suffix(dem, type, " volatile");
    return is_const ? with_suffix(dem, type, " const") : type;
}

static struct piece parse_type_d(struct demangler *dem)
{
    char c = peek2(dem);
    if (c == 'o' || c == 'x') { /* noexcept, transaction_safe functions */
        dem->at += 2;
        return substitution_add(dem, parse_type(dem));
    }
    if (c == 'p') {
        dem->at += 2;
        return substitution_add(dem, with_suffix(dem, parse_type(dem), "..."));
    }
    const char *name = builtin_d(c);
    if (!name)
        return failed(dem);
    dem->at += 2;
    return text_of(dem, name);
}

static struct piece parse_substituted_type(struct demangler *dem)
{
    if (peek2(dem) == 't')
        return substitution_add(dem, parse_name(dem));
    const char *from = dem->at;
    struct piece name = parse_name(dem);
    bool is_template = dem->at > from && dem->at[-1] == 'E';
    return is_template ? substitution_add(dem, name) : name;
}

static struct piece parse_type_inner(struct demangler *dem)
{
    char c = peek(dem);
    const char *name = builtin(c);
    if (name && c != 'r') {
        dem->at++;
        return text_of(dem, name);
    }
    switch (c) {
    case 'P':
        dem->at++;
        return substitution_add(dem, with_suffix(dem, parse_type(dem), "*"));
    case 'R':
        dem->at++;
        return substitution_add(dem, with_suffix(dem, parse_type(dem), "&"));
    case 'O':
        dem->at++;
        return substitution_add(dem, with_suffix(dem, parse_type(dem), "&&"));
    case 'r':
    case 'V':
    case 'K':
        return substitution_add(dem, parse_qualified(dem));
    case 'F':
        return substitution_add(dem, parse_function(dem));
    case 'A':
        return substitution_add(dem, parse_array(dem));
    case 'M':
        return substitution_add(dem, parse_member_pointer(dem));
    case 'D':
        return parse_type_d(dem);
    case 'S':
        return parse_substituted_type(dem);
    case 'T': {
        struct piece parameter = substitution_add(dem, parse_parameter(dem));
        return peek(dem) == 'I' ? substitution_add(dem, parse_template(dem, parameter)) : parameter;
    }
    default:
        return substitution_add(dem, parse_name(dem));
    }
}

static struct piece parse_type(struct demangler *dem)
{
    struct piece type = enter(dem) ? parse_type_inner(dem) : (struct piece){0, 0};
    return leave(dem, type);
}

bool mw_type_name(const char *mangled, size_t length, char *name, size_t room)
{
    assert(room > 4);
    struct demangler dem;
    dem.at = mangled, dem.end = mangled + length;
    dem.failed = false;
    dem.depth = dem.steps = 0;
    dem.used = dem.substitution_count = dem.argument_count = 0;
    if (length > 0 && *mangled == '*') /* typeinfo that is compared by address */
        dem.at++;
    struct piece type = parse_type(&dem);
    if (dem.failed || dem.at != dem.end || type.length == 0)
        return false;
    if (type.length < room)
        snprintf(name, room, "%.*s", (int)type.length, dem.pool + type.start);
    else
        snprintf(name, room, "%.*s...", (int)room - 4, dem.pool + type.start);
    return true;
}
