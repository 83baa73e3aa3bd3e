/* proc/environ.c: the settings of allocators and runtimes in a process's environment.
 *
 * An environment holds passwords. Only names on the list below are kept, and of each value only
 * what the list's filter lets through: numbers, short words, options that are known to be about
 * memory. A name on the list whose value does not pass is kept with MW_SETTING_HIDDEN, because
 * that it is set at all can matter. Order is that of the environment; of a name set twice the
 * first wins, as for getenv(). Linear in the bytes.
 *
 * References: glibc 2.36 malloc/malloc.c and manual/tunables; jemalloc(3) 5.3; gperftools 2.10
 * docs; mimalloc 2.1 readme; OpenJDK 17 java(1); .NET 9 GC configuration; Node.js 18 node(1);
 * Python 3.11 "Environment variables"; Go 1.22 package runtime. */
#include "proc/process.h"

#include "base/limits.h"
#include "base/str.h"
#include "base/vec.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

enum {
    SETTINGS_MAX = 64,
    VALUE_BYTES_MAX = 512,
    WORD_BYTES_MAX = 16,
    NUMBER_DIGITS_MAX = 20,
};

static const char HIDDEN[] = "(not shown)";

enum filter {
    FILTER_WORD,      /* a number with a unit, or a short word */
    FILTER_OPTIONS,   /* name:value or name=value, separated by ',' or ':' or ';' */
    FILTER_LIBRARIES, /* paths: only their last parts */
    FILTER_JAVA,
    FILTER_NODE,
};

static const struct {
    const char *name; /* a '*' at the end: any name that begins so */
    enum filter filter;
} allowed[] = {
    {"MALLOC_CONF", FILTER_OPTIONS},
    {"_RJEM_MALLOC_CONF", FILTER_OPTIONS},
    {"JE_MALLOC_CONF", FILTER_OPTIONS},
    {"MALLOC_*", FILTER_WORD},
    {"GLIBC_TUNABLES", FILTER_OPTIONS},
    {"LD_PRELOAD", FILTER_LIBRARIES},
    {"TCMALLOC_*", FILTER_WORD},
    {"MIMALLOC_*", FILTER_WORD},
    {"JAVA_TOOL_OPTIONS", FILTER_JAVA},
    {"_JAVA_OPTIONS", FILTER_JAVA},
    {"JDK_JAVA_OPTIONS", FILTER_JAVA},
    {"DOTNET_GC*", FILTER_WORD},
    {"COMPlus_GC*", FILTER_WORD},
    {"DOTNET_Tiered*", FILTER_WORD},
    {"COMPlus_Tiered*", FILTER_WORD},
    {"DOTNET_EnableWriteXorExecute", FILTER_WORD},
    {"DOTNET_ReadyToRun", FILTER_WORD},
    {"DOTNET_PROCESSOR_COUNT", FILTER_WORD},
    {"DOTNET_EnableDiagnostics", FILTER_WORD},
    {"NODE_OPTIONS", FILTER_NODE},
    {"UV_THREADPOOL_SIZE", FILTER_WORD},
    {"PYTHONMALLOC", FILTER_WORD},
    {"PYTHONMALLOCSTATS", FILTER_WORD},
    {"PYTHONTRACEMALLOC", FILTER_WORD},
    {"GOGC", FILTER_WORD},
    {"GOMEMLIMIT", FILTER_WORD},
    {"GOMAXPROCS", FILTER_WORD},
    {"GODEBUG", FILTER_OPTIONS},
    {"RUBY_GC_*", FILTER_WORD},
    {"USE_ZEND_ALLOC", FILTER_WORD},
    {"OMP_NUM_THREADS", FILTER_WORD},
    {"OPENBLAS_NUM_THREADS", FILTER_WORD},
};

/* A run of bytes, not terminated. */
struct piece {
    const char *at;
    size_t length;
};

static bool name_matches(struct piece name, const char *pattern)
{
    size_t length = strlen(pattern);
    assert(length > 0);
    if (pattern[length - 1] != '*')
        return name.length == length && memcmp(name.at, pattern, length) == 0;
    length--;
    /* .NET reads its variables without regard to case: DOTNET_gcServer. */
    return name.length > length && strncasecmp(name.at, pattern, length) == 0;
}

static size_t count_while(struct piece value, size_t at, int (*is_kind)(int))
{
    size_t count = 0;
    while (at + count < value.length && is_kind((unsigned char)value.at[at + count]))
        count++;
    return count;
}

