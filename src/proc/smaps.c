/* proc/smaps.c: the text of /proc/PID/smaps and /proc/PID/maps → mappings.
 *
 * Trusts nothing: the text may be pasted by hand, cut anywhere or made up. One pass over the bytes,
 * no copy but the names; work is linear in the text. What comes from a descriptor is parsed window
 * by window: smaps of 1,000 threads is 2 MB, and giving room to it costs half of what the kernel
 * takes to print it.
 *
 *   559fc6813000-559fc6815000 r--p 00000000 fe:00 247629      /usr/bin/head   header
 *   Size:                  8 kB                                               counters
 *   …
 *   VmFlags: rd mr mw me                                                      flags
 *
 * The kernel prints the counters in the same order for every mapping. The search for a counter's
 * name therefore starts behind the one found last, so that it normally hits at once.
 *
 * Reference: Linux fs/proc/task_mmu.c, 2.6.14 to 6.18; Documentation/filesystems/proc.rst. */
#include "proc/smaps.h"

#include "base/alloc.h"
#include "base/limits.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

enum {
    WINDOW_BYTES = 64 << 10, /* grows for a line that is longer */
    /* The kernel prints mappings into a buffer of a page until a read is served; one that does not
     * fit any more is printed again for the next. Reads of less leave room for the last one: 10 %
     * less time than reads of a page or more (smaps of 2,800 mappings, Linux 6.18). */
    READ_BYTES = 3200,
    DIGITS_SAFE = 15, /* kilobytes that cannot overflow */
};

/* What a line may be beside one of enum mw_counter. */
enum {
    FIELD_IGNORED = MW_COUNTER_COUNT,
    FIELD_PAGE_SIZE,
    FIELD_VM_FLAGS,
};

/* Names in the order of Linux 6.18, then those of other versions. */
static const struct smaps_field {
    const char *name;
    uint8_t length;
    uint8_t field;
    bool has_unit; /* "kB" must follow the number */
} fields[] = {
#define FIELD(text, what, unit)                                                                    \
    {                                                                                              \
        text, sizeof text - 1, what, unit                                                          \
    }
    FIELD("Size", FIELD_IGNORED, true),
    FIELD("KernelPageSize", FIELD_PAGE_SIZE, true),
    FIELD("MMUPageSize", FIELD_IGNORED, true),
    FIELD("Rss", MW_COUNTER_RSS, true),
    FIELD("Pss", MW_COUNTER_PSS, true),
    FIELD("Pss_Dirty", FIELD_IGNORED, true),
    FIELD("Shared_Clean", MW_COUNTER_SHARED_CLEAN, true),
    FIELD("Shared_Dirty", MW_COUNTER_SHARED_DIRTY, true),
    FIELD("Private_Clean", MW_COUNTER_PRIVATE_CLEAN, true),
    FIELD("Private_Dirty", MW_COUNTER_PRIVATE_DIRTY, true),
    FIELD("Referenced", MW_COUNTER_REFERENCED, true),
    FIELD("Anonymous", MW_COUNTER_ANONYMOUS, true),
    FIELD("KSM", FIELD_IGNORED, true),
    FIELD("LazyFree", MW_COUNTER_LAZY_FREE, true),
    FIELD("AnonHugePages", MW_COUNTER_ANON_HUGE, true),
    FIELD("ShmemPmdMapped", MW_COUNTER_SHMEM_PMD, true),
    FIELD("FilePmdMapped", MW_COUNTER_FILE_PMD, true),
    FIELD("Shared_Hugetlb", MW_COUNTER_SHARED_HUGETLB, true),
    FIELD("Private_Hugetlb", MW_COUNTER_PRIVATE_HUGETLB, true),
    FIELD("Swap", MW_COUNTER_SWAP, true),
    FIELD("SwapPss", MW_COUNTER_SWAP_PSS, true),
    FIELD("Locked", MW_COUNTER_LOCKED, true),
    FIELD("THPeligible", FIELD_IGNORED, false),
    FIELD("ProtectionKey", FIELD_IGNORED, false),
    FIELD("VmFlags", FIELD_VM_FLAGS, false),
    FIELD("Pss_Anon", FIELD_IGNORED, true), /* smaps_rollup */
    FIELD("Pss_File", FIELD_IGNORED, true),
    FIELD("Pss_Shmem", FIELD_IGNORED, true),
    FIELD("Nonlinear", FIELD_IGNORED, true), /* 3.2 to 4.0 */
    FIELD("Name", FIELD_IGNORED, false),     /* Android before 5.17: repeats [anon:…] */
#undef FIELD
};
enum { FIELD_COUNT = sizeof fields / sizeof *fields };

