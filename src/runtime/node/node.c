#include "runtime/node/node.h"
static enum mw_status node_probe(struct mw_image *image, struct mw_claims *claims, struct mw_runtime *runtime_out, struct mw_findings *findings, struct mw_error *err)
{ (void)image;(void)claims;(void)runtime_out;(void)findings;(void)err; return MW_NOT_FOUND; }
const struct mw_runtime_probe mw_runtime_node = {.kind = "node", .probe = node_probe};
