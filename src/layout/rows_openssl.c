/* layout/rows_openssl.c: OpenSSL 1.1.1 to 3.x, told by pointers to tables of libssl and libcrypto.
 *
 *   SSL      1.1.1, 3.0: version 0, method 8, rbio 16, wbio 24 (ssl/ssl_local.h)
 *            3.2 on:     type 0, ctx 8, defltmeth 16, method 24
 *   SSL_CTX  1.1.1: method 0; 3.x: libctx 0, method 8, cipher_list 16
 *   BIO      3.x: libctx 0, method 8; 1.1.1: method 0; a BIO_METHOD has its type and its name
 *            (crypto/bio/bio_local.h)
 *   BUF_MEM  length 0, data 8, max 16, flags 24 (include/openssl/buffer.h); max is (n + 3) / 3 * 4
 *   ASN1_STRING  length i32 0, type i32 4, data 8, flags 16 (include/openssl/asn1.h)
 *   STACK    num i32 0, data 8, sorted i32 16, num_alloc i32 20, comp 24 (crypto/stack/stack.c)
 *
 * Method tables are constants, so where one is pointed to is proof of what points, by its module.
 */
#include "layout/scope.h"

#include <stdio.h>

enum { BIO_NAME_ROOM = 48 };

static bool is_in_libssl(struct mw_layout_view *view, size_t offset)
{
    return mw_view_is(view, offset, MW_WORD_STATIC) &&
           mw_scope_is_in(view->scope, mw_view_u64(view, offset), "libssl");
}

static bool is_ssl(struct mw_layout_view *view, struct mw_layout_match *match)
{
    (void)match;
    return is_in_libssl(view, 8);
}

static bool is_ssl_32(struct mw_layout_view *view, struct mw_layout_match *match)
{
    (void)match;
    return is_in_libssl(view, 16) && is_in_libssl(view, 24);
}

static bool is_ssl_ctx(struct mw_layout_view *view, struct mw_layout_match *match)
{
    (void)match;
    return is_in_libssl(view, 8);
}

static bool is_ssl_ctx_111(struct mw_layout_view *view, struct mw_layout_match *match)
{
    (void)match;
    return is_in_libssl(view, 0);
}

/* A BIO_METHOD: int type, char *name, then functions. Type and class bits are below 0x10000. */
static bool method_is_bio(struct mw_layout_view *view, size_t offset, struct mw_layout_match *match)
{
    mw_addr method = mw_view_u64(view, offset);
    bool is_new;
    struct mw_scope_memo *memo = mw_scope_memo_of(view->scope, MW_MEMO_BIO_METHOD, method, &is_new);
    if (is_new) {
        uint64_t words[3];
        memo->holds = mw_scope_read(view->scope, method, words, sizeof words) &&
                      (uint32_t)words[0] > 0 && (uint32_t)words[0] < 1 << 16 &&
                      (mw_scope_word(view->scope, words[1]) & MW_WORD_CONST) &&
                      (mw_scope_word(view->scope, words[2]) & (MW_WORD_CODE | MW_WORD_ZERO)) &&
                      mw_scope_read_name(view->scope, words[1], memo->name, BIO_NAME_ROOM) > 0;
    }
    if (memo->holds)
        mw_match_name(match, memo->name, "BIO of OpenSSL");
    return memo->holds;
}

static bool is_bio(struct mw_layout_view *view, struct mw_layout_match *match)
{
    return method_is_bio(view, 8, match);
}

static bool is_bio_111(struct mw_layout_view *view, struct mw_layout_match *match)
{
    return method_is_bio(view, 0, match);
}

static bool is_buf_mem(struct mw_layout_view *view, struct mw_layout_match *match)
{
    (void)match;
    return mw_view_u64(view, 0) <= mw_view_u64(view, 16) && mw_view_u64(view, 16) % 4 == 0;
}

static bool is_stack(struct mw_layout_view *view, struct mw_layout_match *match)
{
    (void)match;
    return mw_view_u32(view, 0) <= mw_view_u32(view, 20);
}

