/* image/live.h: private to the files of the live image. */
#ifndef MW_IMAGE_LIVE_H
#define MW_IMAGE_LIVE_H

#include "image/image.h"

#include <stdatomic.h>

struct mw_live_freeze;
struct mw_live_snapshot;

/* Where contents and residency come from: the target, or a copy of it. */
struct mw_live_source {
    int mem_fd, pagemap_fd; /* -1: not permitted */
    int32_t tid;            /* the task behind them */
    bool vm_readv_works;
};

struct mw_live {
    struct mw_context *context;
    int proc_fd;   /* /proc */
    int dir_fd;    /* /proc/PID: stays with this process even when the pid is used again */
    int memory_fd; /* the directory whose smaps, mem, pagemap, exe and root are used: dir_fd, or
                      that of a thread when the first thread has exited and others run on */
    struct mw_live_source source;
    int32_t pid;         /* as /proc names it */
    int32_t memory_tid;  /* the task behind memory_fd */
    bool pid_is_ours;    /* /proc shows our pid namespace: system calls may use the pid */
    atomic_flag is_lost; /* nothing can be read any more, and that has been said */
    bool scan_works, scan_knows_guards; /* PAGEMAP_SCAN */
    uint64_t zero_pfn;                  /* 0: frame numbers are hidden from us */
    struct mw_live_freeze *freeze;      /* while stopped */
    struct mw_live_snapshot *snapshot;  /* NULL: `source` is the target itself */
    int nice_before;                    /* our own priority, raised while the target is stopped */
    bool is_urgent;
};

static inline struct mw_live *mw_live_of(struct mw_image *image)
{
    return image->state;
}

/* Find out whether memory can be read, and how; fills can and cannot_read. */
void mw_live_read_probe(struct mw_image *image);
void mw_live_read(struct mw_image *image, mw_addr address, void *buffer, size_t length,
                  size_t *got_out);
/* From one source; the bytes from the start that could be read. is_shared: the pages are those of a
 * fork, which process_vm_readv would copy. */
size_t mw_live_source_read(const struct mw_live_source *source, bool is_shared, mw_addr address,
                           void *buffer, size_t length);

/* The same for residency. */
void mw_live_pages_probe(struct mw_image *image);
/* Use pagemap's words, as on Linux before 6.7. */
void mw_live_pages_probe_words(struct mw_image *image);
enum mw_status mw_live_pages(struct mw_image *image, mw_addr start, size_t page_count,
                             uint8_t *flags_out, struct mw_error *err);
enum mw_status mw_live_source_pages(struct mw_image *image, const struct mw_live_source *source,
                                    mw_addr start, size_t page_count, uint8_t *flags_out,
                                    struct mw_error *err);

/* live_snapshot.c: ops->snapshot and snapshot_drop; reading while there is one. */
enum mw_status mw_live_snapshot(struct mw_image *image, uint64_t *pause_out, struct mw_error *err);
enum mw_status mw_live_snapshot_check(struct mw_image *image, struct mw_error *err);
void mw_live_snapshot_drop(struct mw_image *image);
size_t mw_live_snapshot_read(struct mw_live *live, mw_addr address, uint8_t *buffer, size_t length);
enum mw_status mw_live_snapshot_pages(struct mw_image *image, mw_addr start, size_t page_count,
                                      uint8_t *flags_out, struct mw_error *err);

/* ops->open_file: the file that is mapped there, through the target's root or by its address.
 * task_fd: the directory of a process or thread in /proc. */
int mw_live_open_mapped(int task_fd, const struct mw_mapping *region);
int mw_live_open_file(struct mw_image *image, const struct mw_mapping *region);
/* ops->open_path: below the target's root. */
int mw_live_open_path(struct mw_image *image, const char *path);

/* Hold it still and fill image->threads; let it go, and how long it was held (ns). */
enum mw_status mw_live_stop(struct mw_image *image, struct mw_error *err);
uint64_t mw_live_resume(struct mw_image *image);

/* The state letter in a stat file below dir_fd: 'X' when it cannot be read, 0 when it has none. */
char mw_live_task_state(int dir_fd, const char *path);

/* Has the process exited, or become a zombie? */
bool mw_live_is_gone(const struct mw_live *live);

/* Put a hint for a denied access to the memory of another process into err. */
void mw_live_hint_denied(const struct mw_live *live, struct mw_error *err);

#endif
