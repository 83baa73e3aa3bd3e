/* bench/bench_walk.c: what a walk costs beside a bare read of the same bytes.
 *
 *     bench_walk SHAPE RUNS
 *
 * SHAPE small: 2,000,003 blocks of 16 to 208 bytes; fastbins: the same, with 119,000 of them on
 * fastbins, whose lists must be followed first; large: 200,003 of 3,000 to 3,800. A child
 * allocates them, frees one in eight, keeps the count and its mallinfo2() and waits. Then, RUNS
 * times in turn, of the stopped child: glibc's walker, and one thread that reads the same resident
 * pages with process_vm_readv into one buffer of a MiB. The same again on a copy of its memory,
 * against memcpy. Prints "key value" lines; exits 1 when the walk's answer is not what the child
 * says. Times are nanoseconds of CPU, ours and the kernel's for us, the least of the runs: other
 * work on the machine matters less. */
#include "heap/glibc/glibc.h"
#include "image/open.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20, PAGE = 4096, PARTS_MAX = 512 };

struct shape {
    const char *name;
    size_t count, size_min, size_span;
    bool keeps_fastbins;
};

static const struct shape shapes[] = {
    {"small", 2000003, 16, 193, false},
    {"fastbins", 2000003, 16, 193, true},
    {"large", 200003, 3000, 801, false},
};

/* What the child knows. */
struct truth {
    uint64_t held_count, thread_pointer;
    struct mallinfo2 info;
};