const struct mw_layout_row mw_rows_openssl[] = {
    {.id = "openssl ssl",
     .name = "SSL (OpenSSL)",
     .basis = MW_LAYOUT_EXACT,
     .module = "libssl",
     .usable_min = 1500,
     .usable_max = 9000,
     .checks = {MW_AT4(0, RANGE, 0x0300, 0x1ffff), MW_AT8(16, WORD, MW_WORD_NODE, 0),
                MW_AT8(24, WORD, MW_WORD_NODE, 0)},
     .test = is_ssl},
    {.id = "openssl ssl",
     .name = "SSL (OpenSSL)",
     .basis = MW_LAYOUT_EXACT,
     .module = "libssl",
     .usable_min = 1500,
     .usable_max = 9000,
     .checks = {MW_AT4(0, RANGE, 0, 255), MW_AT8(8, WORD, MW_WORD_HEAP, 0)},
     .test = is_ssl_32},
    {.id = "openssl ssl ctx",
     .name = "SSL_CTX (OpenSSL)",
     .basis = MW_LAYOUT_EXACT,
     .module = "libssl",
     .usable_min = 700,
     .usable_max = 3000,
     .checks = {MW_AT8(0, WORD, MW_WORD_NODE, 0), MW_AT8(16, WORD, MW_WORD_HEAP, 0)},
     .test = is_ssl_ctx},
    {.id = "openssl ssl ctx",
     .name = "SSL_CTX (OpenSSL)",
     .basis = MW_LAYOUT_EXACT,
     .module = "libssl",
     .usable_min = 700,
     .usable_max = 3000,
     .checks = {MW_AT8(8, WORD, MW_WORD_HEAP, 0), MW_AT8(16, WORD, MW_WORD_HEAP, 0)},
     .test = is_ssl_ctx_111},
    {.id = "openssl bio",
     .basis = MW_LAYOUT_EXACT,
     .module = "libcrypto",
     .usable_min = 100,
     .usable_max = 200,
     .checks = {MW_AT8(0, WORD, MW_WORD_NODE, 0), MW_AT8(8, WORD, MW_WORD_STATIC, 0)},
     .test = is_bio},
    {.id = "openssl bio",
     .basis = MW_LAYOUT_EXACT,
     .module = "libcrypto",
     .usable_min = 100,
     .usable_max = 200,
     .checks = {MW_AT8(0, WORD, MW_WORD_STATIC, 0)},
     .test = is_bio_111},
    {.id = "openssl buf mem",
     .name = "BUF_MEM (OpenSSL)",
     .basis = MW_LAYOUT_LIKELY,
     .module = "libcrypto",
     .usable_min = 32,
     .usable_max = 40,
     .checks = {MW_AT8(0, RANGE, 1, 1 << 30), MW_AT8(8, WORD, MW_WORD_HEAP, 0),
                MW_AT8(16, RANGE, 1, 1 << 30), MW_AT8(24, RANGE, 0, 1)},
     .test = is_buf_mem},
    {.id = "openssl stack",
     .name = "STACK (OpenSSL)",
     .basis = MW_LAYOUT_LIKELY,
     .module = "libcrypto",
     .usable_min = 32,
     .usable_max = 40,
     .checks = {MW_AT4(0, RANGE, 0, 1 << 24), MW_AT8(8, WORD, MW_WORD_HEAP, 0),
                MW_AT4(16, RANGE, 0, 1), MW_AT4(20, RANGE, 4, 1 << 24), MW_AT4(4, RANGE, 0, 0),
                MW_AT8(24, WORD, MW_WORD_CODE | MW_WORD_ZERO, 0)},
     .test = is_stack},
    {.id = "openssl asn1 string",
     .name = "ASN1_STRING (OpenSSL)",
     .basis = MW_LAYOUT_LIKELY,
     .module = "libcrypto",
     .usable_min = 24,
     .usable_max = 24,
     .checks = {MW_AT4(0, RANGE, 1, 1 << 20), MW_AT4(4, RANGE, 1, 30),
                MW_AT8(8, WORD, MW_WORD_HEAP, 0), MW_AT8(16, RANGE, 0, 0xffff)}},
    {.id = NULL},
};
