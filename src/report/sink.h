/* report/sink.h: where an output goes. The command line gives one on standard output, a server one
 * on a connection, a test one on a buffer; emitters know no other way out. */
#ifndef MW_REPORT_SINK_H
#define MW_REPORT_SINK_H

#include <stddef.h>

struct mw_sink {
    void *user;
    /* Take all of length bytes. 0, or an errno (EPIPE: the reader has gone), after which it is not
     * called again. */
    int (*write)(void *user, const void *bytes, size_t length);
};

#endif
