/* image/capture.h: a capture: an ELF core with notes of our own. docs/formats/capture.md. */
#ifndef MW_IMAGE_CAPTURE_H
#define MW_IMAGE_CAPTURE_H

#include "image/image.h"

/* Types of the notes of the name MEMWHY. */
#define MW_CAPTURE_NOTE_NAME "MEMWHY"
enum mw_capture_note {
    MW_CAPTURE_SMAPS = 1,    /* text */
    MW_CAPTURE_PAGES = 2,    /* struct mw_capture_page_note, one after the other */
    MW_CAPTURE_PROCESS = 3,  /* lines "name=value" */
    MW_CAPTURE_SETTINGS = 4, /* "NAME=value", each ended by a zero byte */
    MW_CAPTURE_THREADS = 5,  /* lines "tid name" */
    MW_CAPTURE_NOTES_END,
};

/* Little-endian. */
struct mw_capture_page_note {
    uint64_t start;
    uint32_t count, flags; /* enum mw_page */
};

/* What the notes of a core hold of these; not owned. */
struct mw_capture_notes {
    struct {
        const uint8_t *bytes;
        size_t length;
    } notes[MW_CAPTURE_NOTES_END];
};

/* Make a capture of an open core: *image is replaced. Nothing happens, and MW_OK, when it has no
 * notes of ours. What makes no sense in them is a finding; MW_NOMEM, MW_LIMIT. */
enum mw_status mw_image_capture_wrap(struct mw_image *image, const struct mw_capture_notes *notes,
                                     struct mw_error *err) MW_MUST_CHECK;

#endif