static const struct {
    char name[3];
    uint32_t flag;
} vm_flags[] = {
    {"ac", MW_VM_ACCOUNT},     {"nr", MW_VM_NORESERVE},   {"gd", MW_VM_GROWSDOWN},
    {"lo", MW_VM_LOCKED},      {"dd", MW_VM_DONTDUMP},    {"dc", MW_VM_DONTFORK},
    {"hg", MW_VM_HUGEPAGE},    {"nh", MW_VM_NOHUGEPAGE},  {"ht", MW_VM_HUGETLB},
    {"pf", MW_VM_PFNMAP},      {"io", MW_VM_IO},          {"ss", MW_VM_SHADOW_STACK},
    {"wf", MW_VM_WIPEONFORK},  {"gu", MW_VM_GUARD},       {"um", MW_VM_USERFAULTFD},
    {"uw", MW_VM_USERFAULTFD}, {"ui", MW_VM_USERFAULTFD},
};

/* One line, or what is left of it. */
struct span {
    const char *at, *end;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static void skip_blanks(struct span *line)
{
    while (line->at < line->end && is_blank(*line->at))
        line->at++;
}

static bool take_char(struct span *line, char c)
{
    if (line->at == line->end || *line->at != c)
        return false;
    line->at++;
    return true;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

/* At least one hexadecimal digit, no overflow. */
static bool take_hex(struct span *line, uint64_t *value_out)
{
    const char *first = line->at;
    uint64_t value = 0;
    for (int digit; line->at < line->end && (digit = hex_digit(*line->at)) >= 0; line->at++) {
        if (value >> 60)
            return false;
        value = value << 4 | (uint64_t)digit;
    }
    *value_out = value;
    return line->at > first;
}

static bool take_decimal(struct span *line, uint64_t *value_out)
{
    const char *first = line->at;
    uint64_t value = 0;
    for (; line->at < line->end && *line->at >= '0' && *line->at <= '9'; line->at++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*line->at - '0'), &value))
            return false;
    *value_out = value;
    return line->at > first;
}

static bool take_perms(struct span *line, uint32_t *perms_out)
{
    if (line->end - line->at < 4)
        return false;
    const char *at = line->at;
    if ((at[0] != 'r' && at[0] != '-') || (at[1] != 'w' && at[1] != '-') ||
        (at[2] != 'x' && at[2] != '-') || (at[3] != 'p' && at[3] != 's'))
        return false;
    *perms_out = (at[0] == 'r' ? MW_PERM_READ : 0u) | (at[1] == 'w' ? MW_PERM_WRITE : 0u) |
                 (at[2] == 'x' ? MW_PERM_EXEC : 0u) | (at[3] == 's' ? MW_PERM_SHARED : 0u);
    line->at += 4;
    return true;
}

/* "start-end perms offset major:minor inode"; line then holds the name. */
static bool parse_header(struct span *line, struct mw_mapping *map)
{
    uint64_t major, minor;
    if (!take_hex(line, &map->start) || !take_char(line, '-') || !take_hex(line, &map->end))
        return false;
    skip_blanks(line);
    if (!take_perms(line, &map->perms))
        return false;
    skip_blanks(line);
    if (!take_hex(line, &map->offset))
        return false;
    skip_blanks(line);
    if (!take_hex(line, &major) || !take_char(line, ':') || !take_hex(line, &minor))
        return false;
    skip_blanks(line);
    if (!take_decimal(line, &map->inode) || (line->at < line->end && !is_blank(*line->at)))
        return false;
    skip_blanks(line);
    map->dev_major = (uint32_t)major;
    map->dev_minor = (uint32_t)minor;
    return map->start < map->end && major <= UINT32_MAX && minor <= UINT32_MAX;
}

