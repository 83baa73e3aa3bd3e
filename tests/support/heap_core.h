/* tests/support/heap_core.h: one small glibc heap with a bit of everything, as an image of memory
 * and as a core file, for tests that break one or the other. */
#ifndef MW_TESTS_HEAP_CORE_H
#define MW_TESTS_HEAP_CORE_H

#include "heap_builder.h"

enum heap_core_shape {
    HEAP_CORE_THREADS, /* threads are known, caches of theirs */
    HEAP_CORE_NO_THREADS,
    HEAP_CORE_FOREIGN,  /* a foreign sbrk in [heap] */
    HEAP_CORE_MORECORE, /* brk was blocked: a piece of the main heap elsewhere */
    HEAP_CORE_SHAPES
};

/* Main heap, one thread arena of two heaps, one more, three mmapped blocks: half a MiB. */
struct heap_builder *heap_core_build(const struct heap_family *family, enum heap_core_shape shape);

/* As heap_open(), with the counters that smaps would have for these pages. */
void heap_core_open(struct heap_builder *heap, struct mw_image *image_out);

/* The same memory as a core of the kernel's: notes, program headers, every page. Allocated. */
uint8_t *heap_core_file(const struct heap_builder *heap, size_t *length_out);

/* Every other page of zeros of fd becomes a hole, so that holes tell what is resident. */
void heap_core_punch(int fd, const uint8_t *bytes, size_t length);

#endif
