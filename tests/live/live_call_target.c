/* tests/live/live_call_target.c: programs into which memwhy calls. Each mode does one thing over
 * and over and checks every result, so that a thread that was not put back exactly is noticed.
 *
 * Usage: live_call_target MODE SHARED-FILE; descriptor 3 is a pipe on which the test writes 8-byte
 * numbers that count up (modes that wait for input). Ends when the test's end of the pipe closes or
 * when `stop` is set, and by itself after ten minutes. */
#include "live_call_target.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { PIPE_FD = 3, STORM_THREADS = 4, STORM_BLOCKS = 256 };

static struct shared *shared;

static void wrong(const char *why)
{
    if (atomic_fetch_add(&shared->errors, 1) == 0)
        snprintf(shared->why, sizeof shared->why, "%s (errno %d)", why, errno);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void round_done(void)
{
    atomic_fetch_add(&shared->progress, 1);
}

/* ---- what is called ------------------------------------------------------------------------ */

/* Destroys everything that a function may destroy, and more: all vector registers, mask registers,
 * the x87 stack, MXCSR and x87 control words, flags. Checks its arguments and the alignment. */
__attribute__((noinline)) static void registers_destroy(void)
{
    uint32_t mxcsr = 0x7f80;
    uint16_t control = 0x0c7f;
    __asm__ volatile("fninit\n fldpi\n fldl2e\n fldpi\n fldcw %0\n ldmxcsr %1" ::"m"(control),
                     "m"(mxcsr));
    if (__builtin_cpu_supports("avx512f"))
        __asm__ volatile(
            "vpternlogd $0xff,%%zmm0,%%zmm0,%%zmm0\n"
            "vmovdqa64 %%zmm0,%%zmm1\n vmovdqa64 %%zmm0,%%zmm2\n vmovdqa64 %%zmm0,%%zmm3\n"
            "vmovdqa64 %%zmm0,%%zmm4\n vmovdqa64 %%zmm0,%%zmm5\n vmovdqa64 %%zmm0,%%zmm7\n"
            "vmovdqa64 %%zmm0,%%zmm15\n vmovdqa64 %%zmm0,%%zmm16\n vmovdqa64 %%zmm0,%%zmm31\n"
            "kxnorw %%k0,%%k0,%%k1\n kxnorw %%k0,%%k0,%%k7" ::
                : "memory");
    else if (__builtin_cpu_supports("avx"))
        __asm__ volatile("vxorps %%ymm0,%%ymm0,%%ymm0\n vmovaps %%ymm0,%%ymm1\n"
                         "vmovaps %%ymm0,%%ymm7\n vmovaps %%ymm0,%%ymm15\n" ::
                             : "memory");
    __asm__ volatile("pcmpeqd %%xmm1,%%xmm1\n pcmpeqd %%xmm9,%%xmm9" ::: "xmm1", "xmm9");
}

static int probe(uint64_t a, uint64_t b, uint64_t c)
{
    static const uint64_t wanted[] = PROBE_ARGS;
    _Alignas(16) volatile char aligned[16];
    __asm__ volatile("movaps %%xmm0, %0" : "=m"(aligned)); /* faults when not aligned */
    uint64_t flags;
    uint32_t mxcsr = __builtin_ia32_stmxcsr();
    __asm__ volatile("pushf\n pop %0" : "=r"(flags));
    if (a != wanted[0] || b != wanted[1] || c != wanted[2] || flags & 1 << 10 || /* DF */
        mxcsr != 0x1f80)
        atomic_fetch_add(&shared->probe_errors, 1);
    registers_destroy();
    atomic_fetch_add(&shared->called, 1);
    return 7;
}

static volatile bool in_function;

/* Runs for a (milliseconds), in user mode (b = 0) or asleep. */
static void slow(uint64_t ms, uint64_t asleep)
{
    uint64_t until = now_ns() + ms * 1000000u;
    in_function = true;
    while (now_ns() < until)
        if (asleep)
            syscall(SYS_futex, &shared->called, FUTEX_WAIT, 1u << 31, NULL, NULL, 0);
    in_function = false;
    atomic_fetch_add(&shared->called, 1);
}

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void lock(void)
{
    pthread_mutex_lock(&held);
    pthread_mutex_unlock(&held);
    atomic_fetch_add(&shared->called, 1);
}

/* Uses 48 KiB of stack. */
static void deep(void)
{
    volatile char room[48 << 10];
    for (size_t i = sizeof room; i-- > 0;)
        room[i] = (char)i;
    for (size_t i = 0; i < sizeof room; i++)
        if (room[i] != (char)i)
            atomic_fetch_add(&shared->probe_errors, 1);
    atomic_fetch_add(&shared->called, 1);
}

/* ---- user mode ----------------------------------------------------------------------------- */

/* A leaf that keeps patterns in every register, in the red zone and in the flags (DF set), looks
 * at them `rounds` times and returns how often one was wrong. Vector registers are checked by the
 * caller through `vectors`. Written in assembly so that nothing but the loop touches them. */
uint64_t leaf_patterns(uint64_t rounds);
__asm__(".text\n.globl leaf_patterns\nleaf_patterns:\n"
        "push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
        "movabs $0x0101010101010101, %rbx\n movabs $0x0202020202020202, %rbp\n"
        "movabs $0x0808080808080808, %r8\n movabs $0x0909090909090909, %r9\n"
        "movabs $0x1010101010101010, %r10\n movabs $0x1111111111111111, %r11\n"
        "movabs $0x1212121212121212, %r12\n movabs $0x1313131313131313, %r13\n"
        "movabs $0x1414141414141414, %r14\n movabs $0x1515151515151515, %r15\n"
        "movabs $0x0606060606060606, %rsi\n movabs $0x0d0d0d0d0d0d0d0d, %rdx\n"
        "mov %rbx, -8(%rsp)\n mov %rbp, -16(%rsp)\n mov %r8, -64(%rsp)\n mov %r9, -120(%rsp)\n"
        "mov %r10, -128(%rsp)\n xor %eax, %eax\n std\n"
        "1:\n"
        "movabs $0x0101010101010101, %rcx\n cmp %rcx, %rbx\n jne 2f\n cmp %rcx, -8(%rsp)\n jne 2f\n"
        "movabs $0x0202020202020202, %rcx\n cmp %rcx, %rbp\n jne 2f\n cmp %rcx, -16(%rsp)\n jne 2f\n"
        "movabs $0x0808080808080808, %rcx\n cmp %rcx, %r8\n jne 2f\n cmp %rcx, -64(%rsp)\n jne 2f\n"
        "movabs $0x0909090909090909, %rcx\n cmp %rcx, %r9\n jne 2f\n cmp %rcx, -120(%rsp)\n jne 2f\n"
        "movabs $0x1010101010101010, %rcx\n cmp %rcx, %r10\n jne 2f\n cmp %rcx, -128(%rsp)\n jne 2f\n"
        "movabs $0x1111111111111111, %rcx\n cmp %rcx, %r11\n jne 2f\n"
        "movabs $0x1212121212121212, %rcx\n cmp %rcx, %r12\n jne 2f\n"
        "movabs $0x1313131313131313, %rcx\n cmp %rcx, %r13\n jne 2f\n"
        "movabs $0x1414141414141414, %rcx\n cmp %rcx, %r14\n jne 2f\n"
        "movabs $0x1515151515151515, %rcx\n cmp %rcx, %r15\n jne 2f\n"
        "movabs $0x0606060606060606, %rcx\n cmp %rcx, %rsi\n jne 2f\n"
        "movabs $0x0d0d0d0d0d0d0d0d, %rcx\n cmp %rcx, %rdx\n jne 2f\n"
        "jmp 3f\n 2: inc %rax\n 3: dec %rdi\n jnz 1b\n"
        /* DF still set? lodsb would run backwards; ask the flags without touching the red zone. */
        "lea -256(%rsp), %rsp\n pushf\n pop %rcx\n lea 256(%rsp), %rsp\n"
        "test $0x400, %ecx\n jnz 4f\n inc %rax\n 4: cld\n"
        "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n");

/* Fill all vector state, run the leaf, compare. */
#define VECTORS_SAME(load, store, bytes)                                                           \
    do {                                                                                           \
        _Alignas(64) uint8_t in[bytes], out[bytes];                                                \
        for (size_t i = 0; i < sizeof in; i++)                                                     \
            in[i] = (uint8_t)(i * 37 + 11);                                                        \
        uint64_t bad;                                                                              \
        __asm__ volatile(load "mov %[n], %%rdi\n"                                                  \
                              "lea -128(%%rsp), %%rsp\n call leaf_patterns\n lea 128(%%rsp), %%rsp\n" \
                              store                                                                \
                         : "=&a"(bad)                                                              \
                         : [in] "b"(in), [out] "r"(out), [n] "r"(rounds)                           \
                         : "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");  \
        if (bad)                                                                                   \
            wrong("a general register, the red zone or a flag changed");                           \
        if (memcmp(in, out, sizeof in) != 0)                                                       \
            wrong("a vector register changed");                                                    \
    } while (0)

__attribute__((noinline)) static void vectors_check(uint64_t rounds)
{
    if (__builtin_cpu_supports("avx512bw"))
        VECTORS_SAME("vmovdqa64 (%[in]), %%zmm0\n vmovdqa64 64(%[in]), %%zmm1\n"
                     "vmovdqa64 128(%[in]), %%zmm7\n vmovdqa64 192(%[in]), %%zmm15\n"
                     "vmovdqa64 256(%[in]), %%zmm16\n vmovdqa64 320(%[in]), %%zmm31\n"
                     "kmovq 384(%[in]), %%k1\n kmovq 392(%[in]), %%k7\n fninit\n fldt 400(%[in])\n",
                     "vmovdqa64 %%zmm0, (%[out])\n vmovdqa64 %%zmm1, 64(%[out])\n"
                     "vmovdqa64 %%zmm7, 128(%[out])\n vmovdqa64 %%zmm15, 192(%[out])\n"
                     "vmovdqa64 %%zmm16, 256(%[out])\n vmovdqa64 %%zmm31, 320(%[out])\n"
                     "kmovq %%k1, 384(%[out])\n kmovq %%k7, 392(%[out])\n fstpt 400(%[out])\n"
                     "vzeroupper\n",
                     410);
    else if (__builtin_cpu_supports("avx"))
        VECTORS_SAME("vmovaps (%[in]), %%ymm0\n vmovaps 32(%[in]), %%ymm1\n"
                     "vmovaps 64(%[in]), %%ymm7\n vmovaps 96(%[in]), %%ymm15\n fninit\n"
                     "fldt 128(%[in])\n",
                     "vmovaps %%ymm0, (%[out])\n vmovaps %%ymm1, 32(%[out])\n"
                     "vmovaps %%ymm7, 64(%[out])\n vmovaps %%ymm15, 96(%[out])\n"
                     "fstpt 128(%[out])\n vzeroupper\n",
                     138);
    else
        VECTORS_SAME("movaps (%[in]), %%xmm0\n movaps 16(%[in]), %%xmm7\n"
                     "movaps 32(%[in]), %%xmm15\n",
                     "movaps %%xmm0, (%[out])\n movaps %%xmm7, 16(%[out])\n"
                     "movaps %%xmm15, 32(%[out])\n",
                     48);
}

/* A chaotic chain: one wrong bit anywhere gives another result. */
static double logistic(void)
{
    double x = 0.123456789, y = 0.31;
    for (int i = 0; i < 20000; i++) {
        x = 3.99 * x * (1.0 - x);
        y = 3.97 * y * (1.0 - y) + x * 1e-3 - (double)(i & 1) * 1e-4;
        if (y < 0 || y > 1)
            y = 0.5;
    }
    return x + y;
}

static void mode_burn(void)
{
    uint32_t mxcsr_before = __builtin_ia32_stmxcsr();
    double first = logistic();
    while (!shared->stop) {
        vectors_check(3000);
        if (logistic() != first)
            wrong("a floating-point result changed");
        if ((__builtin_ia32_stmxcsr() ^ mxcsr_before) & 0xffc0)
            wrong("MXCSR changed");
        round_done();
        shared->ready = 1;
    }
}

/* ---- system calls -------------------------------------------------------------------------- */

/* After a failed call: EINTR is counted, anything else is wrong. */
static void call_failed(const char *what, uint64_t handled_before)
{
    if (errno != EINTR) {
        wrong(what);
        return;
    }
    if (atomic_load(&shared->handled) == handled_before)
        atomic_fetch_add(&shared->eintr_alone, 1);
    atomic_fetch_add(&shared->eintr, 1);
}

static uint64_t expected = 1;

/* One number from the pipe; the test counts up, so a lost or doubled byte shows. */
static bool number_read(void)
{
    uint64_t number = 0, before = atomic_load(&shared->handled);
    ssize_t got = read(PIPE_FD, &number, sizeof number);
    if (got == 0)
        return false;
    if (got < 0)
        call_failed("read failed", before);
    else if (got != sizeof number || number != expected++)
        wrong("read returned something else than was written");
    else
        round_done();
    return true;
}

static void mode_read(void)
{
    shared->ready = 1;
    while (number_read())
        continue;
}

static void mode_futex(void)
{
    uint32_t seen = 0;
    shared->ready = 1;
    while (!shared->stop) {
        long got = syscall(SYS_futex, &shared->futex, FUTEX_WAIT, seen, NULL, NULL, 0);
        if (got != 0 && errno != EAGAIN)
            call_failed("futex failed", atomic_load(&shared->handled));
        uint32_t value = atomic_load(&shared->futex);
        if (value != seen)
            round_done();
        seen = value;
    }
}

static void mode_epoll(bool timeout)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0x5eed};
    int fd = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(fd, EPOLL_CTL_ADD, PIPE_FD, &event);
    shared->ready = 1;
    for (;;) {
        uint64_t before = atomic_load(&shared->handled), began = now_ns();
        int got = epoll_wait(fd, &event, 1, timeout ? 30 : -1);
        if (got < 0) {
            call_failed("epoll_wait failed", before);
        } else if (got == 0) {
            if (!timeout || now_ns() - began < 29000000u)
                wrong("epoll_wait ended too early");
            atomic_fetch_add(&shared->thread_progress[0], 1);
        } else if (event.data.u64 != 0x5eed) {
            wrong("epoll_wait returned a wrong event");
        } else if (!number_read()) {
            return;
        }
    }
}

