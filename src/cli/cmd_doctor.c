/* cli/cmd_doctor.c: memwhy doctor [PID]: what this machine permits, and how to get the rest. */
#include "cli/cli.h"

#include "report/doctor_report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static bool pid_parse(const char *text, int32_t *pid_out)
{
    char *end;
    errno = 0;
    long pid = strtol(text, &end, 10);
    if (text[0] < '1' || text[0] > '9' || *end != '\0' || errno != 0 || pid > INT32_MAX)
        return false;
    *pid_out = (int32_t)pid;
    return true;
}

static enum mw_exit conclude(struct mw_cli *cli, const struct mw_doctor *doctor,
                             enum mw_status emitted, const struct mw_error *err)
{
    enum mw_exit exit_code = mw_cli_conclude(cli, NULL, emitted, err);
    for (size_t i = 0; i < doctor->check_count && exit_code == MW_EXIT_FINE; i++)
        if (!doctor->checks[i].allowed && mw_doctor_access_is_needed(doctor->checks[i].access))
            exit_code = MW_EXIT_PARTIAL;
    return exit_code;
}

static enum mw_exit run(struct mw_cli *cli)
{
    struct mw_doctor doctor;
    struct mw_error err = {0};
    int32_t pid = 0;
    if (cli->target_count > 0 && !pid_parse(cli->targets[0], &pid)) {
        mw_cli_say(cli, "'%.60s' is no process id: doctor is about live processes",
                   cli->targets[0]);
        return MW_EXIT_USAGE;
    }
    int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (proc_fd < 0) {
        (void)mw_fail_errno(&err, errno, "cannot open '/proc'");
        return mw_cli_fail(cli, &err);
    }
    enum mw_status status = mw_doctor_run(proc_fd, pid, cli->cgroup_root, &doctor, &err);
    close(proc_fd);
    if (status != MW_OK)
        return mw_cli_fail(cli, &err);
    status = mw_cli_has(cli, MW_OPTION_JSON)
                 ? mw_report_doctor_json(&doctor, cli->out, &err)
                 : mw_report_doctor_text(&doctor, mw_cli_screen_look(cli), cli->out, &err);
    return conclude(cli, &doctor, status, &err);
}

const struct mw_command mw_command_doctor = {
    .name = "doctor",
    .arguments = "[PID]",
    .summary = "what this machine permits, and how to get the rest",
    .about =
        "Tries each kind of access that memwhy uses, on PID or on a child of its own: smaps, "
        "memory,\n"
        "process_vm_readv, ptrace, pagemap, the cgroup. For each it says whether it works, what\n"
        "denies it (Yama, seccomp, a security module, a user namespace, a missing capability,\n"
        "another user, another tracer), and the ways out: on a plain machine, in Docker, in\n"
        "Kubernetes. PID is attached to for a moment, and not stopped.",
    .examples = "memwhy doctor\twhat is permitted here in general\n"
                "memwhy doctor 4121\tand on this process\n",
    .options = MW_OPTION_BIT(JSON) | MW_OPTION_BIT(CGROUP_ROOT),
    .targets_min = 0,
    .targets_max = 1,
    .run = run,
};
