/* image/image.h: THE interface to a target's memory.
 *
 * A live process, a core, a capture, a pasted smaps and a test's byte array look the same to
 * everything above: regions, reads, residency, threads, auxv. Nothing above this room knows a pid
 * or a file. Lifetimes: everything an image hands out lives until mw_image_close(), regions and
 * process only until mw_image_refresh().
 *
 * To add a source of memory:
 *   1. fill a struct mw_image_ops in a file of its own (live.c, core.c, smaps.c, memory.c);
 *   2. an open function fills struct mw_image: kind, arch, regions, process, what `can` holds;
 *   3. add it to the target detection in open.c;
 *   4. run tests/unit/test_image_*.c on it. */
#ifndef MW_IMAGE_IMAGE_H
#define MW_IMAGE_IMAGE_H

#include "base/context.h"
#include "base/error.h"
#include "base/finding.h"
#include "image/vectors.h"
#include "proc/mapping.h"
#include "proc/process.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mw_image_kind {
    MW_IMAGE_LIVE,
    MW_IMAGE_CORE,
    MW_IMAGE_CAPTURE,
    MW_IMAGE_SMAPS,
    MW_IMAGE_MEMORY, /* a test's bytes */
};

enum { MW_AUXV_MAX = 64 };

enum mw_arch { MW_ARCH_UNKNOWN, MW_ARCH_X86_64, MW_ARCH_AARCH64, MW_ARCH_I386, MW_ARCH_ARM };

/* What is known of one page; several bits may be set. */
enum mw_page {
    MW_PAGE_PRESENT = 1, /* in memory */
    MW_PAGE_SWAPPED = 2, /* its content is in swap */
    MW_PAGE_FILE = 4,    /* a page of a file or of shared memory */
    MW_PAGE_ZERO = 8,    /* the shared zero page: present, and not part of RSS */
    MW_PAGE_GUARD = 16,  /* MADV_GUARD_INSTALL marker: a read fails */
    MW_PAGE_HUGE = 32,   /* part of a transparent huge page */
};

/* In RSS: present and not the zero page. */
static inline bool mw_page_is_resident(uint8_t page)
{
    return (page & (MW_PAGE_PRESENT | MW_PAGE_ZERO)) == MW_PAGE_PRESENT;
}

struct mw_thread {
    int32_t tid;
    char name[16];
    bool has_registers;
    mw_addr pc, sp, tp;     /* tp: thread pointer (fs_base, tpidr_el0); 0 unknown */
    uint64_t registers[34]; /* general registers in the order of NT_PRSTATUS */
    size_t register_count;
};

/* How often and how long a live target was held still. */
struct mw_pauses {
    uint64_t count, total_ns, longest_ns;
};

/* What this image can answer. */
enum mw_image_can {
    MW_CAN_READ = 1,      /* memory contents */
    MW_CAN_PAGES = 2,     /* residency page by page */
    MW_CAN_COUNTERS = 4,  /* smaps counters of the regions */
    MW_CAN_REGISTERS = 8, /* threads with registers (live: only while stopped) */
};

struct mw_image;

struct mw_image_ops {
    const char *name;

    /* Copy up to length bytes from address. *got_out is how many from the start were readable.
     * Never fails otherwise. */
    void (*read)(struct mw_image *image, mw_addr address, void *buffer, size_t length,
                 size_t *got_out);

    /* What read gives, and where that ends what a loader put there when the program began: of
     * writable data of a module that the source lacks. Returns the bytes from the start that are
     * known. NULL: the same as read. */
    size_t (*read_initial)(struct mw_image *image, mw_addr address, void *buffer, size_t length);

    /* One byte of enum mw_page per page, start page-aligned. NULL: not known. */
    enum mw_status (*pages)(struct mw_image *image, mw_addr start, size_t page_count,
                            uint8_t *flags_out, struct mw_error *err);

