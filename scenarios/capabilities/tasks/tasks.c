/* Adds one to the number in `n` under a lock: by threads, by an exec from a thread, through vfork, or from a daemon
   that has left its parent. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

static void *add_one(void *unused) {
    (void)unused;
    int lock = open("lock", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    flock(lock, LOCK_EX);
    FILE *file = fopen("n", "r+e");
    int n = 0;
    if (!file || fscanf(file, "%d", &n) != 1) exit(1);
    rewind(file);
    fprintf(file, "%d\n", n + 1);
    fclose(file);
    close(lock);
    return 0;
}

static char **self;

static void *become(void *unused) {
    (void)unused;
    /* The lock is dropped by the exec, since its descriptor is closed there. */
    int lock = open("lock", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    flock(lock, LOCK_EX);
    execl("/proc/self/exe", self[0], "plain", (char *)0);
    exit(1);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "plain";
    self = argv;
    if (!strcmp(how, "threads")) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, add_one, 0);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
        return 0;
    }
    if (!strcmp(how, "exec")) {
        pthread_t thread;
        pthread_create(&thread, 0, become, 0);
        for (;;) pause();
    }
    if (!strcmp(how, "vfork")) {
        pid_t child = vfork();
        if (!child) {
            execl("/proc/self/exe", argv[0], "plain", (char *)0);
            _exit(1);
        }
        int status;
        return waitpid(child, &status, 0) == child ? status : 1;
    }
    if (!strcmp(how, "daemon")) {
        if (fork()) return 0;
        setsid();
        if (fork()) _exit(0);
        close(0);
    }
    add_one(0);
    return 0;
}
