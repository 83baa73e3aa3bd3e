/* tests/support/temp_tree.c: making and removing such a tree. A failure ends the test program:
 * nothing after it could be trusted. */
#include "temp_tree.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void must(int good, const char *what)
{
    if (good)
        return;
    perror(what);
    exit(1);
}

void temp_tree_make(struct temp_tree *tree)
{
    snprintf(tree->path, sizeof tree->path, "/tmp/memwhy-test-XXXXXX");
    must(mkdtemp(tree->path) != NULL, "mkdtemp");
    tree->fd = open(tree->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(tree->fd >= 0, tree->path);
}

void temp_tree_write_bytes(const struct temp_tree *tree, const char *path, const void *bytes,
                           size_t length)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = folder; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        mkdirat(tree->fd, folder, 0755);
    }
    int fd = openat(tree->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    must(fd >= 0, path);
    must(write(fd, bytes, length) == (ssize_t)length, path);
    close(fd);
}

void temp_tree_write(const struct temp_tree *tree, const char *path, const char *text)
{
    temp_tree_write_bytes(tree, path, text, strlen(text));
}

static int remove_one(const char *path, const struct stat *about, int type, struct FTW *where)
{
    (void)about, (void)type, (void)where;
    return remove(path);
}

void temp_tree_remove(struct temp_tree *tree)
{
    close(tree->fd);
    must(nftw(tree->path, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0, tree->path);
}