    /* Hold every thread still and fill threads with registers; NULL: nothing moves anyway. */
    enum mw_status (*stop)(struct mw_image *image, struct mw_error *err);
    uint64_t (*resume)(struct mw_image *image); /* how long it was held, nanoseconds */

    /* Make a frozen copy of the memory and read from that; give it back. *pause_out: how long the
     * target was held, nanoseconds. NULL: nothing moves, so there is nothing to copy. */
    enum mw_status (*snapshot)(struct mw_image *image, uint64_t *pause_out, struct mw_error *err);
    enum mw_status (*snapshot_check)(struct mw_image *image, struct mw_error *err);
    void (*snapshot_drop)(struct mw_image *image);

    /* Read regions and counters anew (live). NULL: they cannot change. */
    enum mw_status (*refresh)(struct mw_image *image, struct mw_error *err);
    /* The same for where regions are, without counters: much cheaper on a large process. */
    enum mw_status (*refresh_ranges)(struct mw_image *image, struct mw_error *err);

    /* The file behind a region, checked to be the one that is mapped: a descriptor for the
     * caller, or -1. NULL: files are out of reach. */
    int (*open_file)(struct mw_image *image, const struct mw_mapping *region);

    /* A file by its absolute path as the target sees it, not checked to be anything: a descriptor,
     * or -1. NULL: the target has no files to look at. */
    int (*open_path)(struct mw_image *image, const char *path);

    void (*close)(struct mw_image *image); /* frees `state` */
};

struct mw_image {
    const struct mw_image_ops *ops;
    void *state; /* of the source */
    enum mw_image_kind kind;
    enum mw_arch arch;
    unsigned can; /* enum mw_image_can */
    uint32_t page_size;

    struct mw_mapping_list regions;
    struct mw_process process; /* status, environment settings, limits */

    struct mw_thread *threads; /* of a core, or of the last stop; ascending by tid when live */
    size_t thread_count;
    /* Of a core; of the last stop or the snapshot when wants_vectors was set before. */
    struct mw_vectors vectors;
    bool wants_vectors;
    bool stopped;
    uint64_t stop_began_ns; /* monotonic: when this stop was asked for, or the last one */
    bool has_snapshot;      /* reads and residency are those of one moment, the target runs on */
    uint64_t snapshot_lacks_bytes; /* memory that the snapshot has not: read as it is now */
    struct mw_pauses pauses;
    uint64_t near_moment; /* near.h: what is remembered of pages is of this moment; 0: nothing */

    mw_addr entry, phdr, base, at_random, vdso; /* auxv; 0 unknown */
    struct {
        uint64_t type, value;
    } auxv[MW_AUXV_MAX]; /* all of it, in its order, without the end */
    size_t auxv_count;

    struct { /* the file that mw_image_read_mapped() read last */
        bool is_set;
        int fd; /* -1: could not be opened */
        uint64_t inode;
        uint32_t dev_major, dev_minor;
    } file;

    struct mw_error cannot_read; /* why MW_CAN_READ is missing, with the hint that helps */
    struct mw_findings findings; /* what the source itself lacks: truncated, missing pages */
};

/* Copy exactly length bytes. MW_FAULT when any byte cannot be read; buffer is then undefined.
 * Hot: returns the code only. */
enum mw_status mw_image_read(struct mw_image *image, mw_addr address, void *buffer,
                             size_t length) MW_MUST_CHECK;

/* One little-endian word. MW_FAULT when it cannot be read. */
enum mw_status mw_image_read_u64(struct mw_image *image, mw_addr address,
                                 uint64_t *value_out) MW_MUST_CHECK;

/* As much of [address, address+length) as can be read from its start; returns the byte count. */
size_t mw_image_read_some(struct mw_image *image, mw_addr address, void *buffer, size_t length);

/* The same, but a page that is neither in memory nor in swap gives zeros instead of being read, so
 * that the target's page table stays as it is. For places where nothing is expected there. */
size_t mw_image_read_present(struct mw_image *image, mw_addr address, void *buffer, size_t length);

