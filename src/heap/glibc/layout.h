/* heap/glibc/layout.h: where glibc keeps what, as data.
 *
 * Offsets of malloc_state, malloc_par (mp_), heap_info and the tcache struct for 2.17 to 2.44 on
 * LP64 (x86-64 and aarch64 are the same). Rows come from docs/formats/glibc.md; a walk never asks
 * for a version number, it carries pointers to the rows that fitted. */
#ifndef MW_HEAP_GLIBC_LAYOUT_H
#define MW_HEAP_GLIBC_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MW_GLIBC_OFFSET_NONE = 0xffff };

enum {
    MW_GLIBC_BINS = 127, /* bins[254]: fd and bk of each */
    MW_GLIBC_FASTBINS = 10,
    MW_GLIBC_MINSIZE = 32,
    MW_GLIBC_STATE_MAX = 2304,  /* no malloc_state is larger */
    MW_GLIBC_CHUNK_STRUCT = 48, /* sizeof(struct malloc_chunk) */
};

enum mw_glibc_chunk_flag {
    MW_GLIBC_PREV_INUSE = 1,
    MW_GLIBC_IS_MMAPPED = 2,
    MW_GLIBC_NON_MAIN = 4,
};

enum { MW_GLIBC_NONCONTIGUOUS = 2 }; /* malloc_state.flags */

/* top is bins - 16 and next is bins + 2048 in every version. */
struct mw_glibc_state_layout {
    const char *versions;
    uint16_t bins, fastbins, attached_threads, system_mem, size;
};

struct mw_glibc_par_layout {
    const char *versions;
    uint16_t bins;        /* of the malloc_state that goes with it */
    uint16_t n_mmaps;     /* int; n_mmaps_max, max_n_mmaps, no_dyn_threshold follow */
    uint16_t mmapped_mem; /* max_mmapped_mem follows */
    uint16_t sbrk_base;
    uint16_t tcache;       /* bins, max_bytes, count (u64 each); NONE before 2.26 */
    uint16_t thp_pagesize; /* hp_pagesize follows; NONE before 2.35 */
    uint16_t size;
};

struct mw_glibc_tcache_layout {
    const char *versions;
    uint16_t chunk_size;    /* of the struct, padded up to 0x20 more when seen */
    uint16_t count_bytes;   /* 1 or 2 */
    uint16_t bins;          /* 64, or 76 with the large ones */
    uint16_t entries;       /* offset of the heads */
    bool counts_free_slots; /* cached = tcache_count - count */
};

extern const struct mw_glibc_state_layout mw_glibc_state_layouts[];
extern const size_t mw_glibc_state_layout_count;
extern const struct mw_glibc_par_layout mw_glibc_par_layouts[];
extern const size_t mw_glibc_par_layout_count;
extern const struct mw_glibc_tcache_layout mw_glibc_tcache_layouts[];
extern const size_t mw_glibc_tcache_layout_count;

#endif
