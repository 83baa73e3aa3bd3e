/* tests/fuzz/fuzz_proc.c: any texts as the files of /proc/PID and of its cgroup.
 *
 * Input: the files one after the other, each behind a byte 0xff and a byte that names it
 * (index into `files`); what comes before the first 0xff is its status. They are put into a tree
 * that stands for /proc and /sys/fs/cgroup, and a live image is opened on it. What must hold:
 * numbers of memory are unknown or whole KiB; texts are terminated and hold no control character;
 * settings come from the environment and are ones that we ask for; mappings ascend; an error has
 * its text; a limit of a cgroup is one of the numbers that are there. */
#include "base/io.h"
#include "base/limits.h"
#include "image/open.h"
#include "proc/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const files[] = {
    "proc/4711/status",
    "proc/4711/stat",
    "proc/4711/cmdline",
    "proc/4711/environ",
    "proc/4711/limits",
    "proc/4711/cgroup",
    "proc/4711/smaps",
    "proc/4711/maps",
    "proc/4711/auxv",
    "proc/4711/exe",
    "proc/4711/mem",
    "proc/4711/pagemap",
    "proc/self/cgroup",
    "proc/sys/vm/max_map_count",
    "sys/devices/system/cpu/online",
    "cgroup/cgroup.controllers",
    "cgroup/memory.max",
    "cgroup/memory.current",
    "cgroup/memory.stat",
    "cgroup/memory.events",
    "cgroup/cpu.max",
    "cgroup/a/memory.max",
    "cgroup/a/memory.current",
    "cgroup/a/memory.stat",
    "cgroup/memory/memory.limit_in_bytes",
    "cgroup/memory/memory.stat",
    "cgroup/memory/memory.usage_in_bytes",
    "cgroup/cgroup.procs",
};
enum { FILES = sizeof files / sizeof *files, PID = 4711, INPUT_MAX = 1 << 18 };

static char root[64];

static void must(int good)
{
    if (!good)
        abort();
}

static void tree_remove(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    if (root[0] && system(command) != 0)
        perror(root);
}

/* Folders once; they go away at the end. */
static int tree_fd(void)
{
    static int fd = -1;
    if (fd >= 0)
        return fd;
    snprintf(root, sizeof root, "/dev/shm/fuzz-proc-XXXXXX");
    must(mkdtemp(root) != NULL);
    atexit(tree_remove);
    fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(fd >= 0);
    for (size_t i = 0; i < FILES; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s", files[i]);
        for (char *slash = path; (slash = strchr(slash, '/')); *slash++ = '/') {
            *slash = '\0';
            must(mkdirat(fd, path, 0700) == 0 || errno == EEXIST);
        }
    }
    return fd;
}

static void file_put(int tree, size_t index, const uint8_t *bytes, size_t size)
{
    int fd = openat(tree, files[index], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0 && mw_io_write_full(fd, bytes, size) == 0);
    close(fd);
}

/* The tree of an input; kept are the environment's bytes. */
static void tree_fill(int tree, const uint8_t *bytes, size_t size, const uint8_t **environ_out,
                      size_t *environ_size_out)
{
    static bool is_there[FILES];
    bool is_put[FILES] = {false};
    size_t file = 0;
    *environ_size_out = 0;
    for (size_t at = 0; at <= size;) {
        const uint8_t *mark = memchr(bytes + at, 0xff, size - at);
        size_t end = mark ? (size_t)(mark - bytes) : size;
        if (!is_put[file]) {
            file_put(tree, file, bytes + at, end - at);
            is_put[file] = is_there[file] = true;
            if (strcmp(files[file], "proc/4711/environ") == 0) {
                *environ_out = bytes + at;
                *environ_size_out = end - at;
            }
        }
        if (!mark || end + 1 >= size)
            break;
        file = bytes[end + 1] % FILES;
        at = end + 2;
    }
    for (size_t i = 0; i < FILES; i++)
        if (is_there[i] && !is_put[i]) {
            unlinkat(tree, files[i], 0);
            is_there[i] = false;
        }
}

static void check_text(const char *text, size_t max)
{
    if (!text)
        return;
    must(strlen(text) <= max);
    for (; *text; text++)
        must((unsigned char)*text >= 0x20 && *text != 0x7f);
}

static void check_process(const struct mw_process *process, const uint8_t *environ_bytes,
                          size_t environ_size)
{
    const uint64_t sizes[] = {
        process->vm_size,  process->vm_peak,   process->vm_rss,  process->vm_hwm, process->rss_anon,
        process->rss_file, process->rss_shmem, process->vm_swap, process->vm_lck, process->vm_pin,
        process->vm_pte,   process->vm_data,   process->hugetlb,
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        must(sizes[i] == MW_UNKNOWN || sizes[i] % 1024 == 0);
    check_text(process->comm, sizeof process->comm - 1);
    check_text(process->command, MW_LIMIT_NAME_BYTES * 4);
    for (size_t i = 0; i < process->setting_count; i++) {
        const struct mw_setting *setting = &process->settings[i];
        check_text(setting->name, MW_LIMIT_NAME_BYTES);
        check_text(setting->value, MW_LIMIT_ENV_BYTES);
        must(memmem(environ_bytes, environ_size, setting->name, strlen(setting->name)) != NULL);
        must(mw_process_setting(process, setting->name) != NULL);
    }
}

static void check_cgroup(int tree, const char *path)
{
    struct mw_cgroup cgroup;
    int proc = openat(tree, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(proc >= 0);
    must(mw_cgroup_load(proc, PID, path, &cgroup, NULL) == MW_OK);
    close(proc);
    must(cgroup.version >= 0 && cgroup.version <= 2);
    must(strlen(cgroup.path) < sizeof cgroup.path);
    must(!(cgroup.cpu_quota != cgroup.cpu_quota));
    if (cgroup.version == 0)
        must(cgroup.limit == MW_UNKNOWN && cgroup.usage == MW_UNKNOWN);
}

static void check_image(struct mw_image *image)
{
    mw_addr last = 0;
    uint8_t flags[8], bytes[64];
    for (size_t i = 0; i < image->regions.count; i++) {
        const struct mw_mapping *map = &image->regions.items[i];
        must(map->start >= last && map->start < map->end);
        must(strlen(map->name) <= MW_LIMIT_NAME_BYTES);
        last = map->end;
        if (i < 4) {
            must(mw_image_read_some(image, map->start, bytes, sizeof bytes) <= sizeof bytes);
            mw_addr page = map->start & ~((mw_addr)image->page_size - 1);
            if (mw_image_pages(image, page, 4, flags, NULL) == MW_OK)
                must((flags[0] & ~63) == 0);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const uint8_t *environ_bytes = bytes;
    size_t environ_size;
    char cgroups[96];
    if (size > INPUT_MAX)
        return -1;
    int tree = tree_fd();
    tree_fill(tree, bytes, size, &environ_bytes, &environ_size);
    const struct mw_image_open_options options = {.sysroot = root, .need_read = true};
    struct mw_image image;
    struct mw_error err = {0};
    enum mw_status status = mw_image_open_live(PID, &options, NULL, &image, &err);
    if (status == MW_OK) {
        check_process(&image.process, environ_bytes, environ_size);
        check_image(&image);
        mw_image_close(&image);
    } else {
        must(err.code == status && err.text[0] != '\0');
    }
    snprintf(cgroups, sizeof cgroups, "%s/cgroup", root);
    check_cgroup(tree, cgroups);
    return 0;
}
