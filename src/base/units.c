/* base/units.c: formatting and parsing of sizes, counts and durations. */
#include "base/units.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

struct mw_unit mw_unit_for(uint64_t largest_bytes)
{
    if (largest_bytes >= 10 * GIB)
        return (struct mw_unit){"GiB", GIB, 2};
    if (largest_bytes >= 4 * MIB)
        return (struct mw_unit){"MiB", MIB, 1};
    return (struct mw_unit){"KiB", KIB, 1};
}

/* Put a comma between each group of three digits of the integer part. */
static void group_digits(char text[32], const char *plain)
{
    size_t whole = strspn(plain, "0123456789");
    size_t out = 0;
    for (size_t i = 0; plain[i] && out < 30; i++) {
        if (i > 0 && i < whole && (whole - i) % 3 == 0)
            text[out++] = ',';
        text[out++] = plain[i];
    }
    text[out] = '\0';
}

char *mw_unit_format(char text[32], struct mw_unit unit, uint64_t bytes)
{
    char plain[32];
    snprintf(plain, sizeof plain, "%.*f", unit.decimals, (double)bytes / (double)unit.bytes);
    group_digits(text, plain);
    return text;
}

char *mw_unit_format_signed(char text[32], struct mw_unit unit, int64_t bytes)
{
    char plain[32];
    uint64_t magnitude = bytes < 0 ? 0 - (uint64_t)bytes : (uint64_t)bytes;
    mw_unit_format(plain, unit, magnitude);
    snprintf(text, 32, "%s%.30s", bytes < 0 ? "-" : "+", plain);
    return text;
}

char *mw_count_format(char text[32], uint64_t count)
{
    char plain[32];
    snprintf(plain, sizeof plain, "%llu", (unsigned long long)count);
    group_digits(text, plain);
    return text;
}

char *mw_bytes_format(char text[32], uint64_t bytes)
{
    if (bytes < KIB) {
        snprintf(text, 32, "%llu B", (unsigned long long)bytes);
        return text;
    }
    struct mw_unit unit = bytes >= GIB   ? (struct mw_unit){"GiB", GIB, 2}
                          : bytes >= MIB ? (struct mw_unit){"MiB", MIB, 1}
                                         : (struct mw_unit){"KiB", KIB, 1};
    char figure[32];
    snprintf(text, 32, "%.26s %s", mw_unit_format(figure, unit, bytes), unit.name);
    return text;
}

char *mw_duration_format(char text[32], double seconds)
{
    if (!(seconds >= 0))
        seconds = 0;
    unsigned long long s = seconds > 1e15 ? 0 : (unsigned long long)seconds;
    if (s >= 86400)
        snprintf(text, 32, "%llud%02lluh", s / 86400, s / 3600 % 24);
    else if (s >= 3600)
        snprintf(text, 32, "%lluh%02llum", s / 3600, s / 60 % 60);
    else if (s >= 60)
        snprintf(text, 32, "%llum%02llus", s / 60, s % 60);
    else
        snprintf(text, 32, "%llus", s);
    return text;
}

/* A non-negative number and where it ends; NULL when there is none. */
static const char *number_parse(const char *text, double *value_out)
{
    if (!isdigit((unsigned char)text[0]))
        return NULL;
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (errno != 0 || !isfinite(value))
        return NULL;
    *value_out = value;
    return end;
}

struct suffix {
    const char *name;
    double factor;
};

static enum mw_status scaled_parse(const char *text, const struct suffix *suffixes, size_t count,
                                   uint64_t *out)
{
    double value;
    const char *end = number_parse(text, &value);
    if (!end)
        return MW_INVALID;
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(end, suffixes[i].name) != 0)
            continue;
        value *= suffixes[i].factor;
        if (value >= 0x1p63)
            return MW_INVALID;
        *out = (uint64_t)value;
        return MW_OK;
    }
    return MW_INVALID;
}

enum mw_status mw_bytes_parse(const char *text, uint64_t *bytes_out)
{
    static const struct suffix suffixes[] = {
        {"", 1},         {"B", 1},       {"K", 0x1p10},   {"KB", 0x1p10}, {"KiB", 0x1p10},
        {"M", 0x1p20},   {"MB", 0x1p20}, {"MiB", 0x1p20}, {"G", 0x1p30},  {"GB", 0x1p30},
        {"GiB", 0x1p30}, {"T", 0x1p40},  {"TiB", 0x1p40},
    };
    return scaled_parse(text, suffixes, sizeof suffixes / sizeof *suffixes, bytes_out);
}

enum mw_status mw_duration_parse(const char *text, uint64_t *ns_out)
{
    static const struct suffix suffixes[] = {
        {"ms", 1e6}, {"us", 1e3}, {"ns", 1}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9},
    };
    return scaled_parse(text, suffixes, sizeof suffixes / sizeof *suffixes, ns_out);
}
