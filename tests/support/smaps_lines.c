/* tests/support/smaps_lines.c: short lines become the text of an smaps. */
#include "smaps_lines.h"

#include "base/str.h"
#include "image/open.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

void smaps_lines_open(const char *const *lines, struct mw_image *image_out)
{
    struct mw_str text = MW_STR_INIT(1 << 20);
    for (size_t i = 0; lines[i]; i++) {
        char range[40], perms[8];
        unsigned long inode, rss;
        int name_at = 0;
        if (sscanf(lines[i], "%39s %7s %lu %lu%n", range, perms, &inode, &rss, &name_at) != 4)
            fail_msg("cannot read '%s'", lines[i]);
        const char *name = lines[i] + name_at + strspn(lines[i] + name_at, " ");
        const char *flags = strstr(name, "| ");
        int length = flags ? (int)(flags - name) : (int)strlen(name);
        while (length > 0 && name[length - 1] == ' ')
            length--;
        mw_str_printf(&text, "%s %s 00000000 fe:00 %lu %.*s\nRss: %lu kB\n", range, perms, inode,
                      length, name, rss);
        if (flags)
            mw_str_printf(&text, "VmFlags: %s\n", flags + 2);
    }
    struct mw_error err = {0};
    if (mw_image_open_smaps(mw_str_text(&text), text.length, "test", image_out, &err) != MW_OK)
        fail_msg("%s", err.text);
    mw_str_deinit(&text);
}
