/* account/claiming.h: what the rules of kernel-level claims share. Inside the account only.
 *
 * The rules run one after the other over the same mappings, the certain ones first. What a rule
 * has decided is left alone by those after it: `decided_to` of a mapping is the end of its decided
 * part (its start: nothing yet, its end: all of it). */
#ifndef MW_ACCOUNT_CLAIMING_H
#define MW_ACCOUNT_CLAIMING_H

#include "account/account.h"

struct mw_claiming {
    struct mw_image *image;
    struct mw_claims *claims;
    struct mw_findings *findings;
    const struct mw_mapping *maps; /* of the image's regions */
    size_t map_count;
    mw_addr *decided_to;   /* one per mapping */
    bool *is_file_of_code; /* one per mapping: its file is also mapped executable */
};

/* [decided_to, to) of mapping i belongs to category; the mapping is decided up to there. A no-op
 * when nothing is left. */
enum mw_status mw_claiming_take(struct mw_claiming *claiming, size_t i, mw_addr to,
                                enum mw_category category, enum mw_claim_priority priority,
                                const char *owner) MW_MUST_CHECK;

/* All of what is left of mapping i. */
static inline enum mw_status mw_claiming_take_rest(struct mw_claiming *claiming, size_t i,
                                                   enum mw_category category,
                                                   enum mw_claim_priority priority,
                                                   const char *owner)
{
    return mw_claiming_take(claiming, i, claiming->maps[i].end, category, priority, owner);
}

static inline bool mw_claiming_is_open(const struct mw_claiming *claiming, size_t i)
{
    return claiming->decided_to[i] < claiming->maps[i].end;
}

/* Private, anonymous, readable and writable. */
static inline bool mw_mapping_is_plain(const struct mw_mapping *map)
{
    return (map->perms & (MW_PERM_READ | MW_PERM_WRITE | MW_PERM_SHARED)) ==
               (MW_PERM_READ | MW_PERM_WRITE) &&
           mw_mapping_is_anonymous(map);
}

/* Private, anonymous, not accessible at all: a guard or a reserve. */
static inline bool mw_mapping_is_barrier(const struct mw_mapping *map)
{
    return map->perms == 0 && mw_mapping_is_anonymous(map);
}

/* names.c: what the kernel's or the program's own name of a mapping says. */
enum mw_status mw_claiming_names(struct mw_claiming *claiming) MW_MUST_CHECK;
/* files.c: code, data, .bss, mapped files, shared memory, devices. */
enum mw_status mw_claiming_files(struct mw_claiming *claiming) MW_MUST_CHECK;
/* stacks.c: stacks of threads. */
enum mw_status mw_claiming_stacks(struct mw_claiming *claiming) MW_MUST_CHECK;
/* loader.c: what the dynamic loader mapped for itself and for the main thread's TLS. */
enum mw_status mw_claiming_loader(struct mw_claiming *claiming) MW_MUST_CHECK;
/* shapes.c: arenas of glibc by their shape, inaccessible reserves. */
enum mw_status mw_claiming_shapes(struct mw_claiming *claiming) MW_MUST_CHECK;
/* alias.c: pages that are mapped shared more than once. */
enum mw_status mw_claiming_aliases(struct mw_claiming *claiming) MW_MUST_CHECK;

#endif