/* "7f00-…": a range, whether the rest is understood or not. */
static bool begins_like_header(struct span line)
{
    while (line.at < line.end && hex_digit(*line.at) >= 0)
        line.at++;
    return take_char(&line, '-') && line.at < line.end && hex_digit(*line.at) >= 0;
}

struct smaps_parser {
    struct mw_mapping_list *list;
    struct mw_findings *findings;
    struct mw_mapping current;
    struct span name; /* of current */
    bool has_current;
    bool is_lost;      /* the header of the counters that follow was not understood */
    bool last_is_bad;  /* the last line was not understood */
    bool is_cut;       /* the text ends within current */
    size_t next_field; /* where the search for a name starts */
    size_t line_number;
    uint32_t known_first;                /* counters of the first mapping: what a whole one has */
    char name_kept[MW_LIMIT_NAME_BYTES]; /* name, when its window has moved on */
};

static void line_not_understood(struct smaps_parser *parser)
{
    parser->last_is_bad = true;
    mw_finding_add(parser->findings, "smaps-line", 0, 0, "line %zu of the text is not understood",
                   parser->line_number);
}

/* Hand the finished mapping to the list. A live smaps is read in several steps, so a mapping that
 * grew downwards or merged in between can overlap the one before it: its start is moved up. */
static enum mw_status flush_current(struct smaps_parser *parser)
{
    if (!parser->has_current)
        return MW_OK;
    parser->has_current = false;
    struct mw_mapping_list *list = parser->list;
    struct mw_mapping *map = &parser->current;
    if (list->count == 0)
        parser->known_first = map->known;
    else if (parser->known_first & ~map->known && !parser->is_cut)
        mw_finding_add(parser->findings, "smaps-incomplete", map->start, map->end - map->start,
                       "a mapping lacks counters that others have");
    if (list->count > 0 && map->start < list->items[list->count - 1].end) {
        mw_addr floor = list->items[list->count - 1].end;
        mw_finding_add(parser->findings, "smaps-order", map->start, map->end - map->start,
                       "a mapping overlaps the one before it or is out of order");
        if (map->end <= floor)
            return MW_OK;
        map->start = floor;
    }
    size_t length = (size_t)(parser->name.end - parser->name.at);
    return mw_mapping_list_add(list, map, parser->name.at, length);
}

/* Index of the field that line begins with, FIELD_COUNT when there is none; steps behind ':'. */
static size_t take_field_name(struct smaps_parser *parser, struct span *line)
{
    const char *colon = memchr(line->at, ':', (size_t)(line->end - line->at));
    if (!colon)
        return FIELD_COUNT;
    size_t length = (size_t)(colon - line->at);
    for (size_t tried = 0, index = parser->next_field; tried < FIELD_COUNT; tried++, index++) {
        if (index >= FIELD_COUNT)
            index = 0;
        if (fields[index].length == length && memcmp(fields[index].name, line->at, length) == 0) {
            line->at = colon + 1;
            parser->next_field = index + 1;
            return index;
        }
    }
    return FIELD_COUNT;
}

static void parse_vm_flags(struct span *line, struct mw_mapping *map)
{
    map->has_vm_flags = true;
    for (skip_blanks(line); line->end - line->at >= 2; skip_blanks(line)) {
        for (size_t i = 0; i < sizeof vm_flags / sizeof *vm_flags; i++)
            if (memcmp(line->at, vm_flags[i].name, 2) == 0)
                map->vm_flags |= vm_flags[i].flag;
        while (line->at < line->end && !is_blank(*line->at))
            line->at++;
    }
}

/* "   8 kB" in bytes; nothing may follow. */
static bool parse_kilobytes(struct span *line, uint64_t *bytes_out)
{
    skip_blanks(line);
    if (!take_decimal(line, bytes_out) || __builtin_mul_overflow(*bytes_out, 1024, bytes_out))
        return false;
    skip_blanks(line);
    if (!take_char(line, 'k') || !take_char(line, 'B'))
        return false;
    skip_blanks(line);
    return line->at == line->end;
}

