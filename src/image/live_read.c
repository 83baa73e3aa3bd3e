/* image/live_read.c: the memory contents of a live process.
 *
 * Two ways lead there. process_vm_readv(2) copies straight from the target's pages into ours, in
 * steps of a MiB; it checks the permission each time and names the target by its number.
 * /proc/PID/mem costs a copy more, but its permission is checked once, when it is opened, and it
 * stays with the address space it was opened for. Whichever the machine permits is used: seccomp
 * filters forbid the first one in containers, hardened kernels the second. A short answer of the
 * first is completed by the second, so that a hole is found to the byte.
 *
 * Memory that forked processes share is read through /proc/PID/mem where that can be had: since
 * Linux 5.19 the first way gives the target a copy of its own of each such page that it pins
 * (FAULT_FLAG_UNSHARE), so that looking at a worker would cost as much memory as it shares.
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

static size_t read_vm(const struct mw_live_source *source, mw_addr address, uint8_t *buffer,
                      size_t length)
{
    size_t done = 0;
    while (done < length) {
        size_t step = length - done < STEP_BYTES ? length - done : STEP_BYTES;
        struct iovec local = {buffer + done, step};
        struct iovec remote = {(void *)(uintptr_t)(address + done), step}; /* not dereferenced */
        ssize_t got = process_vm_readv(source->tid, &local, 1, &remote, 1, 0);
        if (got <= 0)
            break;
        done += (size_t)got;
        if ((size_t)got < step)
            break;
    }
    return done;
}

static size_t read_mem(const struct mw_live_source *source, mw_addr address, uint8_t *buffer,
                       size_t length)
{
    if (source->mem_fd < 0)
        return 0;
    ssize_t got = mw_io_pread_full(source->mem_fd, buffer, length, address);
    return got > 0 ? (size_t)got : 0;
}

static bool region_is_forked(const struct mw_mapping *map)
{
    return mw_mapping_forked_bytes(map) > 0 || map->vm_flags & MW_VM_FORKED;
}

/* Does a fork share pages there? Of what lies between the ends nothing is asked: reads stay in a
 * mapping, mostly. */
static bool is_forked(const struct mw_image *image, mw_addr address, size_t length)
{
    const struct mw_mapping *first = mw_image_region(image, address);
    const struct mw_mapping *last = mw_image_region(image, address + length - 1);
    return (first && region_is_forked(first)) || (last && last != first && region_is_forked(last));
}

size_t mw_live_source_read(const struct mw_live_source *source, bool is_shared, mw_addr address,
                           void *buffer, size_t length)
{
    size_t done = 0;
    if (source->vm_readv_works && (source->mem_fd < 0 || (length > SMALL_READ_BYTES && !is_shared)))
        done = read_vm(source, address, buffer, length);
    if (done < length)
        done += read_mem(source, address + done, (uint8_t *)buffer + done, length - done);
    assert(done <= length);
    return done;
}

static const struct mw_mapping *probe_mapping(const struct mw_image *image);

/* Not one byte could be read at address: is it that place, or the process? One that has exited, or
 * runs another program now, gives nothing anywhere; then nothing is tried any more. */
static void check_lost(struct mw_image *image, mw_addr address)
{
    struct mw_live *live = mw_live_of(image);
    const struct mw_mapping *map = mw_image_region(image, address), *good = probe_mapping(image);
    uint8_t byte;
    if (!map || !good || !(map->perms & MW_PERM_READ) ||
        read_mem(&live->source, good->start, &byte, 1) ||
        (live->source.vm_readv_works && read_vm(&live->source, good->start, &byte, 1)))
        return;
    if (atomic_flag_test_and_set(&live->is_lost)) /* several threads read */
        return;
    (void)mw_fail(&image->cannot_read, MW_GONE,
                  mw_live_is_gone(live) ? "process %d has exited while it was read"
                                        : "the memory of process %d can no longer be read",
                  live->pid);
    __atomic_fetch_and(&image->can, ~(unsigned)MW_CAN_READ, __ATOMIC_RELEASE);
}

void mw_live_read(struct mw_image *image, mw_addr address, void *buffer, size_t length,
                  size_t *got_out)
{
    struct mw_live *live = mw_live_of(image);
    if (live->snapshot) {
        *got_out = mw_live_snapshot_read(live, address, buffer, length);
        return;
    }
    bool is_shared = length > SMALL_READ_BYTES && is_forked(image, address, length);
    *got_out = mw_live_source_read(&live->source, is_shared, address, buffer, length);
    if (*got_out == 0)
        check_lost(image, address);
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
    struct mw_live_source *source = &live->source;
    const struct mw_mapping *map = probe_mapping(image);
    source->mem_fd = openat(live->memory_fd, "mem", O_RDONLY | O_CLOEXEC);
    int mem_errno = source->mem_fd < 0 ? errno : 0;
    uint8_t byte;
    if (map && source->mem_fd >= 0 && read_mem(source, map->start, &byte, 1) != 1) {
        close(source->mem_fd);
        source->mem_fd = -1;
        mem_errno = EACCES;
    }
    source->vm_readv_works = map && live->pid_is_ours && read_vm(source, map->start, &byte, 1) == 1;
    if (source->mem_fd >= 0 || source->vm_readv_works) {
        image->can |= MW_CAN_READ;
        return;
    }
    mw_fail_errno(&image->cannot_read, mem_errno, "cannot read the memory of process %d",
                  live->pid);
    mw_live_hint_denied(live, &image->cannot_read);
}
