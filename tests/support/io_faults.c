/* tests/support/io_faults.c: see io_faults.h. The linker takes these instead of the C library's
 * (and of the sanitizers', which are weak); the kernel is called directly. */
#include "io_faults.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static struct {
    enum io_fault fault;
    bool is_armed, happened;
    long left, calls;
    void (*hook)(void);
} armed;

void io_faults_arm(enum io_fault fault, long n, void (*hook)(void))
{
    armed.fault = fault;
    armed.left = n;
    armed.calls = 0;
    armed.hook = hook;
    armed.happened = false;
    armed.is_armed = true;
}

long io_faults_disarm(bool *happened_out)
{
    armed.is_armed = false;
    if (happened_out)
        *happened_out = armed.happened;
    return armed.calls;
}

/* Counts a call; the fault that it gets. */
static enum io_fault next_fault(void)
{
    if (!armed.is_armed)
        return IO_FAULT_NONE;
    armed.calls++;
    if (armed.fault == IO_FAULT_NONE || armed.left-- > 0)
        return IO_FAULT_NONE;
    if (armed.happened && armed.fault != IO_FAULT_ALL)
        return IO_FAULT_NONE;
    armed.happened = true;
    if (armed.fault == IO_FAULT_HOOK)
        armed.hook();
    return armed.fault;
}

static ssize_t refuse(int error)
{
    errno = error;
    return -1;
}

static ssize_t halve(ssize_t got)
{
    return got > 1 ? got / 2 : got;
}

ssize_t read(int fd, void *buffer, size_t length)
{
    enum io_fault fault = next_fault();
    if (fault == IO_FAULT_ERROR || fault == IO_FAULT_ALL)
        return refuse(EIO);
    ssize_t got = syscall(SYS_read, fd, buffer, length);
    return fault == IO_FAULT_SHORT ? halve(got) : got;
}

/* A file gives all that it has when it is asked again, so a short one ends here for good. */
ssize_t pread(int fd, void *buffer, size_t length, off_t offset)
{
    static int cut_fd = -1;
    static off_t cut_at;
    enum io_fault fault = next_fault();
    if (fault == IO_FAULT_ERROR || fault == IO_FAULT_ALL)
        return refuse(EIO);
    if (armed.is_armed && armed.happened && armed.fault == IO_FAULT_SHORT && fd == cut_fd &&
        offset == cut_at)
        return 0;
    ssize_t got = syscall(SYS_pread64, fd, buffer, length, offset);
    if (fault != IO_FAULT_SHORT)
        return got;
    got = halve(got);
    cut_fd = fd;
    cut_at = offset + (got > 0 ? got : 0);
    return got;
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *ours, unsigned long our_count,
                         const struct iovec *theirs, unsigned long their_count, unsigned long flags)
{
    enum io_fault fault = next_fault();
    if (fault == IO_FAULT_ERROR || fault == IO_FAULT_ALL)
        return refuse(EFAULT);
    if (fault == IO_FAULT_SHORT && our_count == 1 && ours->iov_len > 1) {
        const struct iovec half = {ours->iov_base, ours->iov_len / 2};
        return syscall(SYS_process_vm_readv, pid, &half, 1, theirs, their_count, flags);
    }
    return syscall(SYS_process_vm_readv, pid, ours, our_count, theirs, their_count, flags);
}

off_t lseek(int fd, off_t offset, int whence)
{
    bool asks_for_holes = whence == SEEK_DATA || whence == SEEK_HOLE;
    enum io_fault fault = asks_for_holes ? next_fault() : IO_FAULT_NONE;
    if (fault == IO_FAULT_ERROR || fault == IO_FAULT_ALL)
        return refuse(EIO);
    return syscall(SYS_lseek, fd, offset, whence);
}

int ioctl(int fd, unsigned long request, ...)
{
    va_list ap;
    va_start(ap, request);
    void *argument = va_arg(ap, void *);
    va_end(ap);
    enum io_fault fault = next_fault();
    if (fault != IO_FAULT_NONE && fault != IO_FAULT_HOOK)
        return (int)refuse(EIO);
    return (int)syscall(SYS_ioctl, fd, request, argument);
}