/* "Pss_Device:  0 kB", "THPcount: 3": a counter of a kernel that is newer than this file. */
static bool is_unknown_counter(struct span line)
{
    const char *first = line.at;
    while (line.at < line.end && *line.at != ':' && !is_blank(*line.at))
        line.at++;
    uint64_t value;
    if (line.at == first || *first < 'A' || *first > 'Z' || !take_char(&line, ':'))
        return false;
    skip_blanks(&line);
    if (!take_decimal(&line, &value))
        return false;
    skip_blanks(&line);
    return line.at == line.end || (line.end - line.at == 2 && memcmp(line.at, "kB", 2) == 0);
}

static void counter_store(struct mw_mapping *map, uint8_t field, uint64_t bytes)
{
    if (field == FIELD_PAGE_SIZE)
        map->kernel_page_size = bytes;
    else if (field < MW_COUNTER_COUNT) {
        map->counters[field] = bytes;
        map->known |= 1u << field;
    }
}

static bool parse_field(struct smaps_parser *parser, struct span *line)
{
    struct mw_mapping *map = &parser->current;
    size_t index = take_field_name(parser, line);
    if (index == FIELD_COUNT)
        return is_unknown_counter(*line);
    const struct smaps_field *field = &fields[index];
    if (field->field == FIELD_VM_FLAGS) {
        parse_vm_flags(line, map);
        return true;
    }
    if (!field->has_unit)
        return true;
    uint64_t bytes;
    if (!parse_kilobytes(line, &bytes))
        return false;
    counter_store(map, field->field, bytes);
    return true;
}

static enum mw_status parse_line(struct smaps_parser *parser, struct span line)
{
    parser->last_is_bad = false;
    if (line.at < line.end && line.end[-1] == '\r')
        line.end--;
    skip_blanks(&line);
    if (line.at == line.end)
        return MW_OK;
    if (hex_digit(*line.at) < 0) {
        if (parser->is_lost)
            return MW_OK;
        if (!parser->has_current || !parse_field(parser, &line))
            line_not_understood(parser);
        return MW_OK;
    }
    struct mw_mapping map = {0};
    bool is_header = begins_like_header(line);
    if (!parse_header(&line, &map)) {
        line_not_understood(parser);
        if (!is_header)
            return MW_OK;
        /* Its counters must not become those of the mapping before it. */
        parser->is_lost = true;
        return flush_current(parser);
    }
    enum mw_status status = flush_current(parser);
    if (status != MW_OK)
        return status;
    parser->is_lost = false;
    line.end = line.at + mw_mapping_name_trim(line.at, (size_t)(line.end - line.at), &map.deleted);
    parser->current = map;
    parser->name = line;
    parser->has_current = true;
    parser->next_field = 0;
    return MW_OK;
}

/* Behind the byte order mark that some editors put first. */
static const char *skip_mark(const char *text, size_t length)
{
    return length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text;
}

/* The line at `at` when it is the counter that is expected next, in the kernel's own form: nine of
 * ten lines. Returns what follows it, or NULL: let parse_line() see. */
static const char *parse_expected(struct smaps_parser *parser, const char *at, const char *end)
{
    static const char unit[] = " kB\n";
    if (!parser->has_current || parser->is_lost || parser->next_field >= FIELD_COUNT)
        return NULL;
    const struct smaps_field *field = &fields[parser->next_field];
    if (!field->has_unit || end - at <= field->length || at[field->length] != ':' ||
        memcmp(at, field->name, field->length) != 0)
        return NULL;
    at += field->length + 1;
    while (at < end && *at == ' ')
        at++;
    const char *first = at;
    uint64_t value = 0;
    for (; at < end && *at >= '0' && *at <= '9' && at - first < DIGITS_SAFE; at++)
        value = value * 10 + (uint64_t)(*at - '0');
    if (at == first || (size_t)(end - at) < sizeof unit - 1 ||
        memcmp(at, unit, sizeof unit - 1) != 0)
        return NULL;
    counter_store(&parser->current, field->field, value * 1024);
    parser->next_field++;
    parser->line_number++;
    parser->last_is_bad = false;
    return at + sizeof unit - 1;
}

