/* growth/difference.h: what grew between two moments, row by row. */
#ifndef MW_GROWTH_DIFFERENCE_H
#define MW_GROWTH_DIFFERENCE_H

#include "growth/moment.h"

enum mw_growth_what { MW_GROWTH_CATEGORY, MW_GROWTH_SIZE, MW_GROWTH_KIND, MW_GROWTH_WHAT_COUNT };

enum { MW_GROWTH_ID_ROOM = MW_KIND_NAME_ROOM + 32 };

/* Figures of one moment; MW_UNKNOWN where it does not tell. */
struct mw_growth_figures {
    uint64_t bytes, count, lost_count;
};

struct mw_growth_row {
    enum mw_growth_what what;
    char id[MW_GROWTH_ID_ROOM]; /* a category's id; a chunk size in decimal; that and a name */
    struct mw_growth_figures before, after;
    struct mw_growth_figures control_before, control_after; /* 0 where there is no control */
    uint64_t survived_count; /* of a size: blocks that are where they were; MW_UNKNOWN */
};

struct mw_difference {
    struct mw_growth_row *rows; /* by what, then by growth less the control's, then by id */
    size_t row_count;
    double elapsed_seconds; /* < 0: unknown */
    bool is_file_time;      /* elapsed by the times of files */
    bool is_same_process, has_control, has_heap;
    bool is_mapped; /* categories are of mapped bytes: some moment has no residency */
    uint64_t rss_before, rss_after; /* MW_UNKNOWN */
};

struct mw_difference_input {
    const struct mw_moment *before, *after;
    const struct mw_moment *control_before, *control_after; /* both or neither */
};

/* Rows of which neither moment has anything are left out. MW_NOMEM. */
enum mw_status mw_difference_make(const struct mw_difference_input *input,
                                  struct mw_difference *difference_out,
                                  struct mw_error *err) MW_MUST_CHECK;
void mw_difference_deinit(struct mw_difference *difference);

/* after - before, less what the control grew; 0 where one of them is unknown. */
int64_t mw_growth_bytes(const struct mw_growth_row *row);
int64_t mw_growth_count(const struct mw_growth_row *row);

#endif
