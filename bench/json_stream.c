/* bench/json_stream.c: a JSON document of many rows on standard output, by memwhy's encoder or by
 * jansson (which builds the document first). Usage: json_stream ours|jansson ROWS */
#include "base/io.h"
#include "report/json.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char name[] = "/usr/lib/x86_64-linux-gnu/libc.so.6 \"quoted\"\n";

static int stdout_write(void *user, const void *bytes, size_t length)
{
    (void)user;
    return mw_io_write_full(STDOUT_FILENO, bytes, length);
}

static int write_ours(size_t rows)
{
    struct mw_json json;
    mw_json_init(&json, (struct mw_sink){NULL, stdout_write});
    mw_json_array_begin(&json);
    for (size_t i = 0; i < rows; i++) {
        mw_json_object_begin(&json);
        mw_json_put_key(&json, "size_bytes");
        mw_json_put_u64(&json, i * 16);
        mw_json_put_key(&json, "in_use_count");
        mw_json_put_u64(&json, i * 2654435761u % 1000003);
        mw_json_put_key(&json, "address");
        mw_json_put_address(&json, 0x7f0000000000 + i * 4096);
        mw_json_put_key(&json, "name");
        mw_json_put_text(&json, name);
        mw_json_object_end(&json);
    }
    mw_json_array_end(&json);
    return mw_json_finish(&json, NULL) != MW_OK;
}

static int write_jansson(size_t rows)
{
    json_t *list = json_array();
    for (size_t i = 0; i < rows; i++) {
        char address[32];
        snprintf(address, sizeof address, "0x%zx", 0x7f0000000000 + i * 4096);
        json_array_append_new(list,
                              json_pack("{s:I, s:I, s:s, s:s}", "size_bytes", (json_int_t)(i * 16),
                                        "in_use_count", (json_int_t)(i * 2654435761u % 1000003),
                                        "address", address, "name", name));
    }
    int failed = json_dumpf(list, stdout, JSON_COMPACT);
    json_decref(list);
    return failed;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    size_t rows = strtoul(argv[2], NULL, 10);
    return strcmp(argv[1], "ours") == 0 ? write_ours(rows) : write_jansson(rows);
}