/* Copy exactly length bytes of mapped files (symbol tables, constants): pages that the target has
 * not touched come from the file, so that none is mapped in it for our sake. Of a core that lacks
 * writable data this is how that data began, relocated, which is why it is for constants only.
 * MW_FAULT. Meant for small reads: residency is asked for page by page, and remembered (near.h). */
enum mw_status mw_image_read_mapped(struct mw_image *image, mw_addr address, void *buffer,
                                    size_t length) MW_MUST_CHECK;
void mw_image_forget_file(struct mw_image *image); /* close the one kept open for it */

/* Flags of page_count pages from start (page-aligned). MW_UNSUPPORTED without MW_CAN_PAGES,
 * MW_INVALID for a range that is not of whole pages. */
enum mw_status mw_image_pages(struct mw_image *image, mw_addr start, size_t page_count,
                              uint8_t *flags_out, struct mw_error *err) MW_MUST_CHECK;

/* May memory differ from what it was a moment ago when nobody holds the target still? False for a
 * core, a text, a test's bytes, and for a live process while a snapshot of it is read. */
static inline bool mw_image_moves(const struct mw_image *image)
{
    return image->kind == MW_IMAGE_LIVE && !image->has_snapshot;
}

/* Have the live target forked (live_fork.h says what that costs it): from now on reads and
 * residency are those of the moment of the fork, stop, resume and refresh do nothing, and threads
 * are those of that moment, with registers. `pauses` counts the one stop that it took. A no-op on
 * what cannot move. Regions and their counters stay those that were read before.
 * MW_UNSUPPORTED, MW_LIMIT, MW_PERM, MW_GONE with the reason: nothing has changed. */
enum mw_status mw_image_snapshot(struct mw_image *image, struct mw_error *err) MW_MUST_CHECK;
/* Is all that was read since from the snapshot? MW_GONE when somebody has killed it: what could not
 * be read then says nothing of the target. Asked before results are believed. */
enum mw_status mw_image_snapshot_check(struct mw_image *image, struct mw_error *err) MW_MUST_CHECK;
/* Read the target itself again. A no-op without a snapshot. */
void mw_image_snapshot_drop(struct mw_image *image);

/* Hold the target still; a no-op on what cannot move. Pairs with mw_image_resume(). The time
 * between them goes into `pauses`. */
enum mw_status mw_image_stop(struct mw_image *image, struct mw_error *err) MW_MUST_CHECK;
void mw_image_resume(struct mw_image *image);

/* Read regions and counters anew; a no-op on what cannot change. Pointers into `regions` and
 * `process` are void afterwards. On failure they stay what they were. MW_GONE. */
enum mw_status mw_image_refresh(struct mw_image *image, struct mw_error *err) MW_MUST_CHECK;

/* The same without counters, which are not known then (flags of regions are kept from before):
 * between two stops of one walk. Followed by mw_image_refresh() before counters are asked for. */
enum mw_status mw_image_refresh_ranges(struct mw_image *image, struct mw_error *err) MW_MUST_CHECK;

/* A read-only descriptor of the file behind region, checked to be the one that is mapped (of a live
 * process by its inode, of a core by its build-id); -1 when it cannot be had. The caller closes it.
 */
int mw_image_open_file(struct mw_image *image, const struct mw_mapping *region);

/* A read-only descriptor of the regular file at an absolute path in the target's own file system,
 * never outside of it; -1 when there is none or no target. Whose it is and what it holds is for the
 * caller to check. The caller closes it. */
int mw_image_open_path(struct mw_image *image, const char *path);

/* The region that holds address, or NULL. */
static inline const struct mw_mapping *mw_image_region(const struct mw_image *image,
                                                       mw_addr address)
{
    return mw_mapping_find(&image->regions, address);
}

/* For sources: keep one entry of the auxiliary vector. */
void mw_image_auxv_store(struct mw_image *image, uint64_t type, uint64_t value);

/* Resumes if needed, releases everything. NULL and half-opened images are fine. */
void mw_image_close(struct mw_image *image);

#endif