/* Parse whole lines; *at ends behind the last one. What is left is a line only if is_last. */
static enum mw_status parse_lines(struct smaps_parser *parser, const char **at, const char *end,
                                  bool is_last)
{
    while (*at < end) {
        const char *next = parse_expected(parser, *at, end);
        if (next) {
            *at = next;
            continue;
        }
        const char *newline = memchr(*at, '\n', (size_t)(end - *at));
        if (!newline && !is_last)
            return MW_OK;
        const char *stop = newline ? newline : end;
        parser->line_number++;
        enum mw_status status = parse_line(parser, (struct span){*at, stop});
        if (status != MW_OK)
            return status;
        *at = newline ? stop + 1 : stop;
    }
    return MW_OK;
}

/* A text that ends inside a mapping: the last line is broken, or counters that the first mapping
 * has are missing. */
static void check_truncation(struct smaps_parser *parser, bool ends_in_newline)
{
    if (!parser->has_current)
        return;
    bool cut = parser->last_is_bad && !ends_in_newline;
    uint32_t whole = parser->list->count ? parser->known_first : parser->current.known;
    parser->is_cut = cut || (whole & ~parser->current.known);
    if (parser->is_cut)
        mw_finding_add(parser->findings, "smaps-truncated", parser->current.start,
                       parser->current.end - parser->current.start,
                       "the text ends in the middle of a mapping");
}

/* The text has ended, or status says why no more of it is parsed. */
static enum mw_status parse_end(struct smaps_parser *parser, enum mw_status status,
                                bool ends_in_newline, struct mw_error *err)
{
    if (status == MW_OK) {
        check_truncation(parser, ends_in_newline);
        status = flush_current(parser);
    }
    if (status == MW_OK && parser->list->count == 0)
        status = MW_INVALID;
    if (status == MW_OK)
        assert(parser->list->items[0].start < parser->list->items[0].end);
    if (status == MW_INVALID)
        return mw_fail(err, status, "the text holds no mapping");
    if (status == MW_LIMIT)
        return mw_fail(err, status, "more than %zu mappings", MW_LIMIT_MAPPINGS);
    if (status != MW_OK)
        return mw_fail(err, status, "out of memory for the mappings");
    return MW_OK;
}

enum mw_status mw_smaps_parse(const char *text, size_t length, struct mw_mapping_list *list_out,
                              struct mw_findings *findings, struct mw_error *err)
{
    struct mw_mapping_list list = {0};
    struct smaps_parser parser = {.list = &list, .findings = findings};
    const char *at = skip_mark(text, length), *end = text + length;
    enum mw_status status = parse_lines(&parser, &at, end, true);
    status = parse_end(&parser, status, length > 0 && end[-1] == '\n', err);
    if (status == MW_OK)
        *list_out = list;
    else
        mw_mapping_list_deinit(&list);
    return status;
}

/* ---- from a descriptor ---- */

struct window {
    char *bytes;
    size_t room, count;
    uint64_t total; /* bytes read so far */
    bool is_last, ends_in_newline;
};

