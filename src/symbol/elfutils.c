/* symbol/elfutils.c: see elfutils.h. The libraries stay loaded until the program ends: they are
 * code, and the one table of them is constant once it is filled.
 *
 * References: elfutils 0.188 (libdw.so.1, libelf.so.1, libdebuginfod.so.1), xz 5.4 (liblzma.so.5);
 * sonames have been stable since 2005, 2012 and 2019. */
#include "symbol/elfutils.h"

#if MW_WITH_SYMBOLS

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct mw_elfutils table;
static bool is_loaded;
static char missing[200];

#if MW_STATIC

static void load(void)
{
#define MW_TAKE(name) table.name = name;
    MW_ELFUTILS_FUNCTIONS(MW_TAKE)
    MW_LZMA_FUNCTIONS(MW_TAKE)
#undef MW_TAKE
    table.has_lzma = true;
    is_loaded = table.elf_version(EV_CURRENT) != EV_NONE;
}

#else

#include <dlfcn.h>

/* libdebuginfod's own header is not needed for three functions. */
struct debuginfod_client;
static struct debuginfod_client *(*server_begin)(void);
static int (*server_find)(struct debuginfod_client *client, const unsigned char *build_id,
                          int length, char **path_out);
static void (*server_end)(struct debuginfod_client *client);

static int server_ask(const unsigned char *build_id, int length)
{
    struct debuginfod_client *client = server_begin();
    if (!client)
        return -1;
    int fd = server_find(client, build_id, length, NULL);
    server_end(client);
    return fd;
}

/* Take one function; the first that is missing is remembered. */
static void *take(void *library, const char *name)
{
    void *function = dlsym(library, name);
    if (!function && missing[0] == '\0')
        snprintf(missing, sizeof missing, "libdw.so.1 has no %s: it is too old", name);
    return function;
}

static void load_lzma(void)
{
    void *library = dlopen("liblzma.so.5", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
#define MW_TAKE(name) table.name = (__typeof__(table.name))dlsym(library, #name);
    MW_LZMA_FUNCTIONS(MW_TAKE)
#undef MW_TAKE
    table.has_lzma = table.lzma_stream_decoder && table.lzma_code && table.lzma_end;
}

static void load_debuginfod(void)
{
    void *library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    server_begin = (__typeof__(server_begin))dlsym(library, "debuginfod_begin");
    server_find = (__typeof__(server_find))dlsym(library, "debuginfod_find_debuginfo");
    server_end = (__typeof__(server_end))dlsym(library, "debuginfod_end");
    if (server_begin && server_find && server_end)
        table.debuginfod_find = server_ask;
}

static int debuginfod_first(const unsigned char *build_id, int length)
{
    table.debuginfod_find = NULL;
    load_debuginfod();
    return table.debuginfod_find ? table.debuginfod_find(build_id, length) : -1;
}

static void load(void)
{
    void *library = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(missing, sizeof missing,
                 "symbols and unwinding need elfutils, and libdw.so.1 is not here");
        return;
    }
    /* libelf comes with it: dlsym() looks in what a library depends on, too */
#define MW_TAKE(name) table.name = (__typeof__(table.name))take(library, #name);
    MW_ELFUTILS_FUNCTIONS(MW_TAKE)
#undef MW_TAKE
    load_lzma();
    table.debuginfod_find = debuginfod_first; /* loads curl and more: only when it is asked */
    is_loaded = missing[0] == '\0' && table.elf_version(EV_CURRENT) != EV_NONE;
}

#endif

const struct mw_elfutils *mw_elfutils(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return is_loaded ? &table : NULL;
}

const char *mw_elfutils_missing(void)
{
    return mw_elfutils() ? "" : missing;
}

const char *mw_elfutils_remedy(void)
{
    return "install libdw (package libdw1, elfutils-libs or elfutils)";
}

#else

#include <stddef.h>

const struct mw_elfutils *mw_elfutils(void)
{
    return NULL;
}

const char *mw_elfutils_missing(void)
{
    return "this memwhy was built without elfutils: it has no symbol tables and no unwinding";
}

const char *mw_elfutils_remedy(void)
{
    return "build it where libdw-dev and liblzma-dev are, or take the static program";
}

#endif
