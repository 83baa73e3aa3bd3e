/* graph/roots.h: where a program's pointers begin: memory that is no block of an allocator, and the
 * registers of its threads.
 *
 * Roots are writable memory and what a module made read-only after relocating it, from which is cut
 * out: the segments of walked allocators (their blocks are reached, their own structs are no
 * roots: an arena's `top` points into the last block's usable end), glibc's main arena, and of
 * stacks what lies more than 128 bytes (the red zone) below the stack pointer, as far as libc's own
 * record tells where the stack ends. Machine code made at run time is a root, writable or not, and
 * read at every byte: an operand lies wherever its instruction does, and it may be all that holds a
 * block (HotSpot's CompiledICHolder). Stacks of threads that have ended are no roots either; their
 * thread-local storage and control block are, since a result may wait there to be joined. */
#ifndef MW_GRAPH_ROOTS_H
#define MW_GRAPH_ROOTS_H

#include "base/context.h"
#include "graph/index.h"
#include "heap/walker.h"

enum mw_root_kind {
    MW_ROOT_REGISTERS,
    MW_ROOT_STACK,
    MW_ROOT_DATA,      /* of a module */
    MW_ROOT_ANONYMOUS, /* no allocator's that is walked */
    MW_ROOT_CODE,      /* made at run time; it may hold pointers at any byte */
    MW_ROOT_SHARED,
    MW_ROOT_UNPARSED, /* inside of an allocator's segment, and no block */
    MW_ROOT_KIND_COUNT,
};

/* "register", "stack", … */
const char *mw_root_kind_name(enum mw_root_kind kind);

struct mw_root_range {
    mw_addr start, end;
    enum mw_root_kind kind;
    int32_t tid; /* of a stack; 0: not known */
};

struct mw_root_word {
    uint64_t word;
    int32_t tid;
};

struct mw_roots {
    MW_VEC(struct mw_root_range) ranges; /* ascending, disjoint but for unparsed ones */
    MW_VEC(struct mw_root_word) words;   /* of registers */
    uint64_t left_out_bytes;             /* memory that may hold pointers and is not looked at */
    uint64_t stale_bytes;                /* of stacks, below the stack pointers: cut out */
    size_t ended_threads;                /* whose stacks are kept by libc */
    size_t blind_threads;                /* without registers: all of their stacks are roots */
};

/* allocators: those of the image, walked or not, with their segments ascending. Reads control
 * blocks of threads. MW_NOMEM. */
enum mw_status mw_roots_collect(struct mw_image *image, const struct mw_allocator *allocators,
                                size_t allocator_count, const struct mw_index *index,
                                struct mw_roots *roots_out) MW_MUST_CHECK;
void mw_roots_deinit(struct mw_roots *roots);

#endif
