/* account/shapes.c: arenas of glibc by their shape, and address space that is only reserved.
 *
 * A heap of a thread arena is aligned to its largest size (64 MiB on 64-bit systems since 2.10,
 * 1 MiB on 32-bit ones) and filled up to it with inaccessible space:
 *
 *   | rw-p: heap_info, arena, chunks | ---p |      flags: "nr", not "ac", up to 2.36;
 *                                                    since 2.41 at the latest no longer so
 *   ^ n × 64 MiB                            ^ (n + 1) × 64 MiB
 *
 * heap_info is { arena, prev, size, mprotect_size }: where it can be read, one of its sizes is the
 * length of the rw part, else it is something else of the same shape (a JVM's metaspace is). This
 * is only for when the allocator's walk did not come to claim them. */
#include "account/claiming.h"

#define HEAP_MAX_64 ((uint64_t)64 << 20)
#define HEAP_MAX_32 ((uint64_t)1 << 20)

/* The end of the arena's heap in the mapping, by its header; 0 when it is no such header. */
static mw_addr heap_end_by_header(struct mw_image *image, const struct mw_mapping *map)
{
    uint64_t words[4];
    if (mw_image_read(image, map->start, words, sizeof words) != MW_OK)
        return 0;
    uint64_t size = mw_mapping_size(map);
    if (words[0] % 8 != 0 || !mw_image_region(image, words[0]) || words[2] == 0 ||
        (words[2] != size && words[3] != size) || words[2] > words[3])
        return 0;
    return map->start + words[2];
}

static bool has_arena_shape(const struct mw_claiming *claiming, size_t i, uint64_t heap_max)
{
    const struct mw_mapping *map = &claiming->maps[i];
    uint64_t size = mw_mapping_size(map);
    if (!mw_mapping_is_plain(map) || map->start % heap_max != 0 || size > heap_max)
        return false;
    if (size < heap_max) {
        if (i + 1 == claiming->map_count)
            return false;
        const struct mw_mapping *rest = &claiming->maps[i + 1];
        if (rest->start != map->end || rest->end < map->start + heap_max ||
            !mw_mapping_is_barrier(rest) || (rest->vm_flags & MW_VM_DONTDUMP))
            return false;
        /* up to 2.36 both parts are "nr", in 2.41 neither is; a JVM's metaspace mixes them */
        return ((map->vm_flags ^ rest->vm_flags) & MW_VM_NORESERVE) == 0;
    }
    return (claiming->image->can & MW_CAN_READ) || !map->has_vm_flags ||
           (map->vm_flags & MW_VM_NORESERVE);
}

/* The heap, and behind it what was accessible once and is not used: kept, but nobody's blocks. */
static enum mw_status arena_claim(struct mw_claiming *claiming, size_t i, uint64_t heap_max)
{
    mw_addr end = claiming->maps[i].end;
    if ((claiming->image->can & MW_CAN_READ) && heap_max == HEAP_MAX_64) {
        end = heap_end_by_header(claiming->image, &claiming->maps[i]);
        if (end == 0)
            return MW_OK;
    }
    enum mw_status status = mw_claiming_take(claiming, i, end, MW_CATEGORY_MALLOC_UNSPLIT,
                                             MW_CLAIM_GUESS, "glibc arena");
    if (status != MW_OK)
        return status;
    return mw_claiming_take_rest(claiming, i, MW_CATEGORY_ANON_OTHER, MW_CLAIM_GUESS,
                                 "glibc arena, unused");
}

/* A pasted smaps does not tell the machine, but a 64-bit process has mappings above 4 GiB. */
static bool target_is_32_bit(const struct mw_claiming *claiming)
{
    enum mw_arch arch = claiming->image->arch;
    if (arch != MW_ARCH_UNKNOWN)
        return arch == MW_ARCH_I386 || arch == MW_ARCH_ARM;
    size_t count = claiming->map_count;
    return count > 0 && claiming->maps[count - 1].end <= (mw_addr)1 << 32;
}

enum mw_status mw_claiming_shapes(struct mw_claiming *claiming)
{
    bool is_32 = target_is_32_bit(claiming);
    uint64_t heap_max = is_32 ? HEAP_MAX_32 : HEAP_MAX_64;
    enum mw_status status = MW_OK;
    for (size_t i = 0; i < claiming->map_count && status == MW_OK; i++) {
        const struct mw_mapping *map = &claiming->maps[i];
        if (!mw_claiming_is_open(claiming, i))
            continue;
        if (claiming->decided_to[i] == map->start && has_arena_shape(claiming, i, heap_max))
            status = arena_claim(claiming, i, heap_max);
        else if (mw_mapping_is_barrier(map) && mw_mapping_counter(map, MW_COUNTER_RSS) == 0)
            status = mw_claiming_take_rest(claiming, i, MW_CATEGORY_ANON_OTHER, MW_CLAIM_KERNEL,
                                           "reserved address space");
    }
    return status;
}
