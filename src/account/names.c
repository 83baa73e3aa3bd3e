/* account/names.c: mappings that say themselves what they are.
 *
 * "[stack]", "[heap]" and the like come from the kernel; "[anon:…]" is what the program itself
 * called the mapping with prctl(PR_SET_VMA_ANON_NAME) (Linux 5.17, CONFIG_ANON_VMA_NAME). A name
 * is a claim of the program, not a proof, but one that nobody has a reason to forge against
 * himself. First match wins.
 *
 * Sources of the names: glibc sysdeps/unix/sysv/linux (decorate_maps, 2.39), Go
 * runtime/set_vma_name_linux.go (1.25, behind GODEBUG=decoratemappings), jemalloc src/pages.c,
 * gperftools/tcmalloc system-alloc.cc, mimalloc src/prim/unix, scudo linux.cpp, php
 * Zend/zend_alloc.c and zend_fibers.c (8.3), CPython pycore_mmap.h (3.15), Ruby (3.5), Android
 * bionic and ART, Chromium base/allocator and V8. */
#include "account/claiming.h"

#include <string.h>

struct name_rule {
    const char *prefix;
    enum mw_category category;
    const char *owner;
};

/* What follows "[anon:" with blanks skipped. A longer prefix stands before a shorter one. */
static const struct name_rule anon_rules[] = {
    {"glibc: malloc arena", MW_CATEGORY_MALLOC_UNSPLIT, "glibc arena"},
    {"glibc: malloc", MW_CATEGORY_MALLOC_UNSPLIT, "glibc malloc"},
    {"glibc: loader malloc", MW_CATEGORY_ANON_OTHER, "dynamic loader"},
    {"glibc: pthread stack", MW_CATEGORY_STACK_THREADS, "thread stack"},
    {"glibc: pthread user stack", MW_CATEGORY_STACK_THREADS, "thread stack"},
    {"glibc: getrandom", MW_CATEGORY_ANON_OTHER, "glibc getrandom state"},
    {"glibc:", MW_CATEGORY_ANON_OTHER, "glibc"},
    {"jemalloc", MW_CATEGORY_MALLOC_UNSPLIT, "jemalloc"},
    {"tcmalloc_region", MW_CATEGORY_MALLOC_UNSPLIT, "tcmalloc"},
    {"mimalloc", MW_CATEGORY_MALLOC_UNSPLIT, "mimalloc"},
    {"scudo", MW_CATEGORY_MALLOC_UNSPLIT, "scudo"},
    {"partition_alloc", MW_CATEGORY_MALLOC_UNSPLIT, "PartitionAlloc"},
    {"libc_malloc", MW_CATEGORY_MALLOC_UNSPLIT, "bionic malloc"},
    {"absl", MW_CATEGORY_MALLOC_UNSPLIT, "Abseil low-level allocator"},
    {"Go: heap index", MW_CATEGORY_MANAGED_METADATA, "Go heap index"},
    {"Go: heap", MW_CATEGORY_MANAGED_HEAP, "Go heap"},
    {"Go:", MW_CATEGORY_MANAGED_METADATA, "Go runtime"},
    {"v8", MW_CATEGORY_MANAGED_HEAP, "V8 heap"},
    {"cpython:pymalloc", MW_CATEGORY_MANAGED_HEAP, "obmalloc arena"},
    {"cpython:jit", MW_CATEGORY_MANAGED_CODE, "CPython JIT code"},
    {"cpython:", MW_CATEGORY_MANAGED_METADATA, "CPython"},
    {"zend_alloc", MW_CATEGORY_MANAGED_HEAP, "PHP heap"},
    {"zend_fiber_stack", MW_CATEGORY_MANAGED_METADATA, "PHP fiber stack"},
    {"zend_huge_code_pages", MW_CATEGORY_FILE_TEXT, "program code"},
    {"Ruby:rb_yjit", MW_CATEGORY_MANAGED_CODE, "Ruby YJIT code"},
    {"Ruby:rb_zjit", MW_CATEGORY_MANAGED_CODE, "Ruby ZJIT code"},
    {"Ruby:nt_alloc_thread_stack", MW_CATEGORY_STACK_THREADS, "thread stack"},
    {"Ruby:", MW_CATEGORY_MANAGED_HEAP, "Ruby heap"},
    {"dalvik-jit-code", MW_CATEGORY_MANAGED_CODE, "ART code"},
    {"dalvik-data-code", MW_CATEGORY_MANAGED_CODE, "ART code"},
    {"dalvik-main space", MW_CATEGORY_MANAGED_HEAP, "ART heap"},
    {"dalvik-large object", MW_CATEGORY_MANAGED_HEAP, "ART heap"},
    {"dalvik-free list large", MW_CATEGORY_MANAGED_HEAP, "ART heap"},
    {"dalvik-zygote", MW_CATEGORY_MANAGED_HEAP, "ART heap"},
    {"dalvik-non moving", MW_CATEGORY_MANAGED_HEAP, "ART heap"},
    {"dalvik-region space", MW_CATEGORY_MANAGED_HEAP, "ART heap"},
    {"dalvik-", MW_CATEGORY_MANAGED_METADATA, "ART"},
    {"stack_and_tls:", MW_CATEGORY_STACK_THREADS, "thread stack"},
    {".bss", MW_CATEGORY_FILE_DATA, ".bss"},
    {"linker", MW_CATEGORY_ANON_OTHER, "dynamic loader"},
    {"bionic", MW_CATEGORY_ANON_OTHER, "bionic"},
    {"thread signal stack", MW_CATEGORY_ANON_OTHER, "signal stack"},
};