static void mode_poll(void)
{
    shared->ready = 1;
    for (;;) {
        struct pollfd one = {.fd = PIPE_FD, .events = POLLIN};
        uint64_t before = atomic_load(&shared->handled), began = now_ns();
        int got = poll(&one, 1, 30);
        if (got < 0) {
            call_failed("poll failed", before);
        } else if (got == 0) {
            if (now_ns() - began < 29000000u)
                wrong("poll ended too early");
            atomic_fetch_add(&shared->thread_progress[0], 1);
        } else if (!number_read()) {
            return;
        }
    }
}

static void mode_nanosleep(void)
{
    shared->ready = 1;
    while (!shared->stop) {
        struct timespec span = {.tv_nsec = 5000000};
        uint64_t before = atomic_load(&shared->handled), began = now_ns();
        /* The raw call: the C library's uses clock_nanosleep. */
        if (syscall(SYS_nanosleep, &span, NULL) != 0)
            call_failed("nanosleep failed", before);
        else if (now_ns() - began < 5000000u)
            wrong("nanosleep ended too early");
        else
            round_done();
    }
}

static void mode_accept(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, 4) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &length) != 0)
        wrong("cannot listen");
    atomic_store(&shared->thread_progress[1], ntohs(at.sin_port));
    shared->ready = 1;
    while (!shared->stop) {
        int got = accept(fd, NULL, NULL);
        if (got < 0) {
            call_failed("accept failed", atomic_load(&shared->handled));
            continue;
        }
        close(got);
        round_done();
    }
}

