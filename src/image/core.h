/* image/core.h: private to the files of the core image. */
#ifndef MW_IMAGE_CORE_H
#define MW_IMAGE_CORE_H

#include "elf/elf_core.h"
#include "image/capture.h"
#include "image/image.h"

#include <pthread.h>

/* Where the bytes of one region are. */
struct mw_core_part {
    uint64_t offset;         /* in the file */
    uint64_t file_bytes;     /* from the region's start; what follows is not in the core */
    uint64_t promised_bytes; /* more than that: the file is cut */
    uint32_t module;         /* 1 + its index in mw_core.files; 0 none */
    bool has_no_permissions; /* only NT_FILE knows it: they are a guess */
};

struct mw_core_files;

struct mw_core {
    int fd;
    uint64_t file_size;
    struct mw_core_part *parts;  /* one for each region, in its order */
    struct mw_core_files *files; /* what the core leaves out (core_files.h); NULL at first */
    uint64_t read_left;          /* bytes that may still be read; UINT64_MAX: no bound */
    uint64_t pages_left;         /* the same for questions about pages */
    bool is_spooled;             /* our own copy: its holes say nothing */
    bool is_kernels;             /* the notes are in the kernel's order */
    pthread_mutex_t lock;        /* of findings, budgets and files: several threads read */
};

/* Bytes from address on that were there when the core was opened are not any more. */
void mw_core_unreadable(struct mw_image *image, mw_addr address, uint64_t bytes);

static inline struct mw_core *mw_core_of(struct mw_image *image)
{
    return image->state;
}

/* As mw_image_read_some(), of what the core itself holds. */
size_t mw_core_read_own(struct mw_image *image, mw_addr address, void *buffer, size_t length);

/* core_segments.c: the program headers that count. */
struct mw_core_segments {
    struct mw_elf_segment *items; /* PT_LOAD with memory; PT_NULL: a gap that NT_FILE names */
    size_t count, room;
    struct mw_elf_segment notes[8];
    size_t note_count;
    struct mw_elf_header header;
    uint64_t end;        /* where the file should end, as far as is known */
    size_t lost_headers; /* program headers behind the end of the file */
};

/* Read header and program headers; what is cut becomes a finding. MW_TRUNCATED, MW_UNSUPPORTED,
 * MW_CORRUPT, MW_LIMIT, MW_NOMEM. */
enum mw_status mw_core_segments_load(struct mw_image *image, const char *name,
                                     struct mw_core_segments *segments,
                                     struct mw_error *err) MW_MUST_CHECK;

struct mw_core_notes;
/* Add what NT_FILE names and no segment covers: gcore and createdump leave out whole mappings.
 * Sorts by address. MW_NOMEM. */
enum mw_status mw_core_segments_add_gaps(struct mw_core_segments *segments,
                                         const struct mw_core_notes *notes, uint64_t page_size,
                                         struct mw_findings *findings) MW_MUST_CHECK;

/* core_budget.c: a file that claims far more memory than it has bytes gets a budget. */
void mw_core_budget_set(struct mw_image *image);
/* May `amount` more be had of *left? Takes it; else a finding. */
bool mw_core_budget_take(struct mw_image *image, uint64_t *left, uint64_t amount);

/* core_stacks.c: threads whose stack is not in the core become findings. */
void mw_core_stacks_check(struct mw_image *image);

/* What the notes of a core tell; the pointers are into `blocks`. */
struct mw_core_notes {
    uint8_t *blocks[8];
    size_t block_count;
    uint64_t block_bytes;      /* of all blocks: at most MW_LIMIT_ELF_NOTE_BYTES */
    struct mw_elf_file *files; /* sorted by start, none in another */
    size_t file_count, file_room;
    struct mw_thread *threads;
    size_t thread_count, thread_room;
    struct mw_elf_prpsinfo process;
    bool has_process, is_kernels, is_kernel_dump;
    uint64_t page_size;              /* 0 unknown */
    struct mw_capture_notes capture; /* into the blocks */
};

/* Read the notes of segment into notes and the auxiliary vector into image. What is cut or makes
 * no sense becomes a finding of image. MW_NOMEM. */
enum mw_status mw_core_notes_load(struct mw_core_notes *notes, struct mw_image *image,
                                  const struct mw_elf_segment *segment, uint16_t machine,
                                  struct mw_error *err) MW_MUST_CHECK;
/* The mapping of a file that holds address, or NULL. Call after mw_core_notes_finish. */
const struct mw_elf_file *mw_core_notes_file(const struct mw_core_notes *notes, mw_addr address);
/* Sorts the files and cuts those that overlap; what is cut is a finding. O(n log n). */
void mw_core_notes_finish(struct mw_core_notes *notes, struct mw_findings *findings);
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
    uint64_t bytes_max;      /* of the copy */
    struct mw_error *damage; /* NULL, or why the stream ends before its time: code is not MW_OK */
};

/* Copy it, unpacked, into a temporary file that has no name. Zeros become holes. Where the stream
 * is damaged the copy ends. MW_CORRUPT or MW_TRUNCATED when that is at once; MW_CANCELED; MW_LIMIT
 * when neither the disk nor bytes_max hold it. */
enum mw_status mw_core_spool(const struct mw_core_stream *stream, struct mw_context *context,
                             int *fd_out, struct mw_error *err) MW_MUST_CHECK;

/* mw_image_open_core() of such a file. */
enum mw_status mw_image_open_core_spooled(int fd, const char *name, struct mw_image *image_out,
                                          struct mw_error *err) MW_MUST_CHECK;

#endif
