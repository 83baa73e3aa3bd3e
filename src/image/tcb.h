/* image/tcb.h: what a thread keeps about itself at the upper end of its stack.
 *
 * On x86-64 both glibc (tcbhead_t: tcb at 0, self at 16) and musl (struct pthread: self at 0) keep
 * a pointer to itself in the thread control block, and both keep where the stack lies and how large
 * it is in two words behind each other (glibc: stackblock, stackblock_size; musl: map_base,
 * map_size). References: glibc nptl/descr.h 2.17 to 2.42, musl src/internal/pthread_impl.h 1.2.5.
 */
#ifndef MW_IMAGE_TCB_H
#define MW_IMAGE_TCB_H

#include "image/image.h"

/* The thread control block in the bytes read from address (8-byte aligned): the first, or 0.
 * x86-64. */
mw_addr mw_tcb_find(const uint8_t *bytes, size_t size, mw_addr address);

/* The memory that libc mapped as the stack of the thread whose thread pointer is tp: [*start_out,
 * *end_out) holds tp. False when its control block tells none, as the main thread's. One read. */
bool mw_tcb_stack(struct mw_image *image, mw_addr tp, mw_addr *start_out, mw_addr *end_out);

#endif
