/* tests/fuzz/fuzz_zstd.c: packed cores.
 *
 * Input: a byte of choice, then bytes. Choice 0-31: the bytes are a .zst file as they are. Else
 * they are packed here first, in frames of 1 to 64 KiB, and then (bit 6) cut or (bit 7) damaged
 * at a place that the choice and the first byte tell. What must hold: what is unpacked is what was
 * packed; of a cut file it is a beginning of that, of any other the same as libzstd unpacks in one
 * piece; the whole costs no second. */
#include "base/io.h"
#include "image/core.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

enum { RAW_CHOICES = 32, INPUT_MAX = 1 << 18, UNPACKED_MAX = 8 << 20, SNIFFED = 64 };

static void must(int good)
{
    if (!good)
        abort();
}

/* In frames of frame_bytes each; allocated. */
static uint8_t *pack(const uint8_t *bytes, size_t size, size_t frame_bytes, size_t *length_out)
{
    size_t frames = size / frame_bytes + 1, room = frames * ZSTD_compressBound(frame_bytes);
    uint8_t *packed = malloc(room);
    size_t length = 0;
    must(packed != NULL);
    for (size_t at = 0; at < size || at == 0; at += frame_bytes) {
        size_t step = size - at < frame_bytes ? size - at : frame_bytes;
        size_t got = ZSTD_compress(packed + length, room - length, bytes + at, step, 1);
        must(!ZSTD_isError(got));
        length += got;
    }
    *length_out = length;
    return packed;
}

/* All that libzstd itself unpacks, up to the first error or max bytes. */
static size_t unpack_plainly(const uint8_t *packed, size_t length, uint8_t *out, size_t max,
                             bool *is_good_out)
{
    ZSTD_DCtx *zstd = ZSTD_createDCtx();
    ZSTD_inBuffer in = {packed, length, 0};
    ZSTD_outBuffer unpacked = {out, max, 0};
    must(zstd != NULL);
    *is_good_out = true;
    for (;;) {
        size_t in_before = in.pos, out_before = unpacked.pos;
        size_t code = ZSTD_decompressStream(zstd, &unpacked, &in);
        if (ZSTD_isError(code)) {
            *is_good_out = false;
            break;
        }
        if (in.pos == in_before && unpacked.pos == out_before)
            break;
    }
    ZSTD_freeDCtx(zstd);
    return unpacked.pos;
}

/* Unpack as memwhy does; -1 and an error, or a descriptor. */
static int spool(const uint8_t *packed, size_t length, struct mw_error *err)
{
    int fd = memfd_create("packed", MFD_CLOEXEC), unpacked = -1;
    size_t sniffed = length < SNIFFED ? length : SNIFFED;
    must(fd >= 0 && mw_io_write_full(fd, packed, length) == 0);
    must(lseek(fd, (off_t)sniffed, SEEK_SET) == (off_t)sniffed);
    const struct mw_core_stream stream = {
        .fd = fd,
        .name = "input",
        .first = packed,
        .first_length = sniffed,
        .is_zstd = true,
        .bytes_max = UNPACKED_MAX,
    };
    enum mw_status status = mw_core_spool(&stream, NULL, &unpacked, err);
    must(status == MW_OK ? unpacked >= 0 : unpacked == -1 && err->text[0] != '\0');
    close(fd);
    return unpacked;
}

static void compare(int fd, const uint8_t *expected, size_t length)
{
    struct stat about;
    must(fstat(fd, &about) == 0 && (size_t)about.st_size == length);
    uint8_t *got = malloc(length + 1);
    must(got != NULL && mw_io_pread_full(fd, got, length + 1, 0) == (ssize_t)length);
    must(memcmp(got, expected, length) == 0);
    free(got);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint8_t choice = size > 0 ? bytes[0] : RAW_CHOICES, first = size > 1 ? bytes[1] : 0;
    if (size > INPUT_MAX)
        return -1;
    if (size > 0)
        bytes++, size--;
    size_t length = size;
    uint8_t *packed = NULL;
    if (choice >= RAW_CHOICES) {
        packed = pack(bytes, size, (size_t)1024 << (choice % 7), &length);
        size_t place = (size_t)(first + 256 * (choice & 15)) % (length + 1);
        if (choice & 64)
            length = place;
        if (choice & 128 && place < length)
            packed[place] ^= (uint8_t)(1 << first % 8);
    } else {
        packed = malloc(size + 1);
        must(packed != NULL);
        memcpy(packed, bytes, size);
    }
    setenv("TMPDIR", "/dev/shm", 1); /* where the copy goes: nothing is worn out */
    uint8_t *expected = malloc(UNPACKED_MAX);
    bool is_good;
    must(expected != NULL);
    size_t expected_length = unpack_plainly(packed, length, expected, UNPACKED_MAX, &is_good);
    struct mw_error err = {0};
    int fd = spool(packed, length, &err);
    if (fd >= 0) {
        compare(fd, expected, expected_length);
        close(fd);
    } else if (is_good && expected_length > 0 && expected_length < UNPACKED_MAX) {
        must(err.code == MW_LIMIT); /* no room on the disk */
    }
    if (choice >= RAW_CHOICES && !(choice & 192)) {
        must(fd >= 0 || err.code == MW_LIMIT);
        must(expected_length == size && memcmp(expected, bytes, size) == 0);
    }
    free(expected);
    free(packed);
    return 0;
}