/* "4", "-1", "75.5%", "512MiB", "0x10000000" */
static bool is_number(struct piece value)
{
    size_t at = value.length > 0 && (*value.at == '-' || *value.at == '+') ? 1 : 0;
    bool is_hex = value.length > at + 2 && value.at[at] == '0' && (value.at[at + 1] | 0x20) == 'x';
    if (is_hex)
        return count_while(value, at + 2, isxdigit) == value.length - at - 2 &&
               value.length - at - 2 <= 16;
    size_t digits = count_while(value, at, isdigit);
    at += digits;
    if (digits > 0 && at < value.length && value.at[at] == '.') {
        size_t more = count_while(value, at + 1, isdigit);
        digits += more;
        at += 1 + more;
    }
    size_t unit = count_while(value, at, isalpha);
    at += unit;
    if (at < value.length && value.at[at] == '%')
        at++;
    return digits > 0 && digits <= NUMBER_DIGITS_MAX && unit <= 3 && at == value.length;
}

/* A number with an optional unit, or a short word without digits ("true", "malloc_debug"). */
static bool is_word(struct piece value)
{
    if (value.length == 0 || is_number(value))
        return value.length > 0;
    for (size_t i = 0; i < value.length; i++)
        if (!isalpha((unsigned char)value.at[i]) && value.at[i] != '_')
            return false;
    return value.length <= WORD_BYTES_MAX;
}

/* The next piece of *rest up to one of the separators; false at the end. */
static bool next_piece(struct piece *rest, const char *separators, struct piece *piece_out)
{
    while (rest->length > 0 && strchr(separators, *rest->at)) {
        rest->at++;
        rest->length--;
    }
    size_t length = 0;
    while (length < rest->length && !strchr(separators, rest->at[length]))
        length++;
    *piece_out = (struct piece){rest->at, length};
    rest->at += length;
    rest->length -= length;
    return length > 0;
}

static bool is_name_of(struct piece name, const char *others)
{
    for (size_t i = 0; i < name.length; i++)
        if (!isalnum((unsigned char)name.at[i]) && !strchr(others, name.at[i]))
            return false;
    return name.length > 0 && name.length <= 64;
}

static bool is_option_name(struct piece name)
{
    return is_name_of(name, "_.-");
}

static struct piece before(struct piece piece, char separator, struct piece *after_out)
{
    const char *at = memchr(piece.at, separator, piece.length);
    size_t length = at ? (size_t)(at - piece.at) : piece.length;
    size_t skip = at ? length + 1 : length;
    *after_out = (struct piece){piece.at + skip, piece.length - skip};
    return (struct piece){piece.at, length};
}

static void put_piece(struct mw_str *str, struct piece piece, char separator)
{
    if (str->length > 0)
        mw_str_putc(str, separator);
    mw_str_append(str, piece.at, piece.length);
}

/* jemalloc separates options by ',' and writes name:value; glibc separates by ':' and writes
 * name=value; GODEBUG separates by ',' and writes name=value. */
static void filter_options(struct mw_str *str, struct piece value)
{
    bool has_equals = memchr(value.at, '=', value.length) != NULL;
    const char *separators = has_equals ? ":,;" : ",;";
    char joint = has_equals && !memchr(value.at, ',', value.length) ? ':' : ',';
    struct piece item;
    while (next_piece(&value, separators, &item)) {
        struct piece setting, name = before(item, has_equals ? '=' : ':', &setting);
        if (is_option_name(name) && is_word(setting))
            put_piece(str, item, joint);
    }
}

static void filter_libraries(struct mw_str *str, struct piece value)
{
    struct piece item;
    while (next_piece(&value, ": \t", &item)) {
        const char *slash = memrchr(item.at, '/', item.length);
        if (slash) {
            size_t skip = (size_t)(slash + 1 - item.at);
            item = (struct piece){slash + 1, item.length - skip};
        }
        if (is_name_of(item, "_.-+"))
            put_piece(str, item, ':');
    }
}

static bool starts_with(struct piece piece, const char *text)
{
    size_t length = strlen(text);
    return piece.length >= length && memcmp(piece.at, text, length) == 0;
}

/* -XX:MaxRAMPercentage=75, -XX:+UseZGC: only names that speak of memory. */
static bool is_java_memory_flag(struct piece flag)
{
    static const char *const words[] = {
        "Heap", "GC",    "RAM",  "Memory",   "Metaspace",  "CodeCache",   "Direct",
        "Size", "Stack", "Trim", "Pages",    "PreTouch",   "NewRatio",    "SurvivorRatio",
        "NUMA", "Arena", "Pool", "Uncommit", "Compressed", "StringDedup", "ActiveProcessorCount",
    };
    struct piece setting, name = before(flag, '=', &setting);
    if (name.length > 0 && (*name.at == '+' || *name.at == '-'))
        name = (struct piece){name.at + 1, name.length - 1};
    bool is_command = starts_with(name, "On"); /* OnOutOfMemoryError, OnError */
    if (is_command || !is_option_name(name) || (setting.length > 0 && !is_word(setting)))
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (memmem(name.at, name.length, words[i], strlen(words[i])))
            return true;
    return false;
}

