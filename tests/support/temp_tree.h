/* tests/support/temp_tree.h: a small directory tree in a temporary place, for fake /proc and
 * /sys/fs/cgroup. Paths are relative to the tree; folders are made as needed. */
#ifndef MW_TESTS_TEMP_TREE_H
#define MW_TESTS_TEMP_TREE_H

#include <stddef.h>

struct temp_tree {
    char path[64];
    int fd;
};

void temp_tree_make(struct temp_tree *tree);
void temp_tree_write(const struct temp_tree *tree, const char *path, const char *text);
void temp_tree_write_bytes(const struct temp_tree *tree, const char *path, const void *bytes,
                           size_t length);
void temp_tree_remove(struct temp_tree *tree);

#endif
