/* support/layout_instances.h: an instance of every row of the known layouts. No cmocka here. */
#ifndef LAYOUT_INSTANCES_H
#define LAYOUT_INSTANCES_H

#include "layout_world.h"

enum { LAYOUT_SPOILS = 10, LAYOUT_SPOILS_END = 0xffff, LAYOUT_TOLD = 0xfffe };

struct layout_instance {
    const char *id, *name;
    mw_addr (*make)(void);
    size_t usable_bytes;
    /* Words that the row goes by: each spoilt, it must not hold. LAYOUT_TOLD ends them, too: known
     * only while the scope that make opened lasts. */
    uint16_t spoils[LAYOUT_SPOILS];
};

/* Ends with one without an id. */
extern const struct layout_instance layout_instances[];

/* Build it; the address of its block. Ends the program when the world is full. */
mw_addr layout_instance_make(const struct layout_instance *instance, struct layout_world *world);

#endif