static bool is_java_option(struct piece option)
{
    static const char *const sizes[] = {"-Xmx", "-Xms", "-Xmn", "-Xss", "-Xmaxf", "-Xminf"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (starts_with(option, sizes[i])) {
            size_t skip = strlen(sizes[i]);
            return is_word((struct piece){option.at + skip, option.length - skip});
        }
    if (starts_with(option, "-XX:"))
        return is_java_memory_flag((struct piece){option.at + 4, option.length - 4});
    if (starts_with(option, "-Djdk.nio.maxCachedBufferSize=") ||
        starts_with(option, "-Dio.netty.")) {
        struct piece setting, name = before(option, '=', &setting);
        return is_option_name(name) && is_word(setting);
    }
    return false;
}

static bool is_node_option(struct piece option)
{
    static const char *const names[] = {
        "--max-old-space-size",
        "--max-semi-space-size",
        "--min-semi-space-size",
        "--max-heap-size",
        "--initial-old-space-size",
        "--initial-heap-size",
        "--semi-space-growth-factor",
        "--optimize-for-size",
        "--stack-size",
        "--v8-pool-size",
        "--expose-gc",
        "--jitless",
        "--lite-mode",
    };
    struct piece setting, name = before(option, '=', &setting);
    if (setting.length > 0 && !is_word(setting))
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *known = names[i];
        size_t at = 0; /* '_' and '-' are the same to V8 */
        while (at < name.length &&
               (name.at[at] == known[at] || (name.at[at] == '_' && known[at] == '-')))
            at++;
        if (at == name.length && known[at] == '\0')
            return true;
    }
    return false;
}

static void filter_words(struct mw_str *str, struct piece value, bool (*wanted)(struct piece))
{
    struct piece item;
    while (next_piece(&value, " \t\n", &item))
        if (wanted(item))
            put_piece(str, item, ' ');
}

static void filter_value(struct mw_str *str, struct piece value, enum filter filter)
{
    switch (filter) {
    case FILTER_WORD:
        if (is_word(value))
            mw_str_append(str, value.at, value.length);
        break;
    case FILTER_OPTIONS:
        filter_options(str, value);
        break;
    case FILTER_LIBRARIES:
        filter_libraries(str, value);
        break;
    case FILTER_JAVA:
        filter_words(str, value, is_java_option);
        break;
    case FILTER_NODE:
        filter_words(str, value, is_node_option);
        break;
    }
}

/* The filtered value, allocated; NULL when out of memory. */
static char *setting_value(struct piece value, enum filter filter)
{
    if (value.length == 0)
        return mw_strdup("");
    struct mw_str str = MW_STR_INIT(VALUE_BYTES_MAX);
    filter_value(&str, value, filter);
    if (str.status == MW_NOMEM) {
        mw_str_deinit(&str);
        return NULL;
    }
    if (str.length == 0 || str.status != MW_OK) {
        mw_str_deinit(&str);
        return mw_strdup(HIDDEN);
    }
    return str.text;
}

static enum mw_status add_setting(struct mw_process *process, struct piece name, struct piece value,
                                  enum filter filter)
{
    struct {
        struct mw_setting *items;
        size_t count, room;
    } list = {process->settings, process->setting_count, process->setting_count};
    struct mw_setting setting = {
        .name = mw_strndup(name.at, name.length),
        .value = setting_value(value, filter),
    };
    enum mw_status status = MW_NOMEM;
    if (setting.name && setting.value)
        status = mw_vec_push(&list, SETTINGS_MAX, setting);
    process->settings = list.items;
    process->setting_count = list.count;
    if (status != MW_OK) {
        free(setting.name);
        free(setting.value);
    }
    return status == MW_LIMIT ? MW_OK : status;
}

static bool is_known_setting(const struct mw_process *process, struct piece name)
{
    for (size_t i = 0; i < process->setting_count; i++)
        if (strlen(process->settings[i].name) == name.length &&
            memcmp(process->settings[i].name, name.at, name.length) == 0)
            return true;
    return false;
}

static enum mw_status parse_variable(struct mw_process *process, struct piece variable)
{
    struct piece value, name = before(variable, '=', &value);
    if (name.length == variable.length || !is_option_name(name))
        return MW_OK;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (name_matches(name, allowed[i].name)) {
            if (is_known_setting(process, name))
                return MW_OK;
            return add_setting(process, name, value, allowed[i].filter);
        }
    return MW_OK;
}

enum mw_status mw_process_parse_environ(struct mw_process *process, const char *bytes,
                                        size_t length)
{
    const char *end = bytes + length;
    while (bytes < end) {
        const char *zero = memchr(bytes, '\0', (size_t)(end - bytes));
        const char *stop = zero ? zero : end;
        enum mw_status status =
            parse_variable(process, (struct piece){bytes, (size_t)(stop - bytes)});
        if (status != MW_OK)
            return status;
        bytes = stop + 1;
    }
    return MW_OK;
}
