/* Adds one to the number in the file `n`, under a lock; and does what cannot be controlled, as the first word says. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void add_one(void) {
    int lock = open("lock", O_RDWR | O_CREAT, 0644);
    flock(lock, LOCK_EX);
    FILE *file = fopen("n", "r+");
    int n = 0;
    if (!file || fscanf(file, "%d", &n) != 1) exit(1);
    rewind(file);
    fprintf(file, "%d\n", n + 1);
    fclose(file);
    close(lock);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "filter")) {
        struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        struct sock_fprog program = {1, &allow};
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 2;
    }
    if (!strcmp(what, "io_uring")) {
        char parameters[128] = {0};
        /* 425 is io_uring_setup: refused, so that programs fall back. */
        if (syscall(425, 4, parameters) != -1 || errno != ENOSYS) return 3;
    }
    if (!strcmp(what, "32-bit")) {
        long result = 20; /* getpid of the 32-bit table */
        __asm__ volatile("int $0x80" : "+a"(result) : : "memory");
    }
    if (!strcmp(what, "lease")) {
        int fd = open("n", O_RDONLY);
        fcntl(fd, F_SETLEASE, F_RDLCK);
        close(fd);
    }
    if (!strcmp(what, "spin") || !strcmp(what, "wait")) {
        /* Waits in memory for the other worker's word. */
        int fd = open("flag", O_RDWR | O_CREAT, 0644);
        if (ftruncate(fd, 4096)) return 4;
        volatile int *flag = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (*what == 's') *flag = 1; else while (!*flag) {}
    }
    if (!strcmp(what, "memory")) {
        int fd = open("counter", O_RDWR);
        int *counter = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        *counter += 1;
        return 0;
    }
    add_one();
    return 0;
}
