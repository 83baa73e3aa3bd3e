/* runtime/jvm/perfdata.c: hsperfdata.
 *
 *   prologue  magic CA FE C0 C0 | byte order (1: little) | major 2 | minor | accessible | used i32
 *             | overflow i32 | time i64 | entry offset i32 | entries i32                    32
 * bytes entry     length i32 | name offset i32 | vector length i32 (0: scalar) | type u8 ('J' i64,
 *             'B' bytes) | flags u8 | units u8 | variability u8 | data offset i32           20
 * bytes
 *
 * Offsets count from the entry. All of it is a target's, and written while we read: every entry is
 * bounded by `used` and by the bytes there are, and must advance. Reference: OpenJDK
 * src/hotspot/share/runtime/perfMemory.hpp; seen on JDK 17 and 25. */
#include "runtime/jvm/perfdata.h"

#include "base/cursor.h"

#include <stdio.h>
#include <string.h>

enum { PROLOGUE_SIZE = 32, ENTRY_SIZE = 20, PERF_SIZE = 32 << 10 };

/* "sun.gc.generation.<n>.space.<m>.used" */
static bool is_space_used(const char *name)
{
    unsigned generation, space;
    int end = 0;
    return sscanf(name, "sun.gc.generation.%3u.space.%3u.used%n", &generation, &space, &end) == 2 &&
           end > 0 && name[end] == '\0';
}

/* What one counter adds; value is size bytes. */
static void counter_apply(struct mw_perfdata *data, const char *name, char type,
                          const uint8_t *value, size_t size)
{
    if (type == 'J' && size >= 8 && is_space_used(name)) {
        uint64_t used;
        memcpy(&used, value, sizeof used);
        if (used > (uint64_t)1 << 48)
            return;
        data->heap_used = data->heap_used == MW_UNKNOWN ? used : data->heap_used + used;
    }
    if (type == 'J' && size >= 8 && strcmp(name, "sun.gc.generation.0.space.0.capacity") == 0) {
        uint64_t capacity;
        memcpy(&capacity, value, sizeof capacity);
        if (capacity <= (uint64_t)1 << 48)
            data->eden_size = capacity;
    }
    if (type == 'B' && strcmp(name, "java.property.java.vm.version") == 0) {
        size_t length = strnlen((const char *)value, size);
        if (length >= sizeof data->version)
            length = sizeof data->version - 1;
        memcpy(data->version, value, length);
        data->version[length] = '\0';
        for (char *at = data->version; *at; at++)
            if (*at < ' ' || *at > '~')
                *at = '?';
    }
}

/* One entry of entry_size bytes; false when it makes no sense. */
static bool entry_apply(struct mw_perfdata *data, const uint8_t *entry, size_t entry_size)
{
    struct mw_cursor cur = mw_cursor_of(entry, entry_size);
    mw_cursor_skip(&cur, 4);
    uint32_t name_at = mw_cursor_u32(&cur), vector = mw_cursor_u32(&cur);
    char type = (char)mw_cursor_u8(&cur);
    mw_cursor_skip(&cur, 3);
    uint32_t data_at = mw_cursor_u32(&cur);
    if (cur.failed || name_at < ENTRY_SIZE || name_at >= entry_size || data_at >= entry_size ||
        data_at < name_at)
        return false;
    char name[128];
    size_t length = strnlen((const char *)entry + name_at, data_at - name_at);
    if (length >= sizeof name)
        return true;
    memcpy(name, entry + name_at, length);
    name[length] = '\0';
    size_t left = entry_size - data_at;
    counter_apply(data, name, type, entry + data_at, vector != 0 && vector < left ? vector : left);
    return true;
}

enum mw_status mw_perfdata_parse(const uint8_t *bytes, size_t size, struct mw_perfdata *data_out)
{
    static const uint8_t magic[4] = {0xca, 0xfe, 0xc0, 0xc0};
    struct mw_cursor cur = mw_cursor_of(bytes, size);
    const uint8_t *head = mw_cursor_take(&cur, 8);
    uint32_t used = mw_cursor_u32(&cur);
    mw_cursor_skip(&cur, 12);
    uint32_t at = mw_cursor_u32(&cur), entries = mw_cursor_u32(&cur);
    if (cur.failed || memcmp(head, magic, sizeof magic) != 0 || head[4] != 1 || head[5] != 2 ||
        head[7] != 1 || at < PROLOGUE_SIZE)
        return MW_CORRUPT;
    if (used < size)
        size = used;
    struct mw_perfdata data = {.heap_used = MW_UNKNOWN, .eden_size = MW_UNKNOWN};
    for (uint32_t i = 0; i < entries && at + (size_t)ENTRY_SIZE <= size; i++) {
        uint32_t entry_size;
        memcpy(&entry_size, bytes + at, sizeof entry_size);
        if (entry_size < ENTRY_SIZE || entry_size > size - at ||
            !entry_apply(&data, bytes + at, entry_size))
            break;
        at += entry_size;
    }
    *data_out = data;
    return MW_OK;
}

enum mw_status mw_perfdata_read(struct mw_image *image, mw_addr address,
                                struct mw_perfdata *data_out)
{
    uint8_t bytes[PERF_SIZE];
    size_t got = mw_image_read_some(image, address, bytes, sizeof bytes);
    return mw_perfdata_parse(bytes, got, data_out);
}
