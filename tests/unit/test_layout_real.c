/* tests/unit/test_layout_real.c: instances that the real libraries make, in this very process: what
 * the table says of offsets is what they do. Libraries are loaded by name; without one its test is
 * skipped. */
#include "image/open.h"
#include "layout/layout.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct mw_image image;
static struct mw_layout_scope *scope;

/* Ask about the block at pointer; modules loaded since are seen. */
static const char *name_of(const void *pointer, size_t usable_bytes)
{
    static struct mw_layout_match match;
    struct mw_context context;
    mw_context_init(&context);
    struct mw_image_open_options options = {.proc_dir_fd = AT_FDCWD, .need_read = true};
    mw_layout_scope_close(scope);
    scope = NULL;
    if (image.ops)
        mw_image_close(&image);
    memset(&image, 0, sizeof image);
    assert_int_equal(mw_image_open_live((int32_t)getpid(), &options, &context, &image, NULL),
                     MW_OK);
    assert_int_equal(mw_layout_scope_open(&image, NULL, 0, &scope, NULL), MW_OK);
    struct mw_layout_block block = {
        .address = (mw_addr)(uintptr_t)pointer,
        .bytes = pointer,
        .length = usable_bytes < MW_LAYOUT_BYTES ? usable_bytes : MW_LAYOUT_BYTES,
        .usable_bytes = usable_bytes,
    };
    return mw_layout_name(scope, &block, &match) ? match.name : "";
}

static void *library(const char *name)
{
    void *handle = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (!handle) {
        printf("skip: %s is not installed\n", name);
        skip();
    }
    return handle;
}

static void *function(void *handle, const char *name)
{
    void *found = dlsym(handle, name);
    if (!found)
        fail_msg("no %s", name);
    return found;
}

/* Call a function of a library as one of that type. */
#define CALL(handle, name, type) ((type)(uintptr_t)function((handle), (name)))

static void test_libc(void **state)
{
    (void)state;
    FILE *file = fopen("/dev/null", "r");
    DIR *directory = opendir("/");
    assert_non_null(file);
    assert_non_null(directory);
    assert_non_null(readdir(directory));
    assert_string_equal(name_of(file, malloc_usable_size(file)), "FILE (libc)");
    assert_string_equal(name_of(directory, malloc_usable_size(directory)), "DIR (libc)");
    fclose(file);
    closedir(directory);
}

static void test_link_map(void **state)
{
    (void)state;
    struct link_map *map = library("libz.so.1");
    /* The loader's own block: of what its malloc made, and its size is not told to others. */
    assert_string_equal(name_of(map, 1192), "link_map (loader)");
}

typedef void *(*make_pointer)(void);
typedef int (*call_with)(void *);

static void test_zlib(void **state)
{
    (void)state;
    struct {
        _Alignas(8) uint8_t bytes[112];
    } in = {{0}}, out = {{0}};
    void *handle = library("libz.so.1"), *inflate_state, *deflate_state;
    assert_int_equal(
        CALL(handle, "inflateInit_", int (*)(void *, const char *, int))(&in, "1.2.11", sizeof in),
        0);
    assert_int_equal(CALL(handle, "deflateInit_",
                          int (*)(void *, int, const char *, int))(&out, 6, "1.2.11", sizeof out),
                     0);
    memcpy(&inflate_state, in.bytes + 56, 8);
    memcpy(&deflate_state, out.bytes + 56, 8);
    assert_string_equal(name_of(inflate_state, malloc_usable_size(inflate_state)),
                        "inflate state (zlib)");
    assert_string_equal(name_of(deflate_state, malloc_usable_size(deflate_state)),
                        "deflate state (zlib)");
    /* Its window was told of just now. */
    uint8_t *window;
    memcpy(&window, (uint8_t *)deflate_state + 96, 8);
    struct mw_layout_match match;
    struct mw_layout_block block = {.address = (mw_addr)(uintptr_t)window,
                                    .bytes = window,
                                    .length = 64,
                                    .usable_bytes = malloc_usable_size(window)};
    assert_true(mw_layout_name(scope, &block, &match));
    assert_string_equal(match.name, "window of a deflate stream (zlib)");
    CALL(handle, "inflateEnd", call_with)(&in);
    CALL(handle, "deflateEnd", call_with)(&out);
}

