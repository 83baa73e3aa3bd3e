/* image/core.h: private to the files of the core image. */
#ifndef MW_IMAGE_CORE_H
#define MW_IMAGE_CORE_H

#include "elf/elf_core.h"
#include "image/image.h"

/* Where the bytes of one region are. */
struct mw_core_part {
    uint64_t offset;     /* in the file */
    uint64_t file_bytes; /* from the region's start; what follows is not in the core */
};

struct mw_core {
    int fd;
    uint64_t file_size;
    struct mw_core_part *parts; /* one for each region, in its order */
    bool is_spooled;            /* our own copy: its holes say nothing */
    bool is_kernels;            /* the notes are in the kernel's order */
};

static inline struct mw_core *mw_core_of(struct mw_image *image)
{
    return image->state;
}

/* What the notes of a core tell; the pointers are into `blocks`. */
struct mw_core_notes {
    uint8_t *blocks[8];
    size_t block_count;
    uint64_t block_bytes;      /* of all blocks: at most MW_LIMIT_ELF_NOTE_BYTES */
    struct mw_elf_file *files; /* sorted by start */
    size_t file_count, file_room;
    struct mw_thread *threads;
    size_t thread_count, thread_room;
    struct mw_elf_prpsinfo process;
    bool has_process, is_kernels, is_kernel_dump;
    uint64_t page_size; /* 0 unknown */
};

/* Read the notes of segment into notes and the auxiliary vector into image. What is cut or makes
 * no sense becomes a finding of image. MW_NOMEM. */
enum mw_status mw_core_notes_load(struct mw_core_notes *notes, struct mw_image *image,
                                  const struct mw_elf_segment *segment, uint16_t machine,
                                  struct mw_error *err) MW_MUST_CHECK;
/* The mapping of a file that holds address, or NULL. Call after mw_core_notes_finish. */
const struct mw_elf_file *mw_core_notes_file(const struct mw_core_notes *notes, mw_addr address);
void mw_core_notes_finish(struct mw_core_notes *notes);
void mw_core_notes_deinit(struct mw_core_notes *notes);

/* Decide whether the holes of the file tell the residency; sets MW_CAN_PAGES. */
void mw_core_pages_probe(struct mw_image *image);
enum mw_status mw_core_pages(struct mw_image *image, mw_addr start, size_t page_count,
                             uint8_t *flags_out, struct mw_error *err);

/* A core that cannot be read anywhere: a pipe, a .zst. */
struct mw_core_stream {
    int fd;
    const char *name;
    const void *first; /* bytes that were read from fd already */
    size_t first_length;
    bool is_zstd;
    uint64_t bytes_max; /* of the copy */
};

/* Copy it, unpacked, into a temporary file that has no name. Zeros become holes. MW_CORRUPT,
 * MW_TRUNCATED, MW_CANCELED; MW_LIMIT when neither the disk nor bytes_max hold it. */
enum mw_status mw_core_spool(const struct mw_core_stream *stream, struct mw_context *context,
                             int *fd_out, struct mw_error *err) MW_MUST_CHECK;

/* mw_image_open_core() of such a file. */
enum mw_status mw_image_open_core_spooled(int fd, const char *name, struct mw_image *image_out,
                                          struct mw_error *err) MW_MUST_CHECK;

#endif
