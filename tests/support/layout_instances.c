/* support/layout_instances.c: an instance of every row of the known layouts, built word by word. */
#include "layout_instances.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct layout_world *world; /* of the call to layout_instance_make() */

static void put(mw_addr address, uint64_t word)
{
    layout_world_put(world, address, word);
}

static mw_addr block(size_t bytes)
{
    mw_addr address = layout_world_block(world, bytes);
    if (address == 0) {
        fprintf(stderr, "layout_instances: the world is too small\n");
        abort();
    }
    return address;
}

/* ---- instances ------------------------------------------------------------------------------- */

static void clr_x64(mw_addr at, size_t record)
{
    put(at + 0x30, 0x10000f);
    put(at + 0x38, 0x33);
    put(at + 0x98, WORLD_STACK + 0x800);
    put(at + 0xf8, WORLD_CODE + 0x1234);
    put(at + record, 1ull << 32 | 0xe0434352);
    put(at + record + 24, 5);
    put(at + record + 32, 0xffffffff80131534);
    put(at + record + 64, WORLD_CODE);
}

static mw_addr make_clr_10(void)
{
    mw_addr at = block(3400);
    clr_x64(at, 0xca0);
    return at;
}

static mw_addr make_clr_9(void)
{
    mw_addr at = block(3272);
    clr_x64(at, 0xc20);
    return at;
}

static mw_addr make_clr_arm64(size_t record)
{
    mw_addr at = block(record + 152);
    put(at, 0x40000f);
    put(at + record, 1ull << 32 | 0xe0434352);
    put(at + record + 24, 5);
    put(at + record + 32, 0xffffffff80131534);
    put(at + record + 64, WORLD_CODE);
    return at;
}

static mw_addr make_clr_arm64_8(void)
{
    return make_clr_arm64(0x390);
}

static mw_addr make_clr_arm64_sve(void)
{
    return make_clr_arm64(0x3a0);
}

static mw_addr make_context(size_t bytes, size_t record)
{
    mw_addr at = block(bytes);
    clr_x64(at, record);
    put(at + record, 0xc0000005);
    put(at + record + 24, 2);
    return at;
}

static mw_addr make_context_10(void)
{
    return make_context(3400, 0xca0);
}

static mw_addr make_context_9(void)
{
    return make_context(3272, 0xc20);
}

static mw_addr make_jit_page(void)
{
    mw_addr at = block(65544);
    put(at + 8, 65536);
    put(at + 16, 0x7777777777777777);
    return at;
}

static mw_addr make_object(void)
{
    mw_addr at = block(56);
    put(at, layout_world_class(world, "N6icinga4HostE"));
    return at;
}

static mw_addr make_array(void)
{
    mw_addr at = block(8 + 3 * 32), vtable = layout_world_class(world, "3Foo");
    put(at, 3);
    for (mw_addr i = 0; i < 3; i++)
        put(at + 8 + i * 32, vtable);
    return at;
}

static mw_addr make_exception(uint64_t class)
{
    mw_addr at = block(168), vtable = layout_world_class(world, "N3app5ErrorE");
    put(at + 16, layout_world_typeinfo(world, vtable));
    put(at + 96, class);
    return at;
}

static mw_addr make_exception_gnu(void)
{
    return make_exception(0x474e5543432b2b00);
}

static mw_addr make_exception_llvm(void)
{
    return make_exception(0x434c4e47432b2b00);
}

static mw_addr make_file(void)
{
    mw_addr at = block(472);
    put(at, 0xfbad2488);
    put(at + 216, WORLD_CONST + 0x800);
    return at;
}

static mw_addr make_link_map(void)
{
    mw_addr at = block(1192), other = block(64);
    put(at, WORLD_CODE);
    put(at + 8, other);
    put(at + 16, WORLD_DATA + 0x400);
    put(at + 24, other);
    put(at + 40, at);
    return at;
}

static mw_addr make_tcache(void)
{
    mw_addr at = block(648), other = block(24);
    put(at + 2 * 8, 3); /* bin 8 */
    put(at + 128 + 8 * 8, other);
    return at;
}

