/* verdict/verdict.h: from evidence to sentences that an engineer can act on.
 *
 * Rules are pure functions of an evidence record; the engine charges bytes, orders the verdicts,
 * and adds `unknown`. A rule states what decided it, what it ruled out and what each remedy would
 * give, computed from this process's own figures. For users: docs/guide/verdicts.md; for
 * developers: docs/design/006-verdict-engine.md.
 *
 * Every resident byte is charged to one top-level verdict (part_of NULL): those of every class but
 * `outside` add up to the account's total, less what the kernel counts in the Rss and `outside`
 * names: mappings of devices. Verdicts of class `outside` carry bytes that are not memory of this
 * process in RAM (swap, kernel, page cache, devices). A verdict with part_of explains the same
 * bytes again.
 *
 * To add a rule: one function in the file of its family, one row in rules.c, one fixture in
 * tests/live/test_verdicts.py that shows it first and one look-alike that it must not fire on. */
#ifndef MW_VERDICT_VERDICT_H
#define MW_VERDICT_VERDICT_H

#include "account/account.h"
#include "account/huge.h"
#include "base/finding.h"
#include "graph/references.h"
#include "heap/walker.h"
#include "proc/cgroup.h"
#include "proc/family.h"
#include "runtime/probe.h"

/* Contract order: the order in which verdicts are shown. */
enum mw_class {
    MW_CLASS_LEAKED,
    MW_CLASS_GROWING,
    MW_CLASS_KEPT,
    MW_CLASS_OUTSIDE,
    MW_CLASS_NEEDED
};
enum mw_basis { MW_BASIS_PROVEN, MW_BASIS_LIKELY, MW_BASIS_POSSIBLE };
const char *mw_class_name(enum mw_class verdict_class);
const char *mw_basis_name(enum mw_basis basis);

struct mw_evidence_item {
    char *text;
    bool has_value;
    bool names_file; /* a path of the target's is in it: not for a public report */
    uint64_t value;
    const char *source; /* static: "heap walk", "smaps", "mp_ in memory", "environ", "cgroup" */
};

struct mw_ruled_out {
    const char *id;
    char *why;
};

struct mw_remedy {
    char *action;
    bool has_gain;
    uint64_t gain_low_bytes, gain_high_bytes;
    char *basis;  /* why this gain: "predicted page for page", "upper bound: …" */
    char *verify; /* the command that checks it afterwards */
};

struct mw_verdict {
    const char *id; /* static, from VERDICTS */
    enum mw_class verdict_class;
    enum mw_basis basis;
    uint64_t bytes;      /* charged to it; resident unless the target has no residency */
    const char *part_of; /* id of the state that it explains, NULL: top level */
    bool minor;
    char *summary; /* one sentence */
    struct mw_evidence_item *evidence;
    size_t evidence_count, evidence_room;
    struct mw_ruled_out *ruled_out;
    size_t ruled_out_count, ruled_out_room;
    struct mw_remedy *remedies;
    size_t remedy_count, remedy_room;
};

struct mw_verdicts {
    struct mw_verdict *items;
    size_t count, room;
    /* beside the verdicts */
    char *peak;      /* sentence about the peak, NULL: nothing to say */
    char *was;       /* what the kept free memory last held, NULL */
    char *container; /* who holds a container that is near its limit, NULL: nothing to say */
    char **known;    /* known causes and leftovers of workarounds, sentences */
    size_t known_count, known_room;
};

/* Blocks in use that nothing points to, by kind: what following all pointers has found. */
struct mw_leak_kind {
    uint64_t size_bytes, usable_bytes, count, bytes, direct_count;
    const char *signature; /* what they are: layout, type or constant words; "" unknown */
    const char *caller;    /* "f in libx.so, after the call of g": who made them; "" unknown */
};
struct mw_leak_evidence {
    bool is_exact; /* of one moment, and whole: else what looks lost is uncertain */
    uint64_t held_count, held_bytes;
    uint64_t lost_count, lost_bytes, direct_count;
    uint64_t lost_resident_bytes;     /* MW_UNKNOWN */
    const struct mw_leak_kind *kinds; /* most bytes first */
    size_t kind_count;                /* of them; kinds_in_all may be more */
    uint64_t kinds_in_all;
};

/* What holds the blocks of the size that has the most bytes in use. */
struct mw_holder_evidence {
    uint64_t size_bytes; /* of the blocks */
    uint64_t sampled, through;
    bool is_found;
    uint64_t address, holder_bytes, retained_count, retained_bytes;
    const char *type; /* what the holder is; "" unknown */
    const char *root; /* "data 0x… g_table+0x10 (app)": what leads to it; "" unknown */
};

/* All that rules may look at. Members may be NULL or empty: then their rules stay silent. */
struct mw_evidence {
    const struct mw_image *image;
    const struct mw_account *account;
    const struct mw_allocator *allocators;
    size_t allocator_count;
    const struct mw_runtime *runtimes;
    size_t runtime_count;
    const struct mw_cgroup *cgroup;
    const struct mw_family *family; /* whom it was forked with; NULL: not asked */
    const struct mw_findings *findings;
    const struct mw_references *references;  /* of the size that holds the most; NULL: not asked */
    const struct mw_leak_evidence *leaks;    /* NULL: not asked */
    const struct mw_holder_evidence *holder; /* NULL: not asked */
    const struct mw_huge *huge; /* what of huge pages was never used; NULL: not looked into */
    bool heap_was_read;         /* false: mapping level only */
    const struct mw_error *why_unread; /* why not, with what helps; NULL: there is no reason but
                                        * that no allocator is known, or that it is not walked */
};

/* The same for all processes of a cgroup. Sums over those whose memory was read, in bytes;
 * MW_UNKNOWN for what one of them does not tell. */
struct mw_group_evidence {
    const struct mw_cgroup *cgroup; /* figures of the group */
    uint64_t process_count, read_count;
    uint64_t rss, pss, anonymous, pss_anon;
};

/* Evaluate all rules, charge, order. Reads nothing but `evidence`; linear in its arrays. MW_NOMEM,
 * then verdicts_out is untouched. */
enum mw_status mw_verdicts_evaluate(const struct mw_evidence *evidence,
                                    struct mw_verdicts *verdicts_out,
                                    struct mw_error *err) MW_MUST_CHECK;

/* Verdicts about a group as a whole: copy-on-write, kernel-memory, page-cache, where they hold.
 * There may be none. */
enum mw_status mw_group_verdicts_evaluate(const struct mw_group_evidence *group,
                                          struct mw_verdicts *verdicts_out,
                                          struct mw_error *err) MW_MUST_CHECK;

/* The verdict with this id, or NULL. */
const struct mw_verdict *mw_verdict_find(const struct mw_verdicts *verdicts, const char *id);

void mw_verdicts_deinit(struct mw_verdicts *verdicts);

#endif