/* ---- signals ------------------------------------------------------------------------------- */

static void on_number(int signal, siginfo_t *info, void *context)
{
    static int last;
    (void)signal;
    (void)context;
    if (in_function)
        wrong("a handler ran inside the called function");
    if (info->si_value.sival_int != last + 1)
        atomic_fetch_add(&shared->order, 1);
    last = info->si_value.sival_int;
    atomic_fetch_add(&shared->handled, 1);
}

static void handler_set(int flags)
{
    struct sigaction action = {.sa_sigaction = on_number, .sa_flags = SA_SIGINFO | flags};
    sigaction(SIGRTMIN, &action, NULL);
}

/* read() with a handler that does not restart it. */
static void mode_signals(void)
{
    handler_set(0);
    mode_read();
}

/* The signal is blocked but for the time of the call; no wakeup may be lost. */
static void mode_sigsuspend(void)
{
    sigset_t block, inside;
    handler_set(0);
    sigemptyset(&inside);
    sigemptyset(&block);
    sigaddset(&block, SIGRTMIN);
    sigaddset(&block, SIGUSR2);
    sigprocmask(SIG_BLOCK, &block, NULL);
    shared->ready = 1;
    while (!shared->stop) {
        uint64_t before = atomic_load(&shared->handled);
        sigsuspend(&inside);
        if (atomic_load(&shared->handled) == before)
            atomic_fetch_add(&shared->eintr_alone, 1);
        round_done();
    }
}

