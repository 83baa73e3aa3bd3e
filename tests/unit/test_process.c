/* tests/unit/test_process.c: status, stat, limits, environment; hostile names; a fake /proc; this
 * process against what the C library says of it. */
#include "base/alloc.h"
#include "proc/process.h"
#include "temp_tree.h"

#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const char status_text[] = "Name:\tred\\nis \x01server\n"
                                  "Umask:\t0022\n"
                                  "State:\tS (sleeping)\n"
                                  "Tgid:\t4711\n"
                                  "Pid:\t4711\n"
                                  "PPid:\t12\n"
                                  "TracerPid:\t99\n"
                                  "Uid:\t1000\t1001\t1002\t1003\n"
                                  "NSpid:\t4711\t23\t5\n"
                                  "VmPeak:\t 101 kB\n"
                                  "VmSize:\t 102 kB\n"
                                  "VmLck:\t 103 kB\n"
                                  "VmPin:\t 104 kB\n"
                                  "VmHWM:\t 105 kB\n"
                                  "VmRSS:\t 106 kB\n"
                                  "RssAnon:\t 107 kB\n"
                                  "RssFile:\t 108 kB\n"
                                  "RssShmem:\t 109 kB\n"
                                  "VmData:\t 110 kB\n"
                                  "VmPTE:\t 111 kB\n"
                                  "VmSwap:\t 112 kB\n"
                                  "HugetlbPages:\t 113 kB\n"
                                  "Threads:\t971\n"
                                  "Seccomp:\t2\n"
                                  "Seccomp_filters:\t7\n"
                                  "Cpus_allowed:\tff,00000000,0000000f\n"
                                  "Cpus_allowed_list:\t0-3,64-71\n"
                                  "x86_Thread_features:\twrss shstk \n"
                                  "x86_Thread_features_locked:\t\n";

static void test_status(void **state)
{
    (void)state;
    struct mw_process process;
    mw_process_init(&process);
    mw_process_parse_status(&process, status_text);
    assert_string_equal(process.comm, "red\\nis \\x01server");
    assert_int_equal(process.state, 'S');
    assert_int_equal(process.pid, 4711);
    assert_int_equal(process.ns_pid, 5);
    assert_true(process.other_pid_namespace);
    assert_int_equal(process.ppid, 12);
    assert_int_equal(process.tracer_pid, 99);
    assert_int_equal(process.uid, 1000);
    assert_int_equal(process.euid, 1001);
    const uint64_t got[] = {
        process.vm_peak, process.vm_size,  process.vm_lck,   process.vm_pin,    process.vm_hwm,
        process.vm_rss,  process.rss_anon, process.rss_file, process.rss_shmem, process.vm_data,
        process.vm_pte,  process.vm_swap,  process.hugetlb,
    };
    for (size_t i = 0; i < sizeof got / sizeof *got; i++)
        assert_true(got[i] == (101 + i) * 1024);
    assert_true(process.thread_count == 971);
    assert_int_equal(process.seccomp, 2);
    assert_true(process.cpus_allowed == 12);
    assert_true(process.user_shadow_stack);
    mw_process_deinit(&process);
}

/* Nothing is 0 that is not told. */
static void test_status_unknown(void **state)
{
    (void)state;
    struct mw_process process;
    mw_process_init(&process);
    mw_process_parse_status(&process,
                            "VmRSS:\nVmSize: x kB\nThreads:\nVmSwap: 99999999999999999999 kB"
                            "\nVmHWM: 18446744073709551615 kB\nVmRSSX: 4 kB\nNSpid:\t\n");
    assert_true(process.vm_rss == MW_UNKNOWN && process.vm_size == MW_UNKNOWN);
    assert_true(process.thread_count == MW_UNKNOWN && process.vm_swap == MW_UNKNOWN);
    assert_true(process.vm_hwm == MW_UNKNOWN && process.cpus_allowed == MW_UNKNOWN);
    assert_int_equal(process.seccomp, -1);
    assert_int_equal(process.pid, 0);
    assert_false(process.other_pid_namespace);
    assert_false(process.user_shadow_stack);
}

static struct mw_process parse_environ(const char *bytes, size_t length)
{
    struct mw_process process;
    mw_process_init(&process);
    assert_int_equal(mw_process_parse_environ(&process, bytes, length), MW_OK);
    return process;
}

#define ENVIRON(...) parse_environ(__VA_ARGS__, sizeof __VA_ARGS__)

static void assert_setting(const struct mw_process *process, const char *name, const char *value)
{
    const char *got = mw_process_setting(process, name);
    assert_non_null(got);
    assert_string_equal(got, value);
}

