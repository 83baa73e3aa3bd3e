/* account/divide.c: exact division of integers.
 *
 * Part i of a division is floor(total × W(i+1) / W) − floor(total × W(i) / W), where W(i) is the
 * sum of the weights before it: the parts telescope to total, no remainders need sorting, and a
 * part is never more than one byte away from its exact share. 128-bit products cannot overflow
 * since both factors have 64 bits. */
#include "account/divide.h"

#include <assert.h>

void mw_divide(uint64_t total, const uint64_t *weights, uint64_t *parts_out, size_t count)
{
    unsigned __int128 sum = 0, before = 0;
    uint64_t given = 0;
    for (size_t i = 0; i < count; i++)
        sum += weights[i];
    assert(sum <= UINT64_MAX);
    for (size_t i = 0; i < count; i++) {
        before += weights[i];
        uint64_t upto = sum == 0 ? total : (uint64_t)(total * before / sum);
        parts_out[i] = upto - given;
        given = upto;
    }
    assert(given == total || count == 0);
}

enum { LARGEST_STEPS = 16 }; /* then the rest is spread in proportion: bounds the time */

static size_t largest(const uint64_t *parts, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (parts[i] > parts[best])
            best = i;
    return best;
}

/* How far part i can still go: up to its size, or down to nothing. */
static uint64_t part_room(const uint64_t *parts, const uint64_t *sizes, size_t i, bool grow)
{
    if (!grow)
        return parts[i];
    return parts[i] < sizes[i] ? sizes[i] - parts[i] : 0;
}

/* The largest part that can still change, on a tie the one of larger size; count when none can. */
static size_t largest_with_room(const uint64_t *parts, const uint64_t *sizes, size_t count,
                                bool grow)
{
    size_t best = count;
    for (size_t i = 0; i < count; i++) {
        if (part_room(parts, sizes, i, grow) == 0)
            continue;
        if (best == count || parts[i] > parts[best] ||
            (parts[i] == parts[best] && sizes[i] > sizes[best]))
            best = i;
    }
    return best;
}

static void part_change(uint64_t *part, uint64_t step, bool grow)
{
    if (grow)
        *part += step;
    else
        *part -= step;
}

/* Spread what is left over all rooms: the running share of each room, as in mw_divide. */
static uint64_t spread_over_rooms(uint64_t left, uint64_t *parts, const uint64_t *sizes,
                                  size_t count, bool grow)
{
    unsigned __int128 rooms = 0, before = 0;
    uint64_t given = 0;
    for (size_t i = 0; i < count; i++)
        rooms += part_room(parts, sizes, i, grow);
    uint64_t total = rooms < left ? (uint64_t)rooms : left;
    for (size_t i = 0; i < count && rooms > 0; i++) {
        before += part_room(parts, sizes, i, grow);
        uint64_t upto = (uint64_t)(total * before / rooms);
        part_change(&parts[i], upto - given, grow);
        given = upto;
    }
    return left - given;
}

void mw_divide_correct(uint64_t total, uint64_t *parts, const uint64_t *sizes, size_t count)
{
    unsigned __int128 sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += parts[i];
    assert(sum <= UINT64_MAX);
    bool grow = sum < total;
    uint64_t left = grow ? total - (uint64_t)sum : (uint64_t)sum - total;

    for (int step_count = 0; left > 0 && step_count < LARGEST_STEPS; step_count++) {
        size_t at = largest_with_room(parts, sizes, count, grow);
        if (at == count)
            break;
        uint64_t room = part_room(parts, sizes, at, grow);
        uint64_t step = room < left ? room : left;
        part_change(&parts[at], step, grow);
        left -= step;
    }
    if (left > 0)
        left = spread_over_rooms(left, parts, sizes, count, grow);
    if (left > 0) {
        assert(grow && count > 0);
        parts[largest(parts, count)] += left;
    }
}