/* Keeps an alternate stack and checks that it stays; waits for numbers on the ordinary one. */
static void mode_altstack_kept(void)
{
    static char room[32 << 10];
    stack_t set = {.ss_sp = room, .ss_size = sizeof room}, now;
    sigaltstack(&set, NULL);
    shared->ready = 1;
    while (number_read()) {
        sigaltstack(NULL, &now);
        if (now.ss_sp != set.ss_sp || now.ss_size != set.ss_size || now.ss_flags != 0)
            wrong("the alternate signal stack changed");
    }
}

static void on_usr1(int signal)
{
    (void)signal;
    shared->ready = 1;
    mode_read();
}

/* Waits in a handler, on an alternate stack that lies within the ordinary one. */
static void mode_altstack(void)
{
    char room[256 << 10];
    stack_t set = {.ss_sp = room + (128 << 10), .ss_size = sizeof room - (128 << 10)};
    struct sigaction action = {.sa_handler = on_usr1, .sa_flags = SA_ONSTACK};
    sigaltstack(&set, NULL);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
}

/* Waits in a handler on the ordinary stack. */
static void mode_handler(void)
{
    struct sigaction action = {.sa_handler = on_usr1};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
}

/* ---- stacks -------------------------------------------------------------------------------- */

static void mode_coroutine(void)
{
    static ucontext_t mine, other;
    getcontext(&other);
    other.uc_stack.ss_size = 1 << 20;
    other.uc_stack.ss_sp = malloc(other.uc_stack.ss_size);
    other.uc_link = &mine;
    makecontext(&other, mode_read, 0);
    swapcontext(&mine, &other);
}