static mw_addr make_tcache_242(void)
{
    mw_addr at = block(760), other = block(24);
    for (size_t bin = 0; bin < 76; bin += 4)
        put(at + 2 * bin, 0x0007000700070007);
    put(at + 2 * 8, 0x0007000700070004);
    put(at + 152 + 8 * 8, other);
    return at;
}

static mw_addr make_directory(void)
{
    mw_addr at = block(32768 + 48);
    put(at, 3);
    put(at + 8, 32768);
    put(at + 16, 400);
    put(at + 24, 32);
    return at;
}

static mw_addr make_dtv(void)
{
    mw_addr at = block((16 + 2) * 16), tls = block(64);
    put(at, 16);
    put(at + 16, 1);
    put(at + 32, tls + 16);
    put(at + 40, tls);
    for (mw_addr slot = 3; slot < 18; slot++)
        put(at + slot * 16, UINT64_MAX);
    return at;
}

static mw_addr make_inflate(void)
{
    mw_addr at = block(7160), stream = block(112);
    put(stream + 56, at);
    put(at, stream);
    put(at + 8, 16191);
    return at;
}

static mw_addr make_deflate(void)
{
    mw_addr at = block(5960), stream = block(112);
    put(stream + 56, at);
    put(at, stream);
    put(at + 8, 113);
    put(at + 16, block(64));
    return at;
}

static mw_addr make_window(void)
{
    mw_addr state = make_inflate(), at = block(32768);
    struct mw_layout_match match;
    for (size_t i = 0; i < 32768; i += 8)
        put(at + i, 0x8899aabbccddeeff * (i + 1));
    put(state + 72, at);
    struct mw_layout_block owner = layout_world_view(world, state, 7160);
    if (!layout_world_open(world) || !mw_layout_name(world->scope, &owner, &match))
        abort();
    return at;
}

static mw_addr make_ssl(void)
{
    mw_addr at = block(6200);
    put(at, 0x0304);
    put(at + 8, layout_world_file("libssl.so.3") + 0x100);
    return at;
}

static mw_addr make_ssl_32(void)
{
    mw_addr at = block(6200), method = layout_world_file("libssl.so.3") + 0x100;
    put(at + 8, block(64));
    put(at + 16, method);
    put(at + 24, method);
    return at;
}

static mw_addr make_ctx(void)
{
    mw_addr at = block(1000);
    put(at + 8, layout_world_file("libssl.so.3") + 0x100);
    put(at + 16, block(64));
    return at;
}

static mw_addr make_ctx_111(void)
{
    mw_addr at = block(1000);
    put(at, layout_world_file("libssl.so.3") + 0x100);
    put(at + 8, block(64));
    put(at + 16, block(64));
    return at;
}

static mw_addr bio_method(void)
{
    mw_addr method = layout_world_constant(world, 32);
    put(method, 0x400 | 1);
    put(method + 8, layout_world_string(world, "memory buffer"));
    put(method + 16, WORLD_CODE + 0x40);
    return method;
}

static mw_addr make_bio(void)
{
    mw_addr at = block(120);
    put(at + 8, bio_method());
    return at;
}

static mw_addr make_bio_111(void)
{
    mw_addr at = block(112);
    put(at, bio_method());
    return at;
}

static mw_addr make_buf_mem(void)
{
    mw_addr at = block(40);
    put(at, 17);
    put(at + 8, block(32));
    put(at + 16, 24);
    return at;
}

static mw_addr make_stack(void)
{
    mw_addr at = block(40);
    put(at, 3);
    put(at + 8, block(32));
    put(at + 16, 8ull << 32 | 1);
    put(at + 24, WORLD_CODE + 0x80);
    return at;
}

static mw_addr make_asn1(void)
{
    mw_addr at = block(24);
    put(at, 19ull << 32 | 12);
    put(at + 8, block(32));
    return at;
}

/* A type object of that name, and its metatype. */
static mw_addr python_type(const char *name, uint64_t flags)
{
    mw_addr type = block(416), meta = block(416);
    put(type, 1);
    put(type + 8, meta);
    put(type + 24, layout_world_string(world, name));
    put(type + 32, 48);
    put(type + 168, 1 << 12 | flags);
    put(meta + 168, (uint64_t)1 << 31 | 1 << 12);
    return type;
}