static void test_settings_that_are_kept(void **state)
{
    (void)state;
    struct mw_process process =
        ENVIRON("PATH=/bin\0MALLOC_ARENA_MAX=4\0MALLOC_TRIM_THRESHOLD_=131072\0"
                "GLIBC_TUNABLES=glibc.malloc.arena_max=2:glibc.malloc.tcache_count=0\0"
                "MALLOC_CONF=narenas:4,background_thread:true\0"
                "LD_PRELOAD=/opt/secret/libjemalloc.so.2:libfoo.so\0"
                "DOTNET_gcServer=1\0DOTNET_GCHeapHardLimit=0x10000000\0COMPlus_GCHeapCount=4\0"
                "GOGC=off\0GOMEMLIMIT=512MiB\0GODEBUG=madvdontneed=1,gctrace=1\0"
                "PYTHONMALLOC=malloc_debug\0MIMALLOC_PURGE_DELAY=10\0"
                "TCMALLOC_RELEASE_RATE=10.5\0_RJEM_MALLOC_CONF=dirty_decay_ms:0\0EMPTY");
    assert_int_equal(process.setting_count, 15);
    assert_setting(&process, "MALLOC_ARENA_MAX", "4");
    assert_setting(&process, "MALLOC_TRIM_THRESHOLD_", "131072");
    assert_setting(&process, "GLIBC_TUNABLES",
                   "glibc.malloc.arena_max=2:glibc.malloc.tcache_count=0");
    assert_setting(&process, "MALLOC_CONF", "narenas:4,background_thread:true");
    assert_setting(&process, "LD_PRELOAD", "libjemalloc.so.2:libfoo.so");
    assert_setting(&process, "DOTNET_gcServer", "1");
    assert_setting(&process, "DOTNET_GCHeapHardLimit", "0x10000000");
    assert_setting(&process, "GOMEMLIMIT", "512MiB");
    assert_setting(&process, "GODEBUG", "madvdontneed=1,gctrace=1");
    assert_setting(&process, "PYTHONMALLOC", "malloc_debug");
    assert_setting(&process, "TCMALLOC_RELEASE_RATE", "10.5");
    assert_null(mw_process_setting(&process, "PATH"));
    mw_process_deinit(&process);
    assert_int_equal(process.setting_count, 0);
}

static void test_java_and_node_options(void **state)
{
    (void)state;
    struct mw_process process = ENVIRON(
        "JAVA_TOOL_OPTIONS=-Xmx4g -Dpassword=hunter2 -XX:MaxRAMPercentage=75.0 -javaagent:/x=key "
        "-XX:+UseG1GC -XX:HeapDumpPath=/srv/tenant -XX:OnOutOfMemoryError=curl\0"
        "_JAVA_OPTIONS=-Xss512k -XX:NativeMemoryTracking=summary -XX:MaxDirectMemorySize=1g "
        "-Djdk.nio.maxCachedBufferSize=262144 -Dio.netty.maxDirectMemory=0\0"
        "JDK_JAVA_OPTIONS=@argfile -cp /secret\0"
        "NODE_OPTIONS=--max-old-space-size=4096 --require=/app/key.js --max_semi_space_size=64 "
        "--inspect=0.0.0.0:9229\0");
    assert_setting(&process, "JAVA_TOOL_OPTIONS", "-Xmx4g -XX:MaxRAMPercentage=75.0 -XX:+UseG1GC");
    assert_setting(&process, "_JAVA_OPTIONS",
                   "-Xss512k -XX:NativeMemoryTracking=summary -XX:MaxDirectMemorySize=1g "
                   "-Djdk.nio.maxCachedBufferSize=262144 -Dio.netty.maxDirectMemory=0");
    assert_setting(&process, "JDK_JAVA_OPTIONS", "(not shown)");
    assert_setting(&process, "NODE_OPTIONS", "--max-old-space-size=4096 --max_semi_space_size=64");
    mw_process_deinit(&process);
}