static void die(const char *what)
{
    fprintf(stderr, "bench_walk: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void child_run(const struct shape *shape, int out, int in)
{
    struct truth truth = {0};
    uint64_t state = 88172645463325252u;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    void **blocks = malloc(shape->count * sizeof *blocks); /* mmapped: one block more */
    if (!blocks)
        _exit(1);
    for (size_t i = 0; i < shape->count; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        size_t size = shape->size_min + state % shape->size_span;
        blocks[i] = malloc(size);
        if (!blocks[i])
            _exit(1);
        memset(blocks[i], (int)(i & 255), size);
    }
    for (size_t i = 0; i < shape->count; i += 8)
        free(blocks[i]);
    void *volatile large = shape->keeps_fastbins ? NULL : malloc(100 << 10); /* merges fastbins */
    free(large);
    truth.held_count = shape->count - (shape->count + 7) / 8 + 1;
    truth.thread_pointer = (uintptr_t)__builtin_thread_pointer();
    truth.info = mallinfo2();
    if (write(out, &truth, sizeof truth) == sizeof truth && read(in, &state, 1) >= 0)
        _exit(0);
    _exit(1);
}

static pid_t child_start(const struct shape *shape, struct truth *truth, int *hold_out)
{
    int up[2], down[2];
    if (pipe(up) != 0 || pipe(down) != 0)
        die("pipe");
    pid_t child = fork();
    if (child < 0)
        die("fork");
    if (child == 0) {
        close(up[0]);
        close(down[1]);
        child_run(shape, up[1], down[0]);
    }
    close(up[1]);
    close(down[0]);
    if (read(up[0], truth, sizeof *truth) != sizeof *truth)
        die("the child");
    close(up[0]);
    *hold_out = down[1];
    return child;
}

static struct mw_allocator walk_once(struct mw_image *image, uint64_t *best_ns)
{
    struct mw_allocator allocator = {0};
    struct mw_error err = {0};
    const struct mw_heap_options options = {.classify_content = true};
    uint64_t started = now_ns();
    enum mw_status status = mw_glibc_walker.walk(image, &options, NULL, &allocator, NULL, &err);
    uint64_t took = now_ns() - started;
    if (status != MW_OK) {
        fprintf(stderr, "bench_walk: %s\n", err.text);
        exit(1);
    }
    if (took < *best_ns)
        *best_ns = took;
    return allocator;
}

/* Every run of resident pages of the walked segments; returns the bytes. */
static uint64_t bare_read(struct mw_image *image, const struct mw_allocator *allocator, pid_t pid,
                          uint8_t *buffer, uint64_t *best_ns)
{
    static uint8_t flags[BUFFER_BYTES / PAGE];
    uint64_t started = now_ns(), bytes = 0;
    for (size_t i = 0; i < allocator->segment_count; i++) {
        const struct mw_heap_segment *segment = &allocator->segments[i];
        for (mw_addr at = segment->start; at < segment->end; at += BUFFER_BYTES) {
            size_t length =
                segment->end - at < BUFFER_BYTES ? (size_t)(segment->end - at) : BUFFER_BYTES;
            if (mw_image_pages(image, at, (length + PAGE - 1) / PAGE, flags, NULL) != MW_OK)
                die("pages");
            while (length > 0 && !(flags[(length - 1) / PAGE] & MW_PAGE_PRESENT))
                length = (length - 1) / PAGE * PAGE; /* the untouched end of top */
            struct iovec local = {buffer, length}, remote = {(void *)(uintptr_t)at, length};
            if (pid == 0)
                bytes += mw_image_read_some(image, at, buffer, length);
            else if (length > 0 &&
                     process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)length)
                bytes += length;
        }
    }
    uint64_t took = now_ns() - started;
    if (took < *best_ns)
        *best_ns = took;
    return bytes;
}

static void check(const char *what, uint64_t got, uint64_t want)
{
    if (got == want)
        return;
    fprintf(stderr, "bench_walk: %s is %llu, the child says %llu\n", what, (unsigned long long)got,
            (unsigned long long)want);
    exit(1);
}

/* mallinfo2 counts cached blocks, heap headers and fences as in use. */
static void answer_check(const struct mw_allocator *got, const struct truth *truth)
{
    check("reconciled", got->reconciled, true);
    check("system bytes", got->system_bytes, truth->info.arena + truth->info.hblkhd);
    check("mmapped blocks", got->mmapped_count, truth->info.hblks);
    check("free bytes", got->free_bytes - got->tcache_bytes, truth->info.fordblks);
    check("bytes in use",
          got->in_use_bytes - got->mmapped_bytes + got->tcache_bytes + got->metadata_bytes,
          truth->info.uordblks);
    if (got->in_use_count < truth->held_count || got->in_use_count > truth->held_count + 16)
        check("blocks in use", got->in_use_count, truth->held_count);
}

/* RUNS walks and bare reads in turn; pid 0: the image is a copy. */
static void measure(const char *kind, struct mw_image *image, pid_t pid, int runs,
                    const struct truth *truth)
{
    uint8_t *buffer = malloc(BUFFER_BYTES);
    uint64_t walk_ns = UINT64_MAX, bare_ns = UINT64_MAX, bytes = 0, blocks = 0;
    if (!buffer)
        die("malloc");
    for (int i = 0; i < runs; i++) {
        struct mw_allocator allocator = walk_once(image, &walk_ns);
        answer_check(&allocator, truth);
        bytes = bare_read(image, &allocator, pid, buffer, &bare_ns);
        blocks = allocator.in_use_count + allocator.free_count;
        mw_allocator_deinit(&allocator);
    }
    printf("%s_walk_ns %llu\n%s_bare_ns %llu\n%s_bytes %llu\n%s_blocks %llu\n", kind,
           (unsigned long long)walk_ns, kind, (unsigned long long)bare_ns, kind,
           (unsigned long long)bytes, kind, (unsigned long long)blocks);
    free(buffer);
}

/* The child's one thread, as its registers would tell; until the image goes. */
static void thread_set(struct mw_image *image, pid_t pid, const struct truth *truth)
{
    if (image->thread_count > 0)
        return;
    image->threads = calloc(1, sizeof *image->threads);
    if (!image->threads)
        die("calloc");
    image->threads[0] =
        (struct mw_thread){.tid = pid, .has_registers = true, .tp = truth->thread_pointer};
    image->thread_count = 1;
}

/* The writable memory of a stopped image as an image of our own. */
static void copy_open(struct mw_image *live, struct mw_image *copy)
{
    struct mw_image_memory_part parts[PARTS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < live->regions.count && count < PARTS_MAX; i++) {
        const struct mw_mapping *map = &live->regions.items[i];
        if (!(map->perms & MW_PERM_READ) || map->start >> 63 || map->vm_flags & MW_VM_IO)
            continue;
        bool wanted = (map->perms & MW_PERM_WRITE) != 0;
        uint64_t size = mw_mapping_size(map);
        uint8_t *bytes = wanted ? calloc(1, size) : NULL, *pages = calloc(1, size / PAGE);
        if (!pages || (wanted && !bytes))
            die("calloc");
        if (mw_image_pages(live, map->start, size / PAGE, pages, NULL) != MW_OK)
            die("pages");
        if (wanted)
            mw_image_read_present(live, map->start, bytes, size);
        parts[count++] = (struct mw_image_memory_part){*map, bytes, pages};
    }
    if (mw_image_open_memory(parts, count, copy, NULL) != MW_OK)
        die("copy");
}

int main(int argc, char **argv)
{
    const struct shape *shape = NULL;
    for (size_t i = 0; argc == 3 && i < sizeof shapes / sizeof *shapes; i++)
        if (strcmp(argv[1], shapes[i].name) == 0)
            shape = &shapes[i];
    int runs = argc == 3 ? (int)strtol(argv[2], NULL, 10) : 0;
    if (!shape || runs < 1) {
        fprintf(stderr, "usage: bench_walk small|fastbins|large RUNS\n");
        return 2;
    }
    struct truth truth;
    int hold;
    pid_t child = child_start(shape, &truth, &hold);
    struct mw_context context;
    mw_context_init(&context);
    const struct mw_image_open_options options = {.proc_dir_fd = AT_FDCWD, .need_read = true};
    struct mw_image live, copy;
    struct mw_error err = {0};
    if (mw_image_open_live(child, &options, &context, &live, &err) != MW_OK ||
        mw_image_stop(&live, &err) != MW_OK) {
        fprintf(stderr, "bench_walk: %s\n", err.text);
        return 1;
    }
    thread_set(&live, child, &truth);
    measure("live", &live, child, runs, &truth);
    copy_open(&live, &copy);
    thread_set(&copy, child, &truth);
    mw_image_resume(&live);
    mw_image_close(&live);
    measure("copy", &copy, 0, runs, &truth);
    mw_image_close(&copy); /* its bytes go with the program */
    close(hold);
    return waitpid(child, NULL, 0) == child ? 0 : 1;
}
