/* tests/support/child.c: see child.h. */
#include "child.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* What pause() is to the kernel. */
#ifdef SYS_pause
enum { PAUSE_NUMBER = SYS_pause };
#else
enum { PAUSE_NUMBER = SYS_ppoll };
#endif

/* Wait until it sleeps in pause(): before that its last steps still touch pages. */
static void wait_asleep(pid_t pid)
{
    for (int i = 0; i < 1000; i++) {
        char name[64], text[256] = "";
        snprintf(name, sizeof name, "/proc/%d/syscall", pid);
        FILE *file = fopen(name, "r");
        size_t got = file ? fread(text, 1, sizeof text - 1, file) : 0;
        if (file)
            fclose(file);
        if (got == 0 || (strncmp(text, "running", 7) != 0 && atol(text) == PAUSE_NUMBER))
            return; /* asleep, or we may not look */
        usleep(1000);
    }
}

void *child_start(struct child *child, void (*prepare)(void *report), size_t length)
{
    int ready[2];
    char byte = 0;
    void *report = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (report == MAP_FAILED || pipe(ready) != 0) {
        perror("child");
        exit(1);
    }
    child->pid = fork();
    if (child->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prepare(report);
        if (write(ready[1], &byte, 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    if (child->pid < 0 || read(ready[0], &byte, 1) != 1) {
        perror("child");
        exit(1);
    }
    close(ready[0]);
    wait_asleep(child->pid);
    return report;
}

void child_stop(struct child *child, void *report, size_t length)
{
    if (child->pid > 0) {
        kill(child->pid, SIGKILL);
        waitpid(child->pid, NULL, 0);
    }
    child->pid = 0;
    munmap(report, length);
}
