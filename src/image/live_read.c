/* image/live_read.c: the memory contents of a live process.
 *
 * Two ways lead there. process_vm_readv(2) copies straight from the target's pages into ours, in
 * steps of a MiB; it checks the permission each time and names the target by its number.
 * /proc/PID/mem costs a copy more, but its permission is checked once, when it is opened, and it
 * stays with the address space it was opened for. Whichever the machine permits is used: seccomp
 * filters forbid the first one in containers, hardened kernels the second. A short answer of the
 * first is completed by the second, so that a hole is found to the byte.
 *
 * A page that cannot be read ends the read; nothing is guessed. A number that is used again by
 * another process is noticed by the next look at smaps or pagemap, which stay with the first.
 *
 * References: Linux 6.18 mm/process_vm_access.c, fs/proc/base.c; ptrace(2) "Ptrace access mode
 * checking". */
#include "image/live.h"

#include "base/alloc.h"
#include "base/io.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

enum { STEP_BYTES = 4 << 20, SMALL_READ_BYTES = 16 << 10 };

static size_t read_vm(const struct mw_live *live, mw_addr address, uint8_t *buffer, size_t length)
{
    size_t done = 0;
    while (done < length) {
        size_t step = length - done < STEP_BYTES ? length - done : STEP_BYTES;
        struct iovec local = {buffer + done, step};
        struct iovec remote = {(void *)(uintptr_t)(address + done), step}; /* not dereferenced */
        ssize_t got = process_vm_readv(live->memory_tid, &local, 1, &remote, 1, 0);
        if (got <= 0)
            break;
        done += (size_t)got;
        if ((size_t)got < step)
            break;
    }
    return done;
}

static size_t read_mem(const struct mw_live *live, mw_addr address, uint8_t *buffer, size_t length)
{
    if (live->mem_fd < 0)
        return 0;
    ssize_t got = mw_io_pread_full(live->mem_fd, buffer, length, address);
    return got > 0 ? (size_t)got : 0;
}

void mw_live_read(struct mw_image *image, mw_addr address, void *buffer, size_t length,
                  size_t *got_out)
{
    struct mw_live *live = mw_live_of(image);
    size_t done = 0;
    if (live->vm_readv_works && (length > SMALL_READ_BYTES || live->mem_fd < 0))
        done = read_vm(live, address, buffer, length);
    if (done < length)
        done += read_mem(live, address + done, (uint8_t *)buffer + done, length - done);
    assert(done <= length);
    *got_out = done;
}

/* A readable mapping of the program or a library to try a read on, or NULL. */
static const struct mw_mapping *probe_mapping(const struct mw_image *image)
{
    const struct mw_mapping *any = NULL;
    for (size_t i = 0; i < image->regions.count; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        if (!(map->perms & MW_PERM_READ) || map->start >> 63 ||
            map->vm_flags & (MW_VM_IO | MW_VM_PFNMAP))
            continue;
        if (map->perms & MW_PERM_EXEC)
            return map;
        if (!any)
            any = map;
    }
    return any;
}

void mw_live_read_probe(struct mw_image *image)
{
    struct mw_live *live = mw_live_of(image);
    const struct mw_mapping *map = probe_mapping(image);
    live->mem_fd = openat(live->memory_fd, "mem", O_RDONLY | O_CLOEXEC);
    int mem_errno = live->mem_fd < 0 ? errno : 0;
    uint8_t byte;
    if (map && live->mem_fd >= 0 && read_mem(live, map->start, &byte, 1) != 1) {
        close(live->mem_fd);
        live->mem_fd = -1;
        mem_errno = EACCES;
    }
    live->vm_readv_works = map && live->pid_is_ours && read_vm(live, map->start, &byte, 1) == 1;
    if (live->mem_fd >= 0 || live->vm_readv_works) {
        image->can |= MW_CAN_READ;
        return;
    }
    mw_fail_errno(&image->cannot_read, mem_errno, "cannot read the memory of process %d",
                  live->pid);
    mw_live_hint_denied(live, &image->cannot_read);
}
