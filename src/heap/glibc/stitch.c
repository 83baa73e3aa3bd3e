/* heap/glibc/stitch.c: the spans of a segment, one after the other.
 *
 * Under one stop a span begins where the one before it ended, nowhere else: one that was guessed to
 * begin elsewhere, and whose chain does not come there, is read again. When the target has run in
 * between, or damage hides where the next chunk is, it begins at the first place behind that can be
 * believed. What a wrong guess made of a span is forgotten, its damage too. */
#include "heap/glibc/scan.h"

#include <stdlib.h>

/* Does the chain of this span come to `start`? Then what lies before is dropped. */
static bool span_drop_before(struct mw_glibc_span *span, mw_addr start)
{
    struct mw_glibc_stream_reader reader = {span->bytes, span->bytes + span->length, span->start};
    struct mw_block block;
    while (reader.address < start && mw_glibc_stream_next(&reader, &block))
        ;
    if (reader.address != start || reader.at >= reader.end)
        return false;
    span->skip = (size_t)(reader.at - span->bytes);
    span->start = start;
    uint64_t unit = (start - span->pages_start) / 16;
    while (span->link_skip < span->link_count && span->links[span->link_skip].unit < unit)
        span->link_skip++;
    size_t kept = 0;
    for (size_t i = 0; i < span->struct_count; i++)
        if (span->structs[i] > start)
            span->structs[kept++] = span->structs[i];
    span->struct_count = kept;
    return true;
}

/* No chunk starts in it; what is known of its pages stays. */
static void span_clear_blocks(struct mw_glibc_span *span)
{
    free(span->bytes);
    free(span->links);
    free(span->structs);
    span->bytes = NULL;
    span->links = NULL;
    span->structs = NULL;
    span->length = span->skip = span->link_count = span->link_skip = span->struct_count = 0;
    span->start = span->end = 0;
    span->close = MW_GLIBC_SPAN_EMPTY;
}

/* A span whose predecessor was read under the same stop: it begins at done_until, nowhere else. */
static enum mw_status span_fit(struct mw_glibc_scanned *scanned, struct mw_glibc_span *span,
                               struct mw_glibc_reader *reader)
{
    mw_addr start = scanned->done_until;
    if (span->start == start)
        return MW_OK;
    if (start >= span->pages_end) {
        span_clear_blocks(span);
        return MW_OK;
    }
    if (span->start != 0 && span->start < start && span_drop_before(span, start))
        return MW_OK;
    const struct mw_glibc_span_start how = {.at = start};
    return mw_glibc_span_read(reader, &scanned->segment, span, &how);
}

/* A span that may begin anywhere behind done_until. */
static enum mw_status span_find(struct mw_glibc_scan *scan, struct mw_glibc_scanned *scanned,
                                struct mw_glibc_span *span, struct mw_glibc_reader *reader)
{
    enum mw_status status = MW_OK;
    if (span->start == 0 || span->start < scanned->done_until) {
        const struct mw_glibc_span_start how = {.from = scanned->done_until, .is_thorough = true};
        status = mw_glibc_span_read(reader, &scanned->segment, span, &how);
    }
    if (status != MW_OK || span->start == 0)
        return status;
    if (scanned->has_run && span->start > scanned->done_until)
        scan->uncertain_bytes += span->start - scanned->done_until;
    return MW_OK;
}

/* Behind fences in brk memory: where does it go on? */
static enum mw_status segment_cut(struct mw_glibc_scan *scan, struct mw_glibc_scanned *scanned,
                                  struct mw_glibc *glibc)
{
    mw_addr end = scanned->done_until;
    uint64_t gaps = glibc->gap_bytes;
    scanned->segment.public.end = end;
    scanned->segment.top = 0;
    scanned->segment.at_brk = false;
    scanned->is_cut = scanned->is_complete = true;
    mw_glibc_scanned_release(scanned, scanned->spans_done);
    enum mw_status status = mw_glibc_segment_cut(glibc, scanned->index, end);
    scan->cut_gap_bytes += glibc->gap_bytes - gaps;
    return status;
}

/* What contradicts itself in a span that is used: only of such a one is it damage. */
static void damage_tell(const struct mw_glibc_span *span, struct mw_findings *findings)
{
    struct mw_glibc_stream_reader reader = {span->bytes + span->skip, span->bytes + span->length,
                                            span->start};
    struct mw_block block;
    while (mw_glibc_stream_next(&reader, &block))
        if (block.state == MW_BLOCK_SKIPPED)
            mw_finding_add(findings, "heap-damaged", block.address, block.size,
                           "a chunk header makes no sense; the bytes up to the next sound one "
                           "were not read");
}

static enum mw_status span_stitch(struct mw_glibc_scan *scan, struct mw_glibc_scanned *scanned,
                                  struct mw_glibc_reader *reader)
{
    size_t k = scanned->spans_done;
    struct mw_glibc_span *span = &scanned->spans.items[k];
    scanned->has_run |= k > 0 && scanned->spans.items[k - 1].round != span->round;
    enum mw_status status = MW_OK;
    if (k == 0)
        scanned->done_until = scanned->segment.first_chunk;
    else if (scanned->has_run || scanned->is_lost)
        status = span_find(scan, scanned, span, reader);
    else
        status = span_fit(scanned, span, reader);
    if (status != MW_OK)
        return status;
    scanned->spans_done++;
    scanned->last_round = span->round;
    if (span->close == MW_GLIBC_SPAN_EMPTY)
        return MW_OK;
    if (span->has_damage)
        damage_tell(span, reader->glibc->findings);
    scanned->done_until = span->end;
    scanned->has_run = false;
    scanned->is_lost = span->close == MW_GLIBC_SPAN_LOST;
    return MW_OK;
}

/* The spans of one segment that were read, up to the first that was not. */
static enum mw_status segment_stitch(struct mw_glibc_scan *scan, struct mw_glibc_scanned *scanned,
                                     struct mw_glibc *glibc, struct mw_glibc_reader *reader)
{
    while (scanned->spans_done < scanned->spans.count &&
           scanned->spans.items[scanned->spans_done].is_read) {
        enum mw_status status = span_stitch(scan, scanned, reader);
        if (status != MW_OK)
            return status;
        if (scanned->spans.items[scanned->spans_done - 1].close == MW_GLIBC_SPAN_CUT)
            return segment_cut(scan, scanned, glibc);
    }
    scanned->is_complete = scanned->spans_done == scanned->spans.count;
    return MW_OK;
}

enum mw_status mw_glibc_scan_stitch(struct mw_glibc_scan *scan, struct mw_glibc *glibc,
                                    size_t first)
{
    struct mw_glibc_reader reader;
    enum mw_status status = mw_glibc_reader_init(&reader, glibc);
    for (size_t i = first; i < scan->segments.count && status == MW_OK; i++)
        if (!scan->segments.items[i].is_complete)
            status = segment_stitch(scan, &scan->segments.items[i], glibc, &reader);
    mw_glibc_reader_deinit(&reader);
    return status;
}
