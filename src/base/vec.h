/* base/vec.h: growing arrays. A vector is a struct with `items`, `count` and `room`; the macros
 * work on any such struct. Growth is geometric and bounded by the caller's max. */
#ifndef MW_BASE_VEC_H
#define MW_BASE_VEC_H

#include "base/alloc.h"
#include "base/error.h"

#include <stddef.h>

#define MW_VEC(type)                                                                               \
    struct {                                                                                       \
        type *items;                                                                               \
        size_t count, room;                                                                        \
    }

/* Make room for one more of item_size bytes. MW_LIMIT at max, MW_NOMEM when out of memory. */
static inline enum mw_status mw_vec_reserve_one(void **items, size_t count, size_t *room,
                                                size_t item_size, size_t max)
{
    if (count < *room)
        return MW_OK;
    if (count >= max)
        return MW_LIMIT;
    size_t wanted = *room < 8 ? 16 : *room + *room / 2;
    if (wanted > max)
        wanted = max;
    void *grown = mw_regrow(*items, *room, wanted, item_size);
    if (!grown)
        return MW_NOMEM;
    *items = grown;
    *room = wanted;
    return MW_OK;
}

/* Append value; evaluates to enum mw_status. */
#define mw_vec_push(vec, max, ...)                                                                 \
    ({                                                                                             \
        void *grown_ = (vec)->items;                                                               \
        enum mw_status status_ =                                                                   \
            mw_vec_reserve_one(&grown_, (vec)->count, &(vec)->room, sizeof *(vec)->items, (max));  \
        (vec)->items = grown_;                                                                     \
        if (status_ == MW_OK)                                                                      \
            (vec)->items[(vec)->count++] = (__VA_ARGS__);                                          \
        status_;                                                                                   \
    })

#define mw_vec_deinit(vec)                                                                         \
    do {                                                                                           \
        free((vec)->items);                                                                        \
        (vec)->items = NULL;                                                                       \
        (vec)->count = (vec)->room = 0;                                                            \
    } while (0)

#endif