static mw_addr python_object(const char *name)
{
    mw_addr at = block(600);
    put(at, 1);
    put(at + 8, python_type(name, 0));
    return at;
}

static mw_addr make_python_object(void)
{
    mw_addr at = block(600);
    put(at + 16, 2);
    put(at + 24, python_type("collections.OrderedDict", 1 << 14));
    return at;
}

static mw_addr make_keys_311(void)
{
    mw_addr at = block(32 + 256 + 170 * 16);
    put(at, 1);
    put(at + 8, 8 | 8 << 8 | 1 << 16);
    put(at + 16, 70);
    put(at + 24, 100);
    return at;
}

static mw_addr make_keys_39(void)
{
    mw_addr at = block(40 + 256 * 2 + 170 * 24);
    put(at, 1);
    put(at + 8, 256);
    put(at + 16, WORLD_CODE + 0x700);
    put(at + 24, 70);
    put(at + 32, 100);
    return at;
}

static mw_addr make_items(void)
{
    mw_addr at = block(80), object = python_object("int");
    for (mw_addr i = 0; i < 10; i++)
        put(at + 8 * i, object);
    return at;
}

static mw_addr make_set(void)
{
    mw_addr at = block(512), object = python_object("str");
    for (mw_addr i = 0; i < 32; i += 3) {
        put(at + 16 * i, object);
        put(at + 16 * i + 8, 0x1234567890abcdef + i);
    }
    return at;
}

static mw_addr make_context_of(const char *name)
{
    mw_addr at = block(1024), methods = layout_world_constant(world, 16);
    put(methods, WORLD_CODE + 0x900);
    put(at, 601);
    put(at + 16, methods);
    put(at + 56, layout_world_string(world, name));
    return at;
}

static mw_addr make_pg_context(void)
{
    return make_context_of("CacheMemoryContext");
}

static mw_addr make_pg_block(void)
{
    mw_addr at = block(8192);
    put(at, make_context_of("ExprContext"));
    put(at + 24, at + 4000);
    put(at + 32, at + 8192);
    return at;
}

static mw_addr make_pool(void)
{
    mw_addr at = block(512);
    put(at, at + 100);
    put(at + 8, at + 512);
    put(at + 32, 432);
    put(at + 40, at);
    put(at + 48, 0x1122334455667788);
    return at;
}

static mw_addr make_pool_block(void)
{
    mw_addr at = block(512);
    put(at, at + 100);
    put(at + 8, at + 512);
    put(at + 24, 2);
    put(at + 40, 0x1122334455667788);
    return at;
}

static mw_addr make_handle(void)
{
    mw_addr at = block(152), queue = block(32);
    put(at + 8, block(64));
    put(at + 16, 13);
    put(at + 32, queue);
    put(at + 40, queue);
    put(queue + 8, at + 32);
    return at;
}

static mw_addr make_tracked(void)
{
    mw_addr at = block(136);
    put(at, 100);
    put(at + 8, 0xe99e00070000002a);
    put(at + 116, 0x8ee8);
    return at;
}

static mw_addr make_chunk(void)
{
    mw_addr at = block(1000);
    put(at + 8, 984);
    put(at + 16, 0x7777777777777777);
    return at;
}

static mw_addr make_segment(void)
{
    mw_addr at = block(8200);
    put(at, block(64));
    put(at + 8, 8192);
    put(at + 16, 0x7777777777777777);
    return at;
}

static mw_addr make_gobject(void)
{
    mw_addr at = block(40), class = block(136);
    put(class, block(32));
    for (mw_addr i = 2; i < 6; i++)
        put(class + 8 * i, WORLD_CODE + 0x10 * i);
    put(at, class);
    put(at + 8, 1);
    return at;
}

static mw_addr make_zero(void)
{
    return block(128);
}

static mw_addr make_filled(void)
{
    mw_addr at = block(128);
    memset(layout_world_bytes(world, at), 0xaa, 128);
    return at;
}

