/* session/refs.h: what an address is, who points to it, and how a root leads there. */
#ifndef MW_SESSION_REFS_H
#define MW_SESSION_REFS_H

#include "graph/paths.h"
#include "session/session.h"

enum { MW_REFS_MAX = 32, MW_REFS_NAME_ROOM = 192 };

enum mw_refs_kind {
    MW_REFS_UNMAPPED,
    MW_REFS_BLOCK,     /* in use */
    MW_REFS_HEAP_FREE, /* an allocator's memory that is no block in use: free, cached, its own */
    MW_REFS_STACK,
    MW_REFS_MODULE,
    MW_REFS_MAPPING, /* anything else */
};

struct mw_refs_block {
    mw_addr address; /* what malloc returned */
    uint64_t size_bytes, usable_bytes;
    uint32_t rank;
};

/* A block that points to the one asked, or a step of the path to it. */
struct mw_refs_step {
    struct mw_refs_block block;
    uint64_t offset; /* of the word that points on, from what malloc returned; MW_UNKNOWN */
};

struct mw_refs_root {
    struct mw_root_place place;
    char name[MW_REFS_NAME_ROOM]; /* "symbol+0x10 (libx.so)", a mapping's name; "" */
};

struct mw_refs {
    mw_addr address;
    enum mw_refs_kind kind;
    struct mw_mapping map; /* that holds it; its name lives as long as the image */
    char name[MW_REFS_NAME_ROOM];
    int32_t tid; /* of a stack */

    /* of a block */
    struct mw_refs_block block;
    char layout[MW_REFS_NAME_ROOM]; /* a known layout that fits it; "" */
    bool is_reachable, is_direct;
    uint64_t retained_count, retained_bytes; /* would be lost with it, it included */
    struct mw_refs_step referrers[MW_REFS_MAX];
    size_t referrer_count;
    uint64_t referrer_total;
    struct mw_refs_root roots[MW_REFS_MAX]; /* that point to it */
    size_t root_count;
    uint64_t root_total;
    struct mw_refs_step *path; /* to it, without it */
    size_t path_count;
    struct mw_refs_root path_root; /* that points to the first step */
    bool has_path_root;
};

/* Of an analysis that was asked for what is reachable. MW_NOMEM, MW_CANCELED. */
enum mw_status mw_refs_find(struct mw_analysis *analysis, mw_addr address,
                            struct mw_context *context, struct mw_refs *refs_out,
                            struct mw_error *err) MW_MUST_CHECK;
void mw_refs_deinit(struct mw_refs *refs);

#endif