/* A secret behind a name that we keep, in every way we could think of. */
static void test_secrets_do_not_pass(void **state)
{
    (void)state;
    static const char *const names[] = {
        "MALLOC_ARENA_MAX", "MALLOC_CONF",        "GLIBC_TUNABLES", "DOTNET_GCName",
        "GODEBUG",          "TCMALLOC_X",         "MIMALLOC_X",     "JAVA_TOOL_OPTIONS",
        "NODE_OPTIONS",     "PYTHONMALLOC",       "RUBY_GC_X",      "GOMEMLIMIT",
        "_JAVA_OPTIONS",    "UV_THREADPOOL_SIZE",
    };
    static const char *const secrets[] = {
        "eyJhbGciOiJIUzI1NiJ9.e30.Zm9v",
        "postgres://user:Tr0ub4dor@db/x",
        "AKIA4EXAMPLE7KEY1234",
        "c0ffee00c0ffee00c0ffee00c0ffee00",
        "-Dtoken=Tr0ub4dor3xyz",
        "--token=Tr0ub4dor3xyz",
        "opt:c0ffee00c0ffee00c0ffee00c0ffee00",
        "a=c0ffee00c0ffee00c0ffee00c0ffee00",
        "correct-horse-battery-staple",
        "hunter2",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t k = 0; k < sizeof secrets / sizeof *secrets; k++) {
            char text[256];
            int length = snprintf(text, sizeof text, "%s=%s", names[i], secrets[k]);
            struct mw_process process = parse_environ(text, (size_t)length);
            assert_int_equal(process.setting_count, 1);
            assert_setting(&process, names[i], "(not shown)");
            mw_process_deinit(&process);
        }
    struct mw_process process =
        ENVIRON("DATABASE_URL=x\0MY_MALLOC_ARENA_MAX=4\0DOTNET_TOKEN=4\0JAVA_OPTS=-Xmx1g\0"
                "MALLOC_=4\0=MALLOC_ARENA_MAX=4\0");
    assert_int_equal(process.setting_count, 0);
    mw_process_deinit(&process);
}

static void test_environ_is_bounded(void **state)
{
    (void)state;
    char bytes[200 * 32];
    size_t length = 0;
    for (int i = 0; i < 200; i++)
        length += (size_t)sprintf(bytes + length, "MIMALLOC_V%d=%d", i, i) + 1;
    struct mw_process process = parse_environ(bytes, length);
    assert_int_equal(process.setting_count, 64);
    mw_process_deinit(&process);
    process = ENVIRON("GOGC=1\0GOGC=2\0\0\0GOGC");
    assert_int_equal(process.setting_count, 1);
    assert_setting(&process, "GOGC", "1"); /* as getenv() */
    mw_process_deinit(&process);
}

static void test_environ_out_of_memory(void **state)
{
    (void)state;
    static const char bytes[] = "GOGC=1\0MALLOC_CONF=narenas:4\0LD_PRELOAD=/a/b\0NODE_OPTIONS=x";
    int failures = 0;
    for (long n = 0;; n++) {
        struct mw_process process;
        mw_process_init(&process);
        mw_alloc_fail_after(n);
        enum mw_status status = mw_process_parse_environ(&process, bytes, sizeof bytes);
        mw_alloc_fail_after(-1);
        mw_process_deinit(&process);
        if (status == MW_OK)
            break;
        assert_int_equal(status, MW_NOMEM);
        failures++;
        assert_true(n < 100);
    }
    assert_true(failures >= 8);
}

static void write_fake_proc(const struct temp_tree *tree)
{
    temp_tree_write(tree, "proc/4711/status", status_text);
    temp_tree_write(
        tree, "proc/4711/stat",
        "4711 (a) b) S 1 S) R 12 4711 4711 0 -1 4194560 201 202 203 204 0 0 0 0 20 0 971"
        " 0 100 0 0 0\n");
    temp_tree_write(tree, "proc/4711/limits",
                    "Limit                     Soft Limit           Hard Limit           Units\n"
                    "Max stack size            8388608              unlimited            bytes\n"
                    "Max address space         unlimited            unlimited            bytes\n");
    temp_tree_write_bytes(tree, "proc/4711/cmdline", "java\0-Xmx1g\0a\x1b[31mb\0", 20);
    temp_tree_write_bytes(tree, "proc/4711/environ", "GOGC=50\0X=1\0", 12);
    temp_tree_write(tree, "proc/sys/vm/max_map_count", "65530\n");
    temp_tree_write(tree, "sys/devices/system/cpu/online", "0-1,4,8-11\n");
}

static void test_load_from_a_fake_proc(void **state)
{
    (void)state;
    struct temp_tree tree;
    temp_tree_make(&tree);
    write_fake_proc(&tree);
    int proc_fd = openat(tree.fd, "proc", O_RDONLY | O_DIRECTORY);
    struct mw_process process;
    assert_int_equal(mw_process_load(proc_fd, 4711, &process, NULL), MW_OK);
    assert_true(process.minflt == 201 && process.majflt == 203);
    assert_true(process.limit_stack == 8388608 && process.limit_as == MW_UNKNOWN);
    assert_string_equal(process.command, "java -Xmx1g a\\x1b[31mb");
    assert_true(process.has_settings);
    assert_setting(&process, "GOGC", "50");
    assert_true(process.max_map_count == 65530);
    assert_true(process.cpus_online == 7);
    assert_null(process.exe);
    assert_true(process.uptime_seconds >= 0 && process.started_at > 0);
    mw_process_deinit(&process);
    struct mw_error err = {0};
    assert_int_equal(mw_process_load(proc_fd, 4712, &process, &err), MW_GONE);
    assert_string_equal(err.text, "there is no process 4712");
    for (long n = 0; n < 40; n++) { /* whatever is missing, it never fails otherwise */
        mw_alloc_fail_after(n);
        enum mw_status status = mw_process_load(proc_fd, 4711, &process, NULL);
        mw_alloc_fail_after(-1);
        assert_true(status == MW_OK || status == MW_NOMEM);
        if (status == MW_OK)
            mw_process_deinit(&process);
    }
    close(proc_fd);
    temp_tree_remove(&tree);
}

