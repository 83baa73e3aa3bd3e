/* collect/notes.h: the notes of a capture: those that any core has, and ours. */
#ifndef MW_COLLECT_NOTES_H
#define MW_COLLECT_NOTES_H

#include "base/str.h"
#include "collect/layout.h"

/* Append all notes to out, padded as PT_NOTE wants it. when: Unix seconds. Of an image whose
 * threads are known. A failure stays in out->status: MW_NOMEM, MW_LIMIT. */
void mw_capture_notes_put(const struct mw_image *image, const struct mw_capture_layout *layout,
                          int64_t when, struct mw_str *out);

#endif
