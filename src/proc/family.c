/* proc/family.c: who was forked with whom, from parents, executables and auxiliary vectors.
 *
 * /proc/PID/stat of all processes gives the tree of parents at about one moment; a process that
 * ends meanwhile leaves its children to another parent, and then they are not found: the figures
 * are those of the members that were. Trusts nothing: parents may form a cycle when pids are used
 * again between two readings, so climbing is bounded and each process is taken once. */
#include "proc/family.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/vec.h"
#include "proc/process.h"

#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CLIMB_MAX = 64, STAT_BYTES_MAX = 4096 };
#define READ_NS_MAX ((uint64_t)500000000)

struct node {
    int32_t pid, parent;
    bool is_member, is_stranger; /* neither: not asked yet */
};

struct tree {
    struct node *items; /* ascending by pid */
    size_t count, room;
};

/* The parent in a line of /proc/PID/stat: "pid (name) state ppid …"; the name may hold anything. */
static bool parent_parse(const char *text, int32_t *parent_out)
{
    const char *end = strrchr(text, ')');
    char *after;
    if (!end || end[1] != ' ' || end[2] == '\0' || end[3] != ' ')
        return false;
    long parent = strtol(end + 4, &after, 10);
    if (after == end + 4 || parent < 0 || parent > INT32_MAX)
        return false;
    *parent_out = (int32_t)parent;
    return true;
}

static int by_pid(const void *a, const void *b)
{
    const struct node *left = a, *right = b;
    return (left->pid > right->pid) - (left->pid < right->pid);
}

static struct node *tree_find(const struct tree *tree, int32_t pid)
{
    const struct node key = {.pid = pid};
    return tree->count ? bsearch(&key, tree->items, tree->count, sizeof key, by_pid) : NULL;
}

static enum mw_status tree_read(int proc_fd, DIR *directory, struct mw_context *context,
                                struct tree *tree)
{
    enum mw_status status = MW_OK;
    const struct dirent *entry;
    while (status == MW_OK && (entry = readdir(directory))) {
        char path[48], *end;
        size_t length;
        MW_FREE char *text = NULL;
        struct node node = {0};
        long pid = strtol(entry->d_name, &end, 10);
        if (!isdigit((unsigned char)entry->d_name[0]) || *end != '\0' || pid > INT32_MAX)
            continue;
        if (mw_context_canceled(context))
            return MW_CANCELED;
        node.pid = (int32_t)pid;
        snprintf(path, sizeof path, "%d/stat", node.pid);
        if (mw_io_read_file_at(proc_fd, path, STAT_BYTES_MAX, &text, &length, NULL) == MW_OK &&
            parent_parse(text, &node.parent))
            status = mw_vec_push(tree, MW_LIMIT_PROCESSES, node);
    }
    if (tree->count > 0)
        qsort(tree->items, tree->count, sizeof *tree->items, by_pid);
    return status == MW_LIMIT ? MW_OK : status; /* the part that was read still says something */
}

/* What a process and those forked from it have in common, until one of them runs a program anew. */
struct origin {
    struct stat executable;
    uint8_t auxv[1024]; /* where its program, libraries and stack were put, at random */
    size_t auxv_bytes;  /* 0: not known */
};

static bool origin_load(int proc_fd, int32_t pid, struct origin *origin)
{
    char path[32];
    snprintf(path, sizeof path, "%d/exe", pid);
    if (fstatat(proc_fd, path, &origin->executable, 0) != 0)
        return false;
    snprintf(path, sizeof path, "%d/auxv", pid);
    MW_CLOSE int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : mw_io_pread_full(fd, origin->auxv, sizeof origin->auxv, 0);
    origin->auxv_bytes = got > 0 ? (size_t)got : 0;
    return true;
}

/* Was pid forked, not started, out of origin, or the other way round? By the executable alone when
 * the rest may not be read. */
static bool shares(int proc_fd, int32_t pid, const struct origin *origin)
{
    struct origin other;
    if (!origin_load(proc_fd, pid, &other) ||
        other.executable.st_dev != origin->executable.st_dev ||
        other.executable.st_ino != origin->executable.st_ino)
        return false;
    if (other.auxv_bytes == 0 || origin->auxv_bytes == 0)
        return true;
    return other.auxv_bytes == origin->auxv_bytes &&
           memcmp(other.auxv, origin->auxv, other.auxv_bytes) == 0;
}