/* Read until the window is full or the text ends. */
static enum mw_status window_fill(struct window *window, int fd, struct mw_error *err)
{
    if (window->room - window->count < READ_BYTES) {
        size_t room = window->room ? 2 * window->room : WINDOW_BYTES;
        char *grown = mw_regrow(window->bytes, window->room, room, 1);
        if (!grown)
            return mw_fail(err, MW_NOMEM, "out of memory for the mappings");
        window->bytes = grown;
        window->room = room;
    }
    while (!window->is_last && window->room - window->count >= READ_BYTES) {
        ssize_t got = read(fd, window->bytes + window->count, READ_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return mw_fail_errno(err, errno, "cannot read the text of the mappings");
        window->is_last = got == 0;
        window->count += (size_t)got;
        window->total += (uint64_t)got;
        if (got > 0)
            window->ends_in_newline = window->bytes[window->count - 1] == '\n';
        if (window->total > MW_LIMIT_PROC_TEXT_BYTES)
            return mw_fail(err, MW_LIMIT, "the text of the mappings is larger than %zu bytes",
                           MW_LIMIT_PROC_TEXT_BYTES);
    }
    return MW_OK;
}

/* Keep what is behind at, and the name of the mapping at hand. */
static void window_move(struct window *window, const char *at, struct smaps_parser *parser)
{
    size_t length = (size_t)(parser->name.end - parser->name.at);
    if (parser->has_current) {
        length = length < sizeof parser->name_kept ? length : sizeof parser->name_kept;
        memmove(parser->name_kept, parser->name.at, length);
        parser->name = (struct span){parser->name_kept, parser->name_kept + length};
    }
    window->count -= (size_t)(at - window->bytes);
    memmove(window->bytes, at, window->count);
}

enum mw_status mw_smaps_read(int fd, struct mw_mapping_list *list_out, struct mw_findings *findings,
                             uint64_t *length_out, struct mw_error *err)
{
    struct mw_mapping_list list = {0};
    struct smaps_parser parser = {.list = &list, .findings = findings};
    struct window window = {0};
    enum mw_status status = MW_OK, read_status;
    do {
        read_status = window_fill(&window, fd, err);
        if (read_status != MW_OK)
            break;
        bool is_first = window.total == window.count;
        const char *at = is_first ? skip_mark(window.bytes, window.count) : window.bytes;
        status = parse_lines(&parser, &at, window.bytes + window.count, window.is_last);
        window_move(&window, at, &parser);
    } while (status == MW_OK && !window.is_last);
    if (read_status == MW_OK)
        status = parse_end(&parser, status, window.ends_in_newline, err);
    else
        status = read_status;
    free(window.bytes);
    *length_out = window.total;
    if (status == MW_OK)
        *list_out = list;
    else
        mw_mapping_list_deinit(&list);
    return status;
}

bool mw_smaps_recognize(const char *text, size_t length)
{
    const char *end = text + length, *at = skip_mark(text, length);
    while (at < end && (is_blank(*at) || *at == '\n' || *at == '\r'))
        at++;
    size_t left = at < end ? (size_t)(end - at) : 0;
    const char *newline = left ? memchr(at, '\n', left) : NULL;
    struct span line = {at, newline ? newline : end};
    if (line.at < line.end && line.end[-1] == '\r')
        line.end--;
    struct mw_mapping map = {0};
    return parse_header(&line, &map);
}

static void vm_flags_put(const struct mw_mapping *map, struct mw_str *text)
{
    uint32_t left = map->vm_flags;
    mw_str_puts(text, "VmFlags:");
    for (size_t i = 0; i < sizeof vm_flags / sizeof *vm_flags; i++) {
        if (left & vm_flags[i].flag)
            mw_str_printf(text, " %s", vm_flags[i].name);
        left &= ~vm_flags[i].flag;
    }
    mw_str_puts(text, " \n");
}

void mw_smaps_format(const struct mw_mapping *map, struct mw_str *text)
{
    mw_str_printf(text, "%llx-%llx %c%c%c%c %08llx %02x:%02x %llu ", (unsigned long long)map->start,
                  (unsigned long long)map->end, map->perms & MW_PERM_READ ? 'r' : '-',
                  map->perms & MW_PERM_WRITE ? 'w' : '-', map->perms & MW_PERM_EXEC ? 'x' : '-',
                  map->perms & MW_PERM_SHARED ? 's' : 'p', (unsigned long long)map->offset,
                  map->dev_major, map->dev_minor, (unsigned long long)map->inode);
    for (const char *at = map->name; *at; at++) { /* as the kernel writes it */
        if (*at == '\n')
            mw_str_puts(text, "\\012");
        else
            mw_str_putc(text, *at);
    }
    mw_str_puts(text, map->deleted ? " (deleted)\n" : "\n");
    if (map->kernel_page_size)
        mw_str_printf(text, "KernelPageSize: %llu kB\n",
                      (unsigned long long)map->kernel_page_size / 1024);
    for (size_t i = 0; i < FIELD_COUNT; i++)
        if (fields[i].field < MW_COUNTER_COUNT &&
            mw_mapping_knows(map, (enum mw_counter)fields[i].field))
            mw_str_printf(text, "%s: %llu kB\n", fields[i].name,
                          (unsigned long long)map->counters[fields[i].field] / 1024);
    if (map->has_vm_flags)
        vm_flags_put(map, text);
}
