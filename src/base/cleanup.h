/* base/cleanup.h: release at end of scope, and the explicit steal that hands ownership over. */
#ifndef MW_BASE_CLEANUP_H
#define MW_BASE_CLEANUP_H

#include <stdlib.h>
#include <unistd.h>

static inline void mw_cleanup_free(void *slot)
{
    free(*(void **)slot);
}

static inline void mw_cleanup_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

#define MW_FREE __attribute__((cleanup(mw_cleanup_free)))
#define MW_CLOSE __attribute__((cleanup(mw_cleanup_close)))

/* Take the value out of an owning variable: p = mw_steal(owner). */
#define mw_steal(owner)                                                                            \
    ({                                                                                             \
        __typeof__(owner) stolen_ = (owner);                                                       \
        (owner) = NULL;                                                                            \
        stolen_;                                                                                   \
    })

static inline int mw_steal_fd(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

#endif