static int32_t climb(int proc_fd, const struct tree *tree, int32_t pid, const struct origin *origin)
{
    for (int level = 0; level < CLIMB_MAX; level++) {
        const struct node *node = tree_find(tree, pid);
        if (!node || node->parent <= 0 || !shares(proc_fd, node->parent, origin))
            break;
        pid = node->parent;
    }
    return pid;
}

static void members_mark(int proc_fd, struct tree *tree, int32_t root, const struct origin *origin,
                         struct mw_family *family)
{
    struct node *top = tree_find(tree, root);
    if (!top)
        return;
    top->is_member = true;
    family->count = 1;
    bool is_more = true; /* level by level */
    for (int level = 0; is_more && level < CLIMB_MAX; level++) {
        is_more = false;
        for (size_t i = 0; i < tree->count; i++) {
            struct node *node = &tree->items[i];
            bool is_asked = node->is_member || node->is_stranger;
            const struct node *parent = is_asked ? NULL : tree_find(tree, node->parent);
            if (!parent || !parent->is_member)
                continue;
            node->is_member = shares(proc_fd, node->pid, origin);
            node->is_stranger = !node->is_member;
            family->count += node->is_member;
            is_more |= node->is_member;
        }
    }
}

static void member_add(struct mw_family *family, const struct mw_rollup *rollup)
{
    family->read_count++;
    family->rss += rollup->rss;
    family->pss += rollup->pss == MW_UNKNOWN ? 0 : rollup->pss;
    family->anonymous += rollup->anonymous == MW_UNKNOWN ? 0 : rollup->anonymous;
    if (rollup->pss_anon == MW_UNKNOWN || rollup->anonymous == MW_UNKNOWN)
        family->has_pss_anon = false;
    else
        family->pss_anon += rollup->pss_anon;
}

static enum mw_status members_read(int proc_fd, const struct tree *tree, int32_t pid,
                                   struct mw_context *context, struct mw_family *family)
{
    uint64_t started = mw_clock_monotonic_ns();
    for (size_t i = 0; i < tree->count; i++) {
        const struct node *node = &tree->items[i];
        struct mw_rollup rollup;
        if (!node->is_member || node->pid == pid)
            continue;
        if (mw_context_canceled(context))
            return MW_CANCELED;
        if (family->read_count >= MW_FAMILY_READ_MAX ||
            mw_clock_monotonic_ns() - started > READ_NS_MAX) {
            family->is_cut = true;
            break;
        }
        enum mw_status status = mw_rollup_load(proc_fd, node->pid, &rollup, NULL);
        if (status == MW_NOMEM)
            return status;
        if (status == MW_OK)
            member_add(family, &rollup);
    }
    return MW_OK;
}

static enum mw_status family_fill(int proc_fd, struct tree *tree, int32_t pid,
                                  struct mw_context *context, struct mw_family *family)
{
    struct origin origin;
    family->count = 1;
    family->root_pid = pid;
    member_add(family, &family->own);
    if (!origin_load(proc_fd, pid, &origin))
        return MW_OK; /* alone, as far as one can see */
    family->root_pid = climb(proc_fd, tree, pid, &origin);
    members_mark(proc_fd, tree, family->root_pid, &origin, family);
    enum mw_status status = members_read(proc_fd, tree, pid, context, family);
    assert(status != MW_OK || family->read_count <= family->count);
    return status;
}

enum mw_status mw_family_load(int proc_fd, int32_t pid, struct mw_context *context,
                              struct mw_family *family_out, struct mw_error *err)
{
    struct mw_family family = {.has_pss_anon = true};
    struct tree tree = {0};
    enum mw_status status = mw_rollup_load(proc_fd, pid, &family.own, err);
    if (status != MW_OK)
        return status;
    int fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    if (!directory) {
        int problem = errno;
        if (fd >= 0)
            close(fd);
        return mw_fail_errno(err, problem, "cannot open '/proc'");
    }
    status = tree_read(proc_fd, directory, context, &tree);
    closedir(directory);
    if (status == MW_OK)
        status = family_fill(proc_fd, &tree, pid, context, &family);
    mw_vec_deinit(&tree);
    if (status != MW_OK)
        return mw_fail(err, status, "cannot look for the processes that %d was forked with", pid);
    *family_out = family;
    return MW_OK;
}
