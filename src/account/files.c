/* account/files.c: mappings with a file behind them.
 *
 * A file that is mapped executable anywhere is a program or a library: its mappings are text and
 * data, and the anonymous mapping that begins where its last writable one ends is its .bss:
 *
 *   r--p libx.so | r-xp libx.so | r--p libx.so | rw-p libx.so | rw-p (anonymous)
 *   file.text    | file.text    | file.data    | file.data    | file.data ".bss"
 *                                 ^ relocated, then write-protected (RELRO)
 *
 * Where memory can be read, the program headers tell the .bss's exact end; an anonymous mapping
 * made right behind it melts into the same VMA. Names are a target's text: compared, never used. */
#include "account/claiming.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "symbol/elfmap.h"

#include <stdlib.h>
#include <string.h>

struct path_rule {
    const char *text;
    enum mw_category category;
    const char *owner;
};

/* By the beginning of the path, in this order. */
static const struct path_rule prefix_rules[] = {
    {"/dev/zero", MW_CATEGORY_SHARED_MEMORY, "shared anonymous memory"},
    {"/dev/shm/", MW_CATEGORY_SHARED_MEMORY, "POSIX shared memory"},
    {"/memfd:", MW_CATEGORY_SHARED_MEMORY, "memfd"},
    {"/SYSV", MW_CATEGORY_SHARED_MEMORY, "System V shared memory"},
    {"/dev/hugepages/", MW_CATEGORY_SHARED_MEMORY, "huge pages"},
    {"/anon_hugepage", MW_CATEGORY_ANON_OTHER, "anonymous huge pages"},
    {"/dev/nvidia", MW_CATEGORY_DEVICE, "NVIDIA GPU"},
    {"/dev/dri/", MW_CATEGORY_DEVICE, "GPU"},
    {"/dev/kfd", MW_CATEGORY_DEVICE, "AMD GPU"},
    {"/dev/mali", MW_CATEGORY_DEVICE, "GPU"},
    {"/dev/infiniband/", MW_CATEGORY_DEVICE, "InfiniBand"},
    {"/dev/", MW_CATEGORY_DEVICE, "device"},
    {"/drm mm object", MW_CATEGORY_DEVICE, "GPU"},
    {"/i915", MW_CATEGORY_DEVICE, "GPU"},
    {"/dmabuf:", MW_CATEGORY_DEVICE, "GPU buffer"},
    {"/[aio]", MW_CATEGORY_DEVICE, "aio ring"},
};

/* By the end of the path: what is mapped to be read rather than run. */
static const struct path_rule suffix_rules[] = {
    {".dll", MW_CATEGORY_FILE_MAPPED, ".NET assembly"},
    {".exe", MW_CATEGORY_FILE_MAPPED, ".NET assembly"},
    {".jar", MW_CATEGORY_FILE_MAPPED, "Java archive"},
    {"/lib/modules", MW_CATEGORY_FILE_MAPPED, "Java modules"},
    {"/locale-archive", MW_CATEGORY_FILE_MAPPED, "locale data"},
    {"/gconv-modules.cache", MW_CATEGORY_FILE_MAPPED, "locale data"},
    {".mo", MW_CATEGORY_FILE_MAPPED, "locale data"},
    {".ttf", MW_CATEGORY_FILE_MAPPED, "font"},
    {".otf", MW_CATEGORY_FILE_MAPPED, "font"},
    {".ttc", MW_CATEGORY_FILE_MAPPED, "font"},
    {".pcf.gz", MW_CATEGORY_FILE_MAPPED, "font"},
};

static const struct path_rule *rule_by_prefix(const char *path)
{
    for (size_t i = 0; i < sizeof prefix_rules / sizeof *prefix_rules; i++)
        if (strncmp(path, prefix_rules[i].text, strlen(prefix_rules[i].text)) == 0)
            return &prefix_rules[i];
    return NULL;
}

static const struct path_rule *rule_by_suffix(const char *path)
{
    size_t length = strlen(path);
    for (size_t i = 0; i < sizeof suffix_rules / sizeof *suffix_rules; i++) {
        size_t suffix = strlen(suffix_rules[i].text);
        if (length >= suffix && strcmp(path + length - suffix, suffix_rules[i].text) == 0)
            return &suffix_rules[i];
    }
    return NULL;
}

static bool is_file(const struct mw_mapping *map)
{
    return map->name[0] == '/' || map->inode != 0;
}

/* ---- which files are programs ---- */

/* Same file: device and inode where the source has them (a core has names only). */
static int file_compare(const struct mw_mapping *a, const struct mw_mapping *b)
{
    if (a->inode != b->inode)
        return a->inode < b->inode ? -1 : 1;
    if (a->inode == 0)
        return strcmp(a->name, b->name);
    if (a->dev_major != b->dev_major)
        return a->dev_major < b->dev_major ? -1 : 1;
    if (a->dev_minor != b->dev_minor)
        return a->dev_minor < b->dev_minor ? -1 : 1;
    return 0;
}

static int file_order(const void *left, const void *right)
{
    const struct mw_mapping *a = *(const struct mw_mapping *const *)left;
    const struct mw_mapping *b = *(const struct mw_mapping *const *)right;
    int order = file_compare(a, b);
    return order != 0 ? order : (a < b ? -1 : a > b);
}