static void test_openssl(void **state)
{
    (void)state;
    void *crypto = library("libcrypto.so.3"), *handle = library("libssl.so.3");
    void *method = CALL(handle, "TLS_method", make_pointer)();
    void *ctx = CALL(handle, "SSL_CTX_new", void *(*)(void *))(method);
    assert_non_null(ctx);
    void *ssl = CALL(handle, "SSL_new", void *(*)(void *))(ctx);
    void *memory = CALL(crypto, "BIO_s_mem", make_pointer)();
    void *bio = CALL(crypto, "BIO_new", void *(*)(void *))(memory);
    void *buffer = CALL(crypto, "BUF_MEM_new", make_pointer)();
    assert_int_equal(CALL(crypto, "BUF_MEM_grow", size_t(*)(void *, size_t))(buffer, 100), 100);
    assert_string_equal(name_of(ctx, malloc_usable_size(ctx)), "SSL_CTX (OpenSSL)");
    assert_string_equal(name_of(ssl, malloc_usable_size(ssl)), "SSL (OpenSSL)");
    assert_string_equal(name_of(bio, malloc_usable_size(bio)), "memory buffer (BIO of OpenSSL)");
    assert_string_equal(name_of(buffer, malloc_usable_size(buffer)), "BUF_MEM (OpenSSL)");
    CALL(crypto, "BUF_MEM_free", call_with)(buffer);
    CALL(crypto, "BIO_free", call_with)(bio);
    CALL(handle, "SSL_free", call_with)(ssl);
    CALL(handle, "SSL_CTX_free", call_with)(ctx);
}

/* An object that the C++ library's own constructor makes. */
static void test_cxx(void **state)
{
    (void)state;
    void *handle = library("libstdc++.so.6");
    static const char constructor[] =
        "_ZNSt7__cxx1115basic_stringbufIcSt11char_traitsIcESaIcEEC1Ev";
    static const char destructor[] = "_ZNSt7__cxx1115basic_stringbufIcSt11char_traitsIcESaIcEED1Ev";
    void *object = calloc(1, 104);
    assert_non_null(object);
    CALL(handle, constructor, call_with)(object);
    assert_string_equal(name_of(object, malloc_usable_size(object)),
                        "std::basic_stringbuf<char> (C++ object)");
    CALL(handle, destructor, call_with)(object);
    free(object);
    void *thrown = CALL(handle, "__cxa_allocate_exception", void *(*)(size_t))(16);
    uint8_t *header = (uint8_t *)thrown - 128;
    void *type = function(handle, "_ZTISt9bad_alloc");
    memcpy(header + 16, &type, 8); /* as __cxa_throw does */
    memcpy(header + 96, "\0++CCUNG", 8);
    assert_string_equal(name_of(header, 128 + 24), "std::bad_alloc (C++ exception, thrown)");
    CALL(handle, "__cxa_free_exception", call_with)(thrown);
}

static void test_gobject(void **state)
{
    (void)state;
    library("libglib-2.0.so.0");
    void *handle = library("libgobject-2.0.so.0");
    size_t type = 20 << 2; /* G_TYPE_OBJECT */
    void *object = CALL(handle, "g_object_new", void *(*)(size_t, const char *, ...))(type, NULL);
    assert_non_null(object);
    static const char want[] = "GObject with a class of libgobject-2.0.so.0"; /* and its version */
    assert_memory_equal(name_of(object, 24), want, sizeof want - 1);
    CALL(handle, "g_object_unref", call_with)(object);
}

static void test_libuv(void **state)
{
    (void)state;
    void *handle = library("libuv.so.1");
    void *loop = CALL(handle, "uv_default_loop", make_pointer)();
    size_t bytes = CALL(handle, "uv_handle_size", size_t(*)(int))(13);
    void *timer = calloc(1, bytes);
    assert_non_null(timer);
    assert_int_equal(CALL(handle, "uv_timer_init", int (*)(void *, void *))(loop, timer), 0);
    assert_string_equal(name_of(timer, malloc_usable_size(timer)), "uv_timer_t (libuv)");
    CALL(handle, "uv_close", int (*)(void *, void *))(timer, NULL);
    CALL(handle, "uv_run", int (*)(void *, int))(loop, 0);
    free(timer);
    CALL(handle, "uv_loop_close", call_with)(loop);
}

static int teardown(void **state)
{
    (void)state;
    mw_layout_scope_close(scope);
    if (image.ops)
        mw_image_close(&image);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_libc),  cmocka_unit_test(test_link_map),
        cmocka_unit_test(test_zlib),  cmocka_unit_test(test_openssl),
        cmocka_unit_test(test_cxx),   cmocka_unit_test(test_gobject),
        cmocka_unit_test(test_libuv),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