static uintptr_t stack_start(void)
{
    unsigned long start = 0;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "[stack]"))
            sscanf(line, "%lx", &start);
    if (maps)
        fclose(maps);
    return start;
}

/* Go down until `left` bytes of what is mapped now are left, then wait. */
__attribute__((noinline)) static void stack_use(size_t left)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    size_t take = here - stack_start() - left;
    volatile char *room = __builtin_alloca(take);
    room[0] = 1;
    mode_read();
    room[1] = 2;
}

/* The soft limit is where the stack ends already. */
static void mode_noroom(void)
{
    struct rlimit limit = {.rlim_cur = 64 << 10, .rlim_max = RLIM_INFINITY};
    getrlimit(RLIMIT_STACK, &limit);
    limit.rlim_cur = 64 << 10;
    setrlimit(RLIMIT_STACK, &limit);
    stack_use(24 << 10);
}

static void *thread_read(void *unused)
{
    (void)unused;
    mode_read();
    return NULL;
}

/* A thread whose stack has pages that only look usable in /proc/PID/maps, as glibc 2.42 makes its
 * guards; the first thread has no stack of its own either, since it waits on a coroutine's. */
static void mode_guard(void)
{
    enum { MADV_GUARD = 102 };
    const size_t size = 512 << 10, guarded = 448 << 10;
    char *room = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t thread;
    pthread_attr_t attr;
    if (madvise(room, guarded, MADV_GUARD) != 0) {
        shared->ready = 2; /* this kernel has no such pages */
        pause();
    }
    pthread_attr_init(&attr);
    pthread_attr_setstack(&attr, room, size);
    pthread_create(&thread, &attr, thread_read, NULL);
    static ucontext_t mine, other;
    getcontext(&other);
    other.uc_stack.ss_size = 64 << 10;
    other.uc_stack.ss_sp = malloc(other.uc_stack.ss_size);
    makecontext(&other, (void (*)(void))pause, 0);
    swapcontext(&mine, &other);
}

/* ---- malloc -------------------------------------------------------------------------------- */

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static void block_fill(unsigned char *block, size_t size, unsigned char seed)
{
    memset(block, seed, size);
}

