/* cli/commands.c: the list of commands. */
#include "cli/cli.h"

#include <string.h>

const struct mw_command *const mw_commands[] = {
    &mw_command_report,  &mw_command_heap,
    &mw_command_blocks,  &mw_command_maps,
    &mw_command_leaks,   &mw_command_refs,
    &mw_command_pins,    &mw_command_trim,
    &mw_command_stacks,  &mw_command_diff,
    &mw_command_collect, &mw_command_verify,
    &mw_command_doctor,  NULL,
};

const struct mw_command *mw_command_find(const char *name)
{
    for (size_t i = 0; mw_commands[i]; i++)
        if (mw_commands[i]->name && strcmp(mw_commands[i]->name, name) == 0)
            return mw_commands[i];
    return NULL;
}
