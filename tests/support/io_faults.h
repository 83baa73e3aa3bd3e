/* tests/support/io_faults.h: makes the n-th system call by which memwhy reads go wrong.
 *
 * A test program that uses this has read, pread, process_vm_readv, lseek for data and holes, and
 * ioctl (PAGEMAP_SCAN) of its own, which do what the C library's do until armed. So whatever file
 * or process a byte comes from, below every layer of memwhy, its reading can fail. One thread. */
#ifndef MW_TESTS_IO_FAULTS_H
#define MW_TESTS_IO_FAULTS_H

#include <stdbool.h>

enum io_fault {
    IO_FAULT_NONE,
    IO_FAULT_ERROR, /* EIO */
    IO_FAULT_SHORT, /* half of the bytes that were there */
    IO_FAULT_ALL,   /* EIO, and so all that follow */
    IO_FAULT_HOOK,  /* hook() is called first; then it goes its way */
};

/* Let n calls go well, then bring the fault. */
void io_faults_arm(enum io_fault fault, long n, void (*hook)(void));

/* Back to normal. The number of calls since it was armed; *happened_out: there was a fault. */
long io_faults_disarm(bool *happened_out);

#endif
