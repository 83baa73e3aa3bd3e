/* tests/unit/test_call.c: the call before a return address, in every form, and what is none. */
#include "image/open.h"
#include "symbol/call.h"
#include "symbol/disassembler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { PAGE = 4096, AT = 256, STUB = 1024 };
static const mw_addr code_start = 0x400000, data_start = 0x500000;

static uint8_t code[PAGE];
static uint64_t data[PAGE / 8];

static void image_open(struct mw_image *image, enum mw_arch arch)
{
    const struct mw_image_memory_part parts[] = {
        {.mapping = {.start = code_start,
                     .end = code_start + PAGE,
                     .perms = MW_PERM_READ | MW_PERM_EXEC,
                     .name = "/bin/x"},
         .bytes = code},
        {.mapping = {.start = data_start,
                     .end = data_start + PAGE,
                     .perms = MW_PERM_READ | MW_PERM_WRITE,
                     .name = ""},
         .bytes = data},
    };
    assert_int_equal(mw_image_open_memory(parts, 2, image, NULL), MW_OK);
    image->arch = arch;
}

/* Put bytes so that they end at AT, and decode. */
static enum mw_status decode(enum mw_arch arch, const void *bytes, size_t length,
                             struct mw_call *call)
{
    struct mw_image image;
    memset(code, 0x90, STUB);
    memcpy(code + AT - length, bytes, length);
    image_open(&image, arch);
    enum mw_status status = mw_call_before(&image, code_start + AT, call);
    mw_image_close(&image);
    return status;
}
#define X86(text, call) decode(MW_ARCH_X86_64, text, sizeof(text) - 1, call)

static void direct(uint8_t bytes[5], mw_addr target)
{
    int32_t distance = (int32_t)(target - (code_start + AT));
    bytes[0] = 0xe8;
    memcpy(bytes + 1, &distance, 4);
}

static void test_direct(void **state)
{
    (void)state;
    struct mw_call call;
    uint8_t bytes[5];
    direct(bytes, code_start + 512);
    assert_int_equal(decode(MW_ARCH_X86_64, bytes, 5, &call), MW_OK);
    assert_int_equal(call.kind, MW_CALL_DIRECT);
    assert_int_equal(call.target, code_start + 512);
    assert_int_equal(call.address, code_start + AT - 5);
    assert_false(call.is_plt);
    direct(bytes, data_start); /* where no code is: the bytes mean something else */
    assert_int_equal(decode(MW_ARCH_X86_64, bytes, 5, &call), MW_NOT_FOUND);
}

static void test_through_a_stub(void **state)
{
    (void)state;
    struct mw_call call;
    uint8_t bytes[5];
    const uint8_t stubs[][7] = {
        {0xff, 0x25}, {0xf2, 0xff, 0x25}, {0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25}};
    static const size_t lengths[] = {2, 3, 6};
    for (size_t i = 0; i < 3; i++) {
        int32_t distance = (int32_t)(data_start + 64 - (code_start + STUB + lengths[i] + 4));
        memset(code + STUB, 0x90, 32);
        memcpy(code + STUB, stubs[i], lengths[i]);
        memcpy(code + STUB + lengths[i], &distance, 4);
        data[8] = 0x7f0012345678;
        direct(bytes, code_start + STUB);
        assert_int_equal(decode(MW_ARCH_X86_64, bytes, 5, &call), MW_OK);
        assert_true(call.is_plt);
        assert_int_equal(call.slot, data_start + 64);
        assert_int_equal(call.target, 0x7f0012345678);
    }
}

static void test_through_a_slot(void **state)
{
    (void)state;
    struct mw_call call;
    uint8_t bytes[6] = {0xff, 0x15};
    int32_t distance = (int32_t)(data_start + 80 - (code_start + AT));
    memcpy(bytes + 2, &distance, 4);
    data[10] = code_start + 7;
    assert_int_equal(decode(MW_ARCH_X86_64, bytes, 6, &call), MW_OK);
    assert_int_equal(call.kind, MW_CALL_SLOT);
    assert_int_equal(call.slot, data_start + 80);
    assert_int_equal(call.target, code_start + 7);
}

static void test_through_registers(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *text;
        size_t length;
    } forms[] = {
        {"\xff\xd0", "call rax", 2},
        {"\x41\xff\xd4", "call r12", 3},
        {"\xff\x50\x18", "call qword ptr [rax + 0x18]", 3},
        {"\x41\xff\x54\x24\x10", "call qword ptr [r12 + 0x10]", 5},
        {"\xff\x90\x08\x01\x00\x00", "call qword ptr [rax + 0x108]", 6},
        {"\xff\x14\xc3", "call qword ptr [rbx + rax*8]", 3},
        {"\xff\x14\xc5\x40\x00\x00\x00", "call qword ptr [rax*8 + 0x40]", 7},
        {"\x3e\xff\xd0", NULL, 3},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct mw_call call;
        char text[128] = "";
        assert_int_equal(decode(MW_ARCH_X86_64, forms[i].bytes, forms[i].length, &call), MW_OK);
        assert_int_equal(call.kind, MW_CALL_REGISTER);
        assert_int_equal(call.length, forms[i].length);
        if (!forms[i].text || mw_disassembler_missing()[0])
            continue;
        assert_true(mw_disassemble(MW_ARCH_X86_64, call.bytes, call.length, call.address, text,
                                   sizeof text));
        assert_string_equal(text, forms[i].text);
    }
}

