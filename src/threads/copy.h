/* threads/copy.h: private to the threads room: registers and stack of each thread, copied. */
#ifndef MW_THREADS_COPY_H
#define MW_THREADS_COPY_H

#include "base/context.h"
#include "image/image.h"

struct mw_thread_copy {
    struct mw_thread thread;
    mw_addr start; /* of what was copied of its stack */
    size_t size;
    uint8_t *bytes; /* NULL: nothing was, it is read from the image */
    bool not_read;  /* no room or time was left */
};

struct mw_thread_copies {
    struct mw_thread_copy *items;
    size_t count, room;
    uint64_t bytes; /* of all stacks */
};

/* Of what moves: copied under as many stops as it takes. Else only the threads are listed. */
enum mw_status mw_thread_copies_take(struct mw_image *image, struct mw_context *context,
                                     struct mw_thread_copies *copies_out,
                                     struct mw_error *err) MW_MUST_CHECK;
void mw_thread_copies_deinit(struct mw_thread_copies *copies);

#endif
