/* base/limits.h: every bound that keeps hostile or huge input from growing us. One place, so that
 * a reader can see what memwhy will do at most. */
#ifndef MW_BASE_LIMITS_H
#define MW_BASE_LIMITS_H

#include <stddef.h>
#include <stdint.h>

/* A text of /proc or a pasted one (smaps of 1,000,000 mappings is about 700 MB: refused). */
#define MW_LIMIT_PROC_TEXT_BYTES ((size_t)256 << 20)
#define MW_LIMIT_MAPPINGS ((size_t)1 << 20)  /* vm.max_map_count is 65,530 by default */
#define MW_LIMIT_NAME_BYTES ((size_t)4096)   /* a path or a mapping's name */
#define MW_LIMIT_THREADS ((size_t)1 << 18)   /* threads-max of a large machine */
#define MW_LIMIT_PROCESSES ((size_t)1 << 18) /* rows of the process list */
#define MW_LIMIT_ELF_SEGMENTS ((size_t)1 << 20)
#define MW_LIMIT_ELF_NOTE_BYTES ((size_t)256 << 20)
#define MW_LIMIT_CORE_BYTES ((uint64_t)1 << 40) /* of an unpacked core */
#define MW_LIMIT_ELF_SYMBOLS ((size_t)1 << 22)
#define MW_LIMIT_SYMBOL_NAME_BYTES ((size_t)512 << 20) /* names of one module's symbols */
/* A program, a library, a debug file; and all its sections unpacked. */
#define MW_LIMIT_SYMBOL_FILE_BYTES ((uint64_t)4 << 30)
#define MW_LIMIT_MINI_DEBUG_BYTES ((size_t)64 << 20)    /* .gnu_debugdata, unpacked */
#define MW_LIMIT_MEMORY_MODULE_BYTES ((size_t)64 << 20) /* one that is in no file */
#define MW_LIMIT_PERF_MAP_BYTES ((size_t)64 << 20)
#define MW_LIMIT_FRAMES ((size_t)256)             /* of one stack */
#define MW_LIMIT_STACK_BYTES ((size_t)256 << 10)  /* copied of one thread's stack */
#define MW_LIMIT_STACKS_BYTES ((size_t)256 << 20) /* of all threads' */
#define MW_LIMIT_MODULES ((size_t)1 << 16)
#define MW_LIMIT_ARENAS ((size_t)1 << 16) /* 8 × 4096 CPUs, doubled */
#define MW_LIMIT_HEAP_SEGMENTS ((size_t)1 << 20)
#define MW_LIMIT_CLAIMS ((size_t)1 << 22)      /* owners of ranges: mappings, segments, page runs */
#define MW_LIMIT_ALIAS_PAGES ((size_t)1 << 28) /* pages mapped twice that are told apart: 1 TiB */
#define MW_LIMIT_FINDINGS ((size_t)256)        /* kinds kept; more are counted, not kept */
#define MW_LIMIT_JSON_BUFFER ((size_t)128 << 10)
#define MW_LIMIT_ENV_BYTES ((size_t)4 << 20)

#endif