static void test_what_is_no_call(void **state)
{
    (void)state;
    struct mw_call call;
    struct mw_image image;
    assert_int_equal(X86("\xc3", &call), MW_NOT_FOUND);
    assert_int_equal(X86("\xff\xe0", &call), MW_NOT_FOUND); /* jmp rax */
    assert_int_equal(X86("\xff\x60\x18", &call), MW_NOT_FOUND);
    image_open(&image, MW_ARCH_X86_64);
    assert_int_equal(mw_call_before(&image, code_start, &call), MW_NOT_FOUND); /* its first byte */
    assert_int_equal(mw_call_before(&image, data_start + 64, &call), MW_NOT_FOUND);
    assert_int_equal(mw_call_before(&image, 0, &call), MW_NOT_FOUND);
    image.arch = MW_ARCH_I386;
    assert_int_equal(mw_call_before(&image, code_start + AT, &call), MW_UNSUPPORTED);
    mw_image_close(&image);
}

/* A call right behind the start of a mapping has fewer bytes before it than are looked at. */
static void test_start_of_a_mapping(void **state)
{
    (void)state;
    struct mw_call call;
    struct mw_image image;
    memset(code, 0x90, STUB);
    memcpy(code, "\xff\xd0", 2);
    image_open(&image, MW_ARCH_X86_64);
    assert_int_equal(mw_call_before(&image, code_start + 2, &call), MW_OK);
    assert_int_equal(call.address, code_start);
    mw_image_close(&image);
}

static void arm_put(size_t at, uint32_t word)
{
    memcpy(code + at, &word, 4);
}

static void test_aarch64(void **state)
{
    (void)state;
    struct mw_call call;
    uint32_t bl = 0x94000000 | ((STUB - (AT - 4)) / 4), back = 0x97ffffff, blr = 0xd63f0200;
    memset(code + STUB, 0, 32);
    assert_int_equal(decode(MW_ARCH_AARCH64, &bl, 4, &call), MW_OK);
    assert_int_equal(call.kind, MW_CALL_DIRECT);
    assert_int_equal(call.target, code_start + STUB);
    assert_int_equal(decode(MW_ARCH_AARCH64, &back, 4, &call), MW_OK);
    assert_int_equal(call.target, code_start + AT - 8);
    assert_int_equal(decode(MW_ARCH_AARCH64, &blr, 4, &call), MW_OK);
    assert_int_equal(call.kind, MW_CALL_REGISTER);
    uint32_t ret = 0xd65f03c0;
    assert_int_equal(decode(MW_ARCH_AARCH64, &ret, 4, &call), MW_NOT_FOUND);
    /* bti c; adrp x16, +0x100 pages; ldr x17, [x16, #72]; the data is 0x100 pages behind the code
     */
    arm_put(STUB, 0xd503245f);
    arm_put(STUB + 4, 0x90000010 | (0x100 >> 2) << 5);
    arm_put(STUB + 8, 0xf9400211 | (72 / 8) << 10);
    data[9] = 0xffff12345678;
    assert_int_equal(decode(MW_ARCH_AARCH64, &bl, 4, &call), MW_OK);
    assert_true(call.is_plt);
    assert_int_equal(call.slot, data_start + 72);
    assert_int_equal(call.target, 0xffff12345678);
}

/* Any bytes before any address: an answer, and a call within the bytes that were looked at. */
static void test_any_bytes(void **state)
{
    (void)state;
    uint64_t random = 88172645463325252u;
    struct mw_image image;
    unsigned found = 0;
    for (size_t i = 0; i < sizeof code; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        code[i] = i % 5 ? (uint8_t)random : 0xff;
    }
    for (unsigned arch = 0; arch < 2; arch++) {
        image_open(&image, arch ? MW_ARCH_AARCH64 : MW_ARCH_X86_64);
        for (mw_addr at = code_start; at <= code_start + PAGE; at++) {
            struct mw_call call;
            enum mw_status status = mw_call_before(&image, at, &call);
            assert_true(status == MW_OK || status == MW_NOT_FOUND || status == MW_FAULT);
            if (status != MW_OK)
                continue;
            found++;
            assert_true(call.length >= 2 && call.length <= 9);
            assert_int_equal(call.address + call.length, at);
        }
        mw_image_close(&image);
    }
    assert_true(found > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_direct),          cmocka_unit_test(test_through_a_stub),
        cmocka_unit_test(test_through_a_slot),  cmocka_unit_test(test_through_registers),
        cmocka_unit_test(test_what_is_no_call), cmocka_unit_test(test_start_of_a_mapping),
        cmocka_unit_test(test_aarch64),         cmocka_unit_test(test_any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
