/* base/error.h: how a function says that its operation has no answer.
 *
 * A function that can fail returns enum mw_status and takes a caller-owned struct mw_error as its
 * last parameter; NULL means that the caller only wants the code. Failing never allocates. A
 * wrapper adds context with mw_error_prefix() and keeps the innermost code, errno and address.
 * Messages follow git's grammar: "cannot open '/proc/1/maps'", lower case, no full stop. An
 * incomplete answer is not an error: that is a finding (base/finding.h). */
#ifndef MW_BASE_ERROR_H
#define MW_BASE_ERROR_H

#include <stdint.h>

typedef uint64_t mw_addr; /* an address in the target, never a pointer of ours */

enum mw_status {
    MW_OK = 0,
    MW_NOMEM,       /* our own allocation failed or a budget is used up */
    MW_OS,          /* a system call failed, see os_errno */
    MW_PERM,        /* a privilege is missing */
    MW_GONE,        /* the target has exited */
    MW_FAULT,       /* an address cannot be read in the target */
    MW_TRUNCATED,   /* the input ends before what it announces */
    MW_CORRUPT,     /* the input contradicts itself */
    MW_UNSUPPORTED, /* well-formed, but of a kind we do not read */
    MW_NOT_FOUND,
    MW_LIMIT,    /* a bound of base/limits.h or of the caller was reached */
    MW_CANCELED, /* the context was cancelled */
    MW_INVALID,  /* the caller's arguments make no sense */
};

#define MW_MUST_CHECK __attribute__((warn_unused_result))
#define MW_PRINTF(fmt_index, first) __attribute__((format(printf, fmt_index, first)))

struct mw_error {
    enum mw_status code;
    int os_errno;    /* 0 when no system call was involved */
    mw_addr address; /* in the target; 0 when none was involved */
    char text[240];  /* one line, escaped, no trailing newline */
    char hint[240];  /* the next command to type, or "" */
};

/* Short constant name of a status, e.g. "perm". Never NULL. */
const char *mw_status_name(enum mw_status code);

/* Fill *err (if not NULL) and return code, so that `return mw_fail(err, …)` reads well. */
enum mw_status mw_fail(struct mw_error *err, enum mw_status code, const char *fmt, ...)
    MW_PRINTF(3, 4);

/* The same for a failed system call: appends ": <strerror>" and maps EPERM/EACCES to MW_PERM,
 * ESRCH to MW_GONE, ENOENT to MW_NOT_FOUND, ENOMEM to MW_NOMEM, everything else to MW_OS. */
enum mw_status mw_fail_errno(struct mw_error *err, int os_errno, const char *fmt, ...)
    MW_PRINTF(3, 4);

/* The same for a read of the target's memory at address. */
enum mw_status mw_fail_at(struct mw_error *err, enum mw_status code, mw_addr address,
                          const char *fmt, ...) MW_PRINTF(4, 5);

/* Put "<context>: " in front of the text; keeps code, errno and address. NULL is allowed. */
void mw_error_prefix(struct mw_error *err, const char *fmt, ...) MW_PRINTF(2, 3);

/* Set the hint line. NULL is allowed. */
void mw_error_hint(struct mw_error *err, const char *fmt, ...) MW_PRINTF(2, 3);

#endif