static void block_check(const unsigned char *block, size_t size, unsigned char seed)
{
    for (size_t i = 0; i < size; i += 61)
        if (block[i] != seed)
            wrong("a block of the heap changed");
    if (size && block[size - 1] != seed)
        wrong("the end of a block of the heap changed");
}

/* Allocates and frees 17 … 60,000 bytes; outside malloc most of the time, so that it can be met
 * there. */
static void *storm(void *argument)
{
    size_t index = (size_t)(uintptr_t)argument;
    uint32_t state = 0x9e3779b9u * ((uint32_t)index + 1);
    unsigned char *blocks[STORM_BLOCKS] = {0};
    size_t sizes[STORM_BLOCKS] = {0};
    while (!shared->stop) {
        uint32_t slot = next_random(&state) % STORM_BLOCKS;
        if (blocks[slot])
            block_check(blocks[slot], sizes[slot], (unsigned char)slot);
        free(blocks[slot]);
        sizes[slot] = next_random(&state) % 8 ? 17 + next_random(&state) % 600
                                              : next_random(&state) % 60000;
        blocks[slot] = malloc(sizes[slot]);
        block_fill(blocks[slot], sizes[slot], (unsigned char)slot);
        volatile uint32_t spin = 0;
        while (spin < 2000)
            spin++;
        atomic_fetch_add(&shared->thread_progress[index], 1);
    }
    return NULL;
}

/* With a first thread that sleeps (and is taken), or without: then a storming one is. */
static void mode_storm(bool sleeper)
{
    pthread_t threads[STORM_THREADS];
    for (size_t i = 0; i < STORM_THREADS; i++)
        pthread_create(&threads[i], NULL, storm, (void *)i);
    if (sleeper)
        mode_read();
    shared->ready = 1;
    storm((void *)(uintptr_t)STORM_THREADS);
}

/* ---- the rest ------------------------------------------------------------------------------ */

static void mode_seccomp(void)
{
    shared->ready = 1;
    syscall(SYS_prctl, PR_SET_SECCOMP, 1, 0, 0, 0);
    char byte;
    while (read(PIPE_FD, &byte, 1) > 0)
        continue;
    syscall(SYS_exit, 0);
}

/* Another thread holds the lock that lock() wants. */
static void *holder(void *unused)
{
    pthread_mutex_lock(&held);
    shared->thread_progress[1] = 1;
    while (!shared->stop)
        syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = 20000000}, NULL);
    pthread_mutex_unlock(&held);
    return unused;
}

static void mode_held(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, holder, NULL);
    while (!shared->thread_progress[1])
        sched_yield();
    mode_read();
}

static void mode_run(const char *mode)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {
        {"burn", mode_burn},           {"read", mode_read},         {"futex", mode_futex},
        {"poll", mode_poll},           {"nanosleep", mode_nanosleep}, {"accept", mode_accept},
        {"signals", mode_signals},     {"sigsuspend", mode_sigsuspend},
        {"altstack-kept", mode_altstack_kept}, {"altstack", mode_altstack},
        {"handler", mode_handler},     {"coroutine", mode_coroutine}, {"noroom", mode_noroom},
        {"guard", mode_guard},         {"seccomp", mode_seccomp},   {"held", mode_held},
    };
    if (strcmp(mode, "epoll") == 0)
        mode_epoll(false);
    else if (strcmp(mode, "epoll-timeout") == 0)
        mode_epoll(true);
    else if (strcmp(mode, "storm") == 0)
        mode_storm(false);
    else if (strcmp(mode, "storm-sleeper") == 0)
        mode_storm(true);
    else if (strcmp(mode, "grow") == 0)
        stack_use(20 << 10);
    else
        for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
            if (strcmp(mode, modes[i].name) == 0)
                modes[i].run();
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    alarm(600);
    int fd = open(argv[2], O_RDWR | O_CLOEXEC);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || shared == MAP_FAILED)
        return 2;
    shared->malloc_trim = (uintptr_t)malloc_trim;
    shared->probe = (uintptr_t)probe;
    shared->slow = (uintptr_t)slow;
    shared->lock = (uintptr_t)lock;
    shared->deep = (uintptr_t)deep;
    mode_run(argv[1]);
    return 0;
}
