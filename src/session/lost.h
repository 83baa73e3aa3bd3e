/* session/lost.h: what the blocks are that nothing points to. */
#ifndef MW_SESSION_LOST_H
#define MW_SESSION_LOST_H

#include "graph/groups.h"
#include "graph/holder.h"
#include "session/suppress.h"
#include "verdict/verdict.h"

/* So many groups are named, and more where suppressions are to be told by their names. */
enum { MW_LOST_NAMED_MAX = 64, MW_LOST_COMPARED_MAX = 4096, MW_LOST_NAME_ROOM = 192 };

/* What is known of a group by name; texts are the target's, to be escaped when they are printed. */
struct mw_lost_name {
    char layout[MW_LOST_NAME_ROOM]; /* a known layout; "" when none fits */
    char type[MW_LOST_NAME_ROOM];   /* what the first word points to: "libx.so+0x1c70"; "" */
    char caller[MW_LOST_NAME_ROOM]; /* a return address that all have, and its call; "" */
    char words[MW_LOST_NAME_ROOM];  /* constant words: "+0x8 0x2a, +0x10 f (libx.so)"; "" */
};

struct mw_lost {
    struct mw_lost_groups groups; /* but for those that are suppressed */
    struct mw_lost_name *names;   /* of the first name_count groups */
    size_t name_count;
    uint64_t suppressed_kinds, suppressed_count, suppressed_bytes;
    struct mw_holder holder; /* of the size of block that holds the most */
    char holder_type[MW_LOST_NAME_ROOM], holder_root[MW_LOST_NAME_ROOM];
};

struct mw_lost_wish {
    uint64_t size_bytes; /* find what holds the blocks of this size, which stands out; 0: none */
    const struct mw_suppressions *suppressions; /* leave out these groups; NULL: none */
};

/* Group the lost blocks of reach and name the largest groups. Reads memory and symbols; of a live
 * target while it runs. MW_NOMEM, MW_CANCELED. */
enum mw_status mw_lost_describe(const struct mw_reach *reach, struct mw_image *image,
                                const struct mw_allocator *allocators, size_t allocator_count,
                                const struct mw_lost_wish *wish, struct mw_context *context,
                                struct mw_lost *lost_out, struct mw_error *err) MW_MUST_CHECK;
void mw_lost_deinit(struct mw_lost *lost);

/* The same for the rules; kinds is room for MW_LEAK_KINDS. Texts live as long as lost. */
enum { MW_LEAK_KINDS = 4 };
struct mw_leak_evidence mw_lost_evidence(const struct mw_reach *reach, const struct mw_lost *lost,
                                         struct mw_leak_kind kinds[MW_LEAK_KINDS]);
struct mw_holder_evidence mw_lost_holder(const struct mw_lost *lost);

/* The best of a group's names: layout, else type, else constant words; "" when there is none. index
 * is its place in groups. */
const char *mw_lost_signature(const struct mw_lost *lost, size_t index);

#endif