static mw_addr make_format(void)
{
    mw_addr at = block(128);
    layout_world_text(world, at, "SQLite format 3");
    put(at + 24, 0x9988776655443322);
    return at;
}

static mw_addr make_text(void)
{
    mw_addr at = block(104);
    layout_world_text(world, at, "{\"name\": \"web-1\", \"state\": 0, \"vars\": [1, 2]}");
    put(at + 96, 0x9988776655443322);
    return at;
}

static mw_addr make_wide(void)
{
    mw_addr at = block(72);
    put(at, 0x1100000001ff);
    for (mw_addr i = 0; i < 12; i++)
        layout_world_bytes(world, at + 12)[2 * i] = (uint8_t)('a' + i);
    return at;
}

static mw_addr make_headed(void)
{
    mw_addr at = block(56);
    put(at, 0x0000000100000029);
    put(at + 8, 0x9900000000000099);
    layout_world_text(world, at + 16, "The quick brown fox jumps ov");
    return at;
}

/* A hash that libstdc++ 12 gives: std::hash<std::string>()("answer"). */
static mw_addr make_hash_node(void)
{
    mw_addr at = block(56);
    put(at + 8, at + 24);
    put(at + 16, 6);
    layout_world_text(world, at + 24, "answer");
    put(at + 40, 0x2a);
    put(at + 48, 0x227ae7ad3b0ead1f);
    return at;
}

static mw_addr make_tree_node(void)
{
    mw_addr at = block(72), parent = block(72);
    put(at, 1);
    put(at + 8, parent);
    put(parent + 24, at);
    put(at + 32, at + 48);
    put(at + 40, 5);
    layout_world_text(world, at + 48, "hello");
    return at;
}

static mw_addr make_list_node(void)
{
    mw_addr at = block(40), next = block(40);
    put(at, next);
    put(at + 8, next);
    put(next, at);
    put(next + 8, at);
    put(at + 16, 0x7777777777777777);
    return at;
}

static mw_addr make_strings(void)
{
    mw_addr at = block(104);
    for (mw_addr i = 0; i < 3; i++) {
        put(at + 32 * i, at + 32 * i + 16);
        put(at + 32 * i + 8, 2);
        layout_world_text(world, at + 32 * i + 16, "ab");
    }
    return at;
}

static mw_addr make_string_first(void)
{
    mw_addr at = block(72), text = block(40);
    layout_world_text(world, text, "a string that is too long");
    put(at, text);
    put(at + 8, 25);
    put(at + 16, 30);
    put(at + 40, 0x7777777777777777);
    return at;
}

static mw_addr make_old_string(void)
{
    mw_addr at = block(40);
    put(at, 3);
    put(at + 8, 15);
    layout_world_text(world, at + 24, "\x01\x02\x03");
    return at;
}

static mw_addr make_glist(void)
{
    mw_addr at = block(24), next = block(24);
    put(at, 0x7777777777777777);
    put(at + 8, next);
    put(next + 16, at);
    return at;
}

static mw_addr make_pointers(void)
{
    mw_addr at = block(136), object = make_object();
    for (mw_addr i = 0; i < 17; i++)
        put(at + 8 * i, object);
    return at;
}

static mw_addr make_random(void)
{
    mw_addr at = block(264);
    uint64_t seed = 88172645463325252;
    for (mw_addr i = 0; i < 264; i += 8) {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        put(at + i, seed * 0x2545f4914f6cdd1d);
    }
    return at;
}

static mw_addr make_numbers(void)
{
    mw_addr at = block(72);
    for (mw_addr i = 0; i < 9; i++)
        put(at + 8 * i, 70000 + i * 17);
    return at;
}

static mw_addr make_mostly_zero(void)
{
    mw_addr at = block(2048);
    put(at + 512, 0x7777777777777777);
    return at;
}

#define ANY                                                                                        \
    {                                                                                              \
        0xffff                                                                                     \
    }
