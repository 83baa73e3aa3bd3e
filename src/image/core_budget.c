/* image/core_budget.c: how much is read of a core that claims far more than it has.
 *
 * A file of a few KiB can announce segments of TiB: by a hole, by segments that share one piece of
 * the file, by mappings of one library a million times. A walk is linear in the memory that can be
 * read, so it would not end. What the file takes on its disk bounds what an honest core holds: with
 * more than CLAIM_FACTOR times that (and CLAIM_BYTES) every byte read counts, and when they are
 * used up a read finds nothing, which is a finding. Honest cores have no bound: one that was made
 * sparse has some data for each page of zeros.
 *
 * Bound: CLAIM_BYTES and CLAIM_FACTOR times the bytes on disk are read, about a second for a small
 * file; pages are asked for PAGES_FACTOR times as many, since that costs less. */
#include "image/core_files.h"

#include <sys/stat.h>

enum { CLAIM_FACTOR = 64, PAGES_FACTOR = 16, BLOCK_BYTES = 512 };
static const uint64_t CLAIM_BYTES = (uint64_t)256 << 20;

static uint64_t add_saturated(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* Bytes that can be read: of the core, and of files. */
static uint64_t claimed_bytes(const struct mw_image *image)
{
    const struct mw_core *core = image->state;
    uint64_t sum = 0;
    for (size_t i = 0; i < image->regions.count; i++) {
        uint64_t size = mw_mapping_size(&image->regions.items[i]);
        sum = add_saturated(sum, core->parts[i].module ? size : core->parts[i].file_bytes);
    }
    return sum;
}

void mw_core_budget_set(struct mw_image *image)
{
    struct mw_core *core = mw_core_of(image);
    struct stat about;
    uint64_t on_disk = 0, budget;
    if (fstat(core->fd, &about) == 0)
        on_disk = (uint64_t)about.st_blocks * BLOCK_BYTES;
    if (__builtin_mul_overflow(on_disk, (uint64_t)CLAIM_FACTOR, &budget))
        budget = UINT64_MAX;
    budget = add_saturated(budget, CLAIM_BYTES);
    core->read_left = core->pages_left = UINT64_MAX;
    if (claimed_bytes(image) <= budget)
        return;
    core->read_left = budget;
    core->pages_left = budget / image->page_size * PAGES_FACTOR;
}

/* The same, with the lock held. */
static bool budget_take(struct mw_image *image, uint64_t *left, uint64_t amount)
{
    if (*left == UINT64_MAX)
        return true;
    if (*left < amount) {
        *left = 0;
        if (!mw_finding_find(&image->findings, "core-overclaims"))
            mw_finding_add(&image->findings, "core-overclaims", 0, claimed_bytes(image),
                           "the core claims far more memory than its file has bytes: not all of "
                           "it was read");
        return false;
    }
    *left -= amount;
    return true;
}

bool mw_core_budget_take(struct mw_image *image, uint64_t *left, uint64_t amount)
{
    struct mw_core *core = mw_core_of(image);
    pthread_mutex_lock(&core->lock);
    bool is_taken = budget_take(image, left, amount);
    pthread_mutex_unlock(&core->lock);
    return is_taken;
}