/* Set is_file_of_code of every mapping whose file has an executable one. O(n log n). */
static enum mw_status files_of_code_find(struct mw_claiming *claiming)
{
    MW_FREE const struct mw_mapping **order = mw_calloc(claiming->map_count, sizeof *order);
    if (!order)
        return MW_NOMEM;
    size_t count = 0;
    for (size_t i = 0; i < claiming->map_count; i++)
        if (is_file(&claiming->maps[i]))
            order[count++] = &claiming->maps[i];
    qsort(order, count, sizeof(*order), file_order);
    for (size_t start = 0, end; start < count; start = end) {
        bool has_code = false;
        for (end = start; end < count && file_compare(order[start], order[end]) == 0; end++)
            has_code |= (order[end]->perms & MW_PERM_EXEC) != 0;
        for (size_t i = start; has_code && i < end; i++)
            claiming->is_file_of_code[order[i] - claiming->maps] = true;
    }
    return MW_OK;
}

/* ---- one file mapping ---- */

/* Was it written to and then write-protected? RELRO keeps its accounting flag, and its pages are
 * the process's own. */
static bool is_relocated(const struct mw_mapping *map)
{
    if (map->has_vm_flags)
        return (map->vm_flags & MW_VM_ACCOUNT) != 0;
    return mw_mapping_counter(map, MW_COUNTER_ANONYMOUS) > 0;
}

static struct path_rule rule_of_program(const struct mw_mapping *map)
{
    if (map->perms & MW_PERM_SHARED)
        return (struct path_rule){NULL, MW_CATEGORY_FILE_MAPPED, "mapped file"};
    if (map->perms & MW_PERM_WRITE)
        return (struct path_rule){NULL, MW_CATEGORY_FILE_DATA, "program data"};
    if (map->perms & MW_PERM_EXEC)
        return (struct path_rule){NULL, MW_CATEGORY_FILE_TEXT, "program code"};
    if (is_relocated(map))
        return (struct path_rule){NULL, MW_CATEGORY_FILE_DATA, "relocated constants"};
    return (struct path_rule){NULL, MW_CATEGORY_FILE_TEXT, "program constants"};
}

static struct path_rule rule_of_file(const struct mw_claiming *claiming, size_t i)
{
    const struct mw_mapping *map = &claiming->maps[i];
    const struct path_rule *rule = rule_by_prefix(map->name);
    if (!rule)
        rule = rule_by_suffix(map->name);
    if (rule)
        return *rule;
    if ((map->perms & MW_PERM_SHARED) && map->deleted)
        return (struct path_rule){NULL, MW_CATEGORY_SHARED_MEMORY, "unlinked shared file"};
    if (claiming->is_file_of_code[i])
        return rule_of_program(map);
    if (strstr(map->name, "/locale/"))
        return (struct path_rule){NULL, MW_CATEGORY_FILE_MAPPED, "locale data"};
    if ((map->perms & (MW_PERM_WRITE | MW_PERM_SHARED)) == MW_PERM_WRITE)
        return (struct path_rule){NULL, MW_CATEGORY_FILE_DATA, "private copy of a file"};
    return (struct path_rule){NULL, MW_CATEGORY_FILE_MAPPED, "mapped file"};
}

/* ---- .bss ---- */

/* The end of the .bss that begins where mapping i, the data of a program, ends: that of its last
 * page, at most the end of the anonymous mapping behind it. Without its headers all of that. */
static mw_addr bss_end(const struct mw_claiming *claiming, size_t i)
{
    mw_addr end = claiming->maps[i + 1].end;
    uint64_t page_mask = claiming->image->page_size ? claiming->image->page_size - 1 : 4095;
    struct mw_elf_map elf;
    mw_addr base = mw_elf_base_of(claiming->image, claiming->maps[i].start);
    if (!(claiming->image->can & MW_CAN_READ) || base == 0 ||
        mw_elf_map_read(claiming->image, base, &elf) != MW_OK ||
        elf.end <= claiming->maps[i].start || elf.end >= end)
        return end;
    mw_addr last_page = (elf.end - 1) & ~page_mask;
    return end - last_page > page_mask ? last_page + page_mask + 1 : end;
}

/* The anonymous mapping behind mapping i, the data of a program. */
static enum mw_status bss_claim(struct mw_claiming *claiming, size_t i)
{
    if (i + 1 == claiming->map_count)
        return MW_OK;
    const struct mw_mapping *map = &claiming->maps[i], *next = &claiming->maps[i + 1];
    if (next->start != map->end || !mw_mapping_is_plain(next) || next->name[0] != '\0')
        return MW_OK;
    mw_addr end = bss_end(claiming, i);
    if (end <= next->start)
        return MW_OK;
    return mw_claiming_take(claiming, i + 1, end, MW_CATEGORY_FILE_DATA, MW_CLAIM_KERNEL, ".bss");
}

enum mw_status mw_claiming_files(struct mw_claiming *claiming)
{
    enum mw_status status = files_of_code_find(claiming);
    for (size_t i = 0; i < claiming->map_count && status == MW_OK; i++) {
        const struct mw_mapping *map = &claiming->maps[i];
        if (!is_file(map) || !mw_claiming_is_open(claiming, i))
            continue;
        struct path_rule rule = rule_of_file(claiming, i);
        status = mw_claiming_take_rest(claiming, i, rule.category, MW_CLAIM_KERNEL, rule.owner);
        bool is_data = rule.category == MW_CATEGORY_FILE_DATA && claiming->is_file_of_code[i];
        if (status == MW_OK && is_data && (map->perms & MW_PERM_WRITE))
            status = bss_claim(claiming, i);
    }
    return status;
}
