/* A lock that is waited for with a time-out, made with each kind of timer. Exit 9: not had in time. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t rang;
static void ring(int signal) { (void)signal; rang++; }

static void report(const char *what, long value) {
    char line[100];
    int fd = open("log", O_WRONLY | O_CREAT | O_APPEND, 0644);
    int n = snprintf(line, sizeof line, "%s %ld\n", what, value);
    if (write(fd, line, n) != n) _exit(1);
    close(fd);
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "";
    struct sigaction action = {.sa_handler = ring}; /* no SA_RESTART */
    sigaction(SIGALRM, &action, 0);
    sigaction(SIGUSR1, &action, 0);
    int lock = open("lock", O_RDWR | O_CREAT, 0644);
    if (!strcmp(kind, "hold")) {
        flock(lock, LOCK_EX);
        sleep(10);
        report("held", 0);
        return 0;
    }
    struct itimerspec spec = {.it_value = {5, 0}};
    timer_t timer;
    if (!strcmp(kind, "alarm")) alarm(5);
    if (!strcmp(kind, "setitimer")) {
        struct itimerval value = {.it_value = {5, 0}};
        setitimer(ITIMER_REAL, &value, 0);
        getitimer(ITIMER_REAL, &value);
        report("left", value.it_value.tv_sec);
    }
    if (!strcmp(kind, "posix")) {
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
        timer_create(CLOCK_MONOTONIC, &event, &timer);
        timer_settime(timer, 0, &spec, 0);
    }
    if (!strcmp(kind, "timerfd")) {
        int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
        timerfd_settime(fd, 0, &spec, 0);
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        struct timespec before, after;
        clock_gettime(CLOCK_MONOTONIC, &before);
        poll(&wait, 1, -1);
        uint64_t times = 0;
        if (read(fd, &times, sizeof times) != sizeof times) return 1;
        clock_gettime(CLOCK_MONOTONIC, &after);
        report("timerfd", (long)times * 100 + (after.tv_sec - before.tv_sec));
        return flock(lock, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK ? 9 : 0;
    }
    if (flock(lock, LOCK_EX) < 0 && errno == EINTR) {
        report("gave up", rang);
        return 9;
    }
    report("got it", rang);
    return 0;
}