const struct layout_instance layout_instances[] = {
#define CLR_NAME "CLR exception record + x64 CONTEXT (HRESULT 0x80131534 COR_E_TYPEINITIALIZATION)"
#define ARM_NAME                                                                                   \
    "CLR exception record + arm64 CONTEXT (HRESULT 0x80131534 COR_E_TYPEINITIALIZATION)"
    {"clr exception context", CLR_NAME, make_clr_10, 3400, {0x30, 0xca0, 0xcb8, 0xce0, 0xffff}},
    {"clr exception context", CLR_NAME, make_clr_9, 3272, {0x30, 0xc20, 0xc38, 0xc60, 0xffff}},
    {"clr exception context", ARM_NAME, make_clr_arm64_8, 1064, {0, 0x390, 0x3a8, 0x3d0, 0xffff}},
    {"clr exception context", ARM_NAME, make_clr_arm64_sve, 1080, {0, 0x3a0, 0x3b8, 0x3e0, 0xffff}},
    {"clr context",
     "CLR exception record + x64 CONTEXT",
     make_context_10,
     3400,
     {0x30, 0x38, 0x98, 0xf8, 0xca8, 0xcb8, 0xffff}},
    {"clr context",
     "CLR exception record + x64 CONTEXT",
     make_context_9,
     3272,
     {0x30, 0x38, 0x98, 0xf8, 0xc28, 0xc38, 0xffff}},
    {"clr jit page", "page of the JIT's arena (CLR)", make_jit_page, 65544, {0, 8, 0xffff}},
    {"c++ exception",
     "app::Error (C++ exception, thrown)",
     make_exception_gnu,
     168,
     {16, 96, 0xffff}},
    {"c++ exception",
     "app::Error (C++ exception, thrown)",
     make_exception_llvm,
     168,
     {16, 96, 0xffff}},
    {"c++ object", "icinga::Host (C++ object)", make_object, 56, {0, 0xffff}},
    {"c++ object array", "Foo (array of C++ objects)", make_array, 104, {0, 8, 40, 0xffff}},
    {"python object",
     "collections.OrderedDict (Python object)",
     make_python_object,
     600,
     {16, 24, 0xffff}},
    {"python dict keys", "keys of a dict (Python)", make_keys_311, 3008, {0, 8, 16, 24, 0xffff}},
    {"python dict keys", "keys of a dict (Python)", make_keys_39, 4632, {0, 8, 16, 24, 32, 0xffff}},
    {"python items", "array of Python objects (int)", make_items, 80, {0, 8, 32, 56, 0xffff}},
    {"python set table", "entries of a set (Python)", make_set, 512, {0, 16, 48, 0xffff}},
    {"postgres context",
     "CacheMemoryContext (memory context of PostgreSQL)",
     make_pg_context,
     1024,
     {0, 16, 24, 48, 56, 0xffff}},
    {"postgres block",
     "ExprContext (block of a memory context of PostgreSQL)",
     make_pg_block,
     8192,
     {0, 8, 16, 24, 32, 0xffff}},
    {"zlib inflate state", "inflate state (zlib)", make_inflate, 7160, {0, 8, 0xffff}},
    {"zlib deflate state", "deflate state (zlib)", make_deflate, 5960, {0, 8, 16, 0xffff}},
    {"zlib buffer", "window of an inflate stream (zlib)", make_window, 4096, {LAYOUT_TOLD}},
    {"openssl ssl", "SSL (OpenSSL)", make_ssl, 6200, {0, 8, 16, 24, 0xffff}},
    {"openssl ssl", "SSL (OpenSSL)", make_ssl_32, 6200, {0, 8, 16, 24, 0xffff}},
    {"openssl ssl ctx", "SSL_CTX (OpenSSL)", make_ctx, 1000, {0, 8, 16, 0xffff}},
    {"openssl ssl ctx", "SSL_CTX (OpenSSL)", make_ctx_111, 1000, {0, 8, 16, 0xffff}},
    {"openssl bio", "memory buffer (BIO of OpenSSL)", make_bio, 120, {0, 8, 0xffff}},
    {"openssl bio", "memory buffer (BIO of OpenSSL)", make_bio_111, 120, {0, 0xffff}},
    {"openssl buf mem", "BUF_MEM (OpenSSL)", make_buf_mem, 40, {0, 8, 16, 24, 0xffff}},
    {"openssl stack", "STACK (OpenSSL)", make_stack, 40, {0, 8, 16, 24, 0xffff}},
    {"openssl asn1 string", "ASN1_STRING (OpenSSL)", make_asn1, 24, {0, 8, 16, 0xffff}},
    {"libc file", "FILE (libc)", make_file, 472, {0, 216, 0xffff}},
    {"libc link map", "link_map (loader)", make_link_map, 1192, {8, 16, 24, 32, 40, 0xffff}},
    {"libc tcache", "tcache of a thread (libc)", make_tcache, 648, {0, 16, 128, 192, 0xffff}},
    {"libc tcache", "tcache of a thread (libc)", make_tcache_242, 760, {0, 152, 216, 0xffff}},
    {"libc directory", "DIR (libc)", make_directory, 32816, {0, 8, 16, 24, 0xffff}},
    {"libc dtv",
     "thread's table of thread-local storage (libc)",
     make_dtv,
     288,
     {0, 8, 16, 24, 40, 0xffff}},
    {"nginx pool", "pool (nginx)", make_pool, 512, {0, 8, 16, 24, 40, 56, 72, 0xffff}},
    {"nginx pool block",
     "further block of a pool (nginx)",
     make_pool_block,
     512,
     {0, 8, 16, 24, 0xffff}},
    {"libuv handle", "uv_timer_t (libuv)", make_handle, 152, {8, 16, 24, 32, 40, 0xffff}},
    {"jvm tracked block",
     "block of the JVM, with native memory tracking",
     make_tracked,
     136,
     {0, 8, 112, 0xffff}},
    {"jvm chunk", "chunk of an arena (JVM)", make_chunk, 1000, {0, 8, 0xffff}},
    {"v8 segment", "segment of a zone (V8)", make_segment, 8200, {0, 8, 0xffff}},
    {"gobject", "GObject with a class of libx.so.1", make_gobject, 40, {0, 8, 0xffff}},
    {"zero", "zeros: never written, or cleared", make_zero, 128, {0, 64, 120, 0xffff}},
    {"filled", "filled with one byte", make_filled, 128, {0, 64, 0xffff}},
    {"format", "SQLite file", make_format, 128, {0, 8, 0xffff}},
    {"text", "JSON text", make_text, 104, {0, 0xffff}},
    {"wide text", "UTF-16 text behind a header of 12 bytes", make_wide, 72, {24, 0xffff}},
    {"headed text", "text behind a header of 16 bytes", make_headed, 56, {16, 0xffff}},
    {"std hash node",
     "node of a std::unordered_map, keyed by std::string",
     make_hash_node,
     56,
     {0, 8, 16, 24, 48, 0xffff}},
    {"std tree node",
     "node of a std::map or std::set, keyed by std::string",
     make_tree_node,
     72,
     {0, 8, 16, 24, 0xffff}},
    {"list node",
     "node of a doubly linked list (std::list or alike)",
     make_list_node,
     40,
     {0, 8, 0xffff}},
    {"std string array", "array of std::string", make_strings, 104, {0, 8, 16, 32, 48, 0xffff}},
    {"std string first",
     "structure that begins with a std::string",
     make_string_first,
     72,
     {0, 8, 16, 0xffff}},
    {"std old string",
     "std::string with a count of references",
     make_old_string,
     40,
     {0, 8, 16, 0xffff}},
    {"list node, data first",
     "node of a doubly linked list (GList or alike)",
     make_glist,
     24,
     {8, 16, 0xffff}},
    {"pointers", "array of pointers to icinga::Host", make_pointers, 136, ANY},
    {"random", "compressed, encrypted or random data", make_random, 264, ANY},
    {"numbers", "small numbers", make_numbers, 72, ANY},
    {"mostly zero", "zeros, but for one word in 64 at most", make_mostly_zero, 2048, ANY},
    {.id = NULL},
};

mw_addr layout_instance_make(const struct layout_instance *instance, struct layout_world *into)
{
    world = into;
    return instance->make();
}