/* Whole names or prefixes as the kernel gives them. [heap] is the brk area: glibc's main arena
 * most of the time, but tcmalloc and musl use it too. */
static const struct name_rule kernel_rules[] = {
    {"[stack:", MW_CATEGORY_STACK_THREADS, "thread stack"}, /* Linux 3.4 to 4.4 */
    {"[stack]", MW_CATEGORY_STACK_MAIN, "main stack"},
    {"[heap]", MW_CATEGORY_MALLOC_UNSPLIT, "brk heap"},
    {"[vdso]", MW_CATEGORY_FILE_TEXT, "vdso"},
    {"[vsyscall]", MW_CATEGORY_FILE_TEXT, "vdso"},
    {"[sigpage]", MW_CATEGORY_FILE_TEXT, "vdso"}, /* arm */
    {"[vectors]", MW_CATEGORY_FILE_TEXT, "vdso"}, /* arm */
    {"[vvar", MW_CATEGORY_DEVICE, "kernel clock data"},
    {"[uprobes]", MW_CATEGORY_FILE_TEXT, "uprobes"},
    {"[uprobes-trampoline]", MW_CATEGORY_FILE_TEXT, "uprobes"},
    {"[anon_shmem:", MW_CATEGORY_SHARED_MEMORY, "shared anonymous memory"},
    {"anon_inode:[io_uring]", MW_CATEGORY_DEVICE, "io_uring rings"},
    {"anon_inode:[perf_event]", MW_CATEGORY_DEVICE, "perf rings"},
    {"anon_inode:", MW_CATEGORY_DEVICE, "kernel object"},
    {"socket:", MW_CATEGORY_DEVICE, "packet rings"},
};

static const struct name_rule *rule_find(const struct name_rule *rules, size_t count,
                                         const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp(name, rules[i].prefix, strlen(rules[i].prefix)) == 0)
            return &rules[i];
    return NULL;
}

static const struct name_rule *rule_of_mapping(const struct mw_mapping *map)
{
    static const char anon_prefix[] = "[anon:";
    const char *name = map->name;
    if (name[0] == '\0' || name[0] == '/')
        return NULL;
    if (strncmp(name, anon_prefix, sizeof anon_prefix - 1) != 0)
        return rule_find(kernel_rules, sizeof kernel_rules / sizeof *kernel_rules, name);
    name += sizeof anon_prefix - 1;
    name += strspn(name, " ");
    return rule_find(anon_rules, sizeof anon_rules / sizeof *anon_rules, name);
}

enum mw_status mw_claiming_names(struct mw_claiming *claiming)
{
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < claiming->map_count && status == MW_OK; i++) {
        const struct mw_mapping *map = &claiming->maps[i];
        const struct name_rule *rule = rule_of_mapping(map);
        if (rule)
            status =
                mw_claiming_take_rest(claiming, i, rule->category, MW_CLAIM_KERNEL, rule->owner);
        else if (map->vm_flags & MW_VM_SHADOW_STACK)
            status = mw_claiming_take_rest(claiming, i, MW_CATEGORY_STACK_THREADS, MW_CLAIM_KERNEL,
                                           "shadow stack");
        else if (map->vm_flags & (MW_VM_PFNMAP | MW_VM_IO))
            status = mw_claiming_take_rest(claiming, i, MW_CATEGORY_DEVICE, MW_CLAIM_KERNEL,
                                           "device memory");
    }
    return status;
}
