/* proc/mapping.h: one mapping of a process, as the kernel tells it.
 *
 * Filled from /proc/PID/maps (ranges and names only), /proc/PID/smaps (with counters), a pasted
 * smaps of any kernel since 2.6 or the segments of a core. Counters that the source does not have
 * are marked absent in `known`, never 0. All sizes in bytes. */
#ifndef MW_PROC_MAPPING_H
#define MW_PROC_MAPPING_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mw_mapping_perm {
    MW_PERM_READ = 1,
    MW_PERM_WRITE = 2,
    MW_PERM_EXEC = 4,
    MW_PERM_SHARED = 8,
};

/* One counter each; the order is that of mw_mapping_counter_names. */
enum mw_counter {
    MW_COUNTER_RSS,
    MW_COUNTER_PSS,
    MW_COUNTER_SHARED_CLEAN,
    MW_COUNTER_SHARED_DIRTY,
    MW_COUNTER_PRIVATE_CLEAN,
    MW_COUNTER_PRIVATE_DIRTY,
    MW_COUNTER_REFERENCED,
    MW_COUNTER_ANONYMOUS,
    MW_COUNTER_LAZY_FREE,
    MW_COUNTER_ANON_HUGE,
    MW_COUNTER_SHMEM_PMD,
    MW_COUNTER_FILE_PMD,
    MW_COUNTER_SHARED_HUGETLB,  /* not in Rss */
    MW_COUNTER_PRIVATE_HUGETLB, /* not in Rss */
    MW_COUNTER_SWAP,
    MW_COUNTER_SWAP_PSS,
    MW_COUNTER_LOCKED,
    MW_COUNTER_COUNT,
};

/* VmFlags that memwhy uses; the kernel's two letters in the comment. */
enum mw_vm_flag {
    MW_VM_ACCOUNT = 1 << 0,       /* ac */
    MW_VM_NORESERVE = 1 << 1,     /* nr */
    MW_VM_GROWSDOWN = 1 << 2,     /* gd */
    MW_VM_LOCKED = 1 << 3,        /* lo */
    MW_VM_DONTDUMP = 1 << 4,      /* dd */
    MW_VM_DONTFORK = 1 << 5,      /* dc */
    MW_VM_HUGEPAGE = 1 << 6,      /* hg */
    MW_VM_NOHUGEPAGE = 1 << 7,    /* nh */
    MW_VM_HUGETLB = 1 << 8,       /* ht */
    MW_VM_PFNMAP = 1 << 9,        /* pf */
    MW_VM_IO = 1 << 10,           /* io */
    MW_VM_SHADOW_STACK = 1 << 11, /* ss */
    MW_VM_WIPEONFORK = 1 << 12,   /* wf */
    MW_VM_GUARD = 1 << 13,        /* gu: holds MADV_GUARD_INSTALL markers, since 6.16 */
    MW_VM_USERFAULTFD = 1 << 14,  /* um, uw, ui: watched through userfaultfd */
    MW_VM_FORKED = 1 << 15,       /* ours: pages were shared with a fork when counters were known */
};

struct mw_mapping {
    mw_addr start, end; /* half-open, start < end */
    uint32_t perms;     /* enum mw_mapping_perm */
    uint32_t vm_flags;  /* enum mw_vm_flag; 0 when the source has no VmFlags */
    uint64_t offset;    /* in the file */
    uint32_t dev_major, dev_minor;
    uint64_t inode;
    const char *name; /* path, "[heap]", "[anon:…]", "" when anonymous; " (deleted)" removed */
    bool deleted;
    bool has_vm_flags;
    uint32_t known; /* bit 1 << enum mw_counter: that counter is present */
    uint64_t counters[MW_COUNTER_COUNT];
    uint64_t kernel_page_size; /* 0 unknown */
};

/* Mappings in ascending order of address, not overlapping. Names live as long as the list. */
struct mw_mapping_list {
    struct mw_mapping *items;
    size_t count, room;
    char **name_blocks; /* private: storage of the names */
    size_t name_block_count, name_block_room;
    size_t name_used; /* in the last block */
};

static inline uint64_t mw_mapping_size(const struct mw_mapping *map)
{
    return map->end - map->start;
}

static inline bool mw_mapping_knows(const struct mw_mapping *map, enum mw_counter counter)
{
    return map->known >> counter & 1;
}

/* The counter, or 0 when absent: for sums where `known` is checked elsewhere. */
static inline uint64_t mw_mapping_counter(const struct mw_mapping *map, enum mw_counter counter)
{
    return mw_mapping_knows(map, counter) ? map->counters[counter] : 0;
}

/* Not backed by a named file: private anonymous, [heap], [stack], [anon:…]. */
bool mw_mapping_is_anonymous(const struct mw_mapping *map);

/* Bytes of private anonymous pages in this mapping that other processes map, too: those of before
 * a fork that nobody has written to since. Of a private mapping of a file: at most what is both
 * anonymous and dirty. 0 without counters. */
uint64_t mw_mapping_forked_bytes(const struct mw_mapping *map);

/* Length of a mapping's name without the kernel's " (deleted)"; *deleted_out tells if it was there.
 */
size_t mw_mapping_name_trim(const char *name, size_t length, bool *deleted_out);

/* Append a copy of map with its name (length bytes) stored in the list. MW_LIMIT, MW_NOMEM;
 * MW_CORRUPT when it does not come after the last one or is empty. */
enum mw_status mw_mapping_list_add(struct mw_mapping_list *list, const struct mw_mapping *map,
                                   const char *name, size_t name_length) MW_MUST_CHECK;

/* The mapping that contains address, or NULL. O(log n). */
const struct mw_mapping *mw_mapping_find(const struct mw_mapping_list *list, mw_addr address);

/* Index of the first mapping that ends after address (count when none). O(log n). */
size_t mw_mapping_lower_bound(const struct mw_mapping_list *list, mw_addr address);

void mw_mapping_list_deinit(struct mw_mapping_list *list);

#endif