/* A member of very many groups, which status lists. */
static void test_load_with_many_groups(void **state)
{
    (void)state;
    enum { GROUPS = 65536, BYTES = GROUPS * 11 + 128 };
    struct temp_tree tree;
    temp_tree_make(&tree);
    char *text = calloc(1, BYTES);
    assert_non_null(text);
    size_t length = (size_t)snprintf(text, BYTES, "Name:\tx\nGroups:\t");
    for (unsigned i = 0; i < GROUPS; i++)
        length += (size_t)snprintf(text + length, BYTES - length, "%u ", 4000000000u + i);
    snprintf(text + length, BYTES - length, "\nVmRSS:\t 12 kB\n");
    temp_tree_write(&tree, "proc/4713/status", text);
    int proc_fd = openat(tree.fd, "proc", O_RDONLY | O_DIRECTORY);
    struct mw_process process;
    assert_int_equal(mw_process_load(proc_fd, 4713, &process, NULL), MW_OK);
    assert_int_equal(process.vm_rss, 12 << 10);
    mw_process_deinit(&process);
    free(text);
    close(proc_fd);
    temp_tree_remove(&tree);
}

/* btime of /proc/stat and the start in /proc/PID/stat: what ps(1) adds up. */
static int64_t started_at_by_btime(pid_t pid)
{
    char name[64], text[4096];
    long long btime = 0;
    unsigned long long ticks = 0;
    FILE *file = fopen("/proc/stat", "r");
    while (fgets(text, sizeof text, file))
        if (sscanf(text, "btime %lld", &btime) == 1)
            break;
    fclose(file);
    snprintf(name, sizeof name, "/proc/%d/stat", pid);
    file = fopen(name, "r");
    assert_int_equal(fscanf(file,
                            "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u "
                            "%*d %*d %*d %*d %*d %*d %llu",
                            &ticks),
                     1);
    fclose(file);
    return btime + (int64_t)ticks / sysconf(_SC_CLK_TCK);
}

static void test_load_this_process(void **state)
{
    (void)state;
    int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY);
    struct mw_process process;
    assert_int_equal(mw_process_load(proc_fd, getpid(), &process, NULL), MW_OK);
    assert_int_equal(process.pid, getpid());
    assert_int_equal(process.ppid, getppid());
    assert_int_equal(process.euid, geteuid());
    assert_int_equal(process.state, 'R');
    assert_true(process.thread_count == 1);
    assert_non_null(strstr(process.exe, "test_process"));
    assert_non_null(strstr(process.command, "test_process"));
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    assert_true(process.cpus_allowed == (uint64_t)CPU_COUNT(&allowed));
    assert_true(process.cpus_online == (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
    struct rlimit limit;
    getrlimit(RLIMIT_STACK, &limit);
    assert_true(process.limit_stack ==
                (limit.rlim_cur == RLIM_INFINITY ? MW_UNKNOWN : limit.rlim_cur));
    int64_t difference = process.started_at - started_at_by_btime(getpid());
    assert_true(difference >= -2 && difference <= 2);
    assert_true(process.uptime_seconds >= 0 && process.uptime_seconds < 3600);
    assert_true(process.vm_rss != MW_UNKNOWN && process.vm_rss > 0);
    assert_true(process.has_settings);
    assert_false(process.other_mount_namespace);
    assert_false(process.other_pid_namespace);
    mw_process_deinit(&process);
    close(proc_fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_status_unknown),
        cmocka_unit_test(test_settings_that_are_kept),
        cmocka_unit_test(test_java_and_node_options),
        cmocka_unit_test(test_secrets_do_not_pass),
        cmocka_unit_test(test_environ_is_bounded),
        cmocka_unit_test(test_environ_out_of_memory),
        cmocka_unit_test(test_load_from_a_fake_proc),
        cmocka_unit_test(test_load_with_many_groups),
        cmocka_unit_test(test_load_this_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
