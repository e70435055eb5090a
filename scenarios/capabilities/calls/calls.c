/* Every way to read or change a file, each with the answer that Linux gives; the first that is wrong ends it. Two
   workers make the calls, each in a folder of its own, and meet at one lock file. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static void wrong(int line, const char *what) {
    fprintf(stderr, "line %d: %s (%s)\n", line, what, strerror(errno));
    exit(1);
}
#define OK(x) do { if (!(x)) wrong(__LINE__, #x); } while (0)

static void put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    OK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

static int is(const char *path, const char *text) {
    char got[200] = {0};
    int fd = open(path, O_RDONLY);
    if (fd < 0) return 0;
    ssize_t n = read(fd, got, sizeof got - 1);
    close(fd);
    return n == (ssize_t)strlen(text) && !memcmp(got, text, n);
}

int main(int argc, char **argv) {
    struct stat st;
    char buffer[100], path[40];
    OK(argc == 2 && mkdir(argv[1], 0755) == 0 && chdir(argv[1]) == 0);
    /* openat2, O_TMPFILE and linkat by descriptor and by /proc */
    struct open_how how = {.flags = O_CREAT | O_RDWR, .mode = 0600, .resolve = RESOLVE_BENEATH};
    int fd = syscall(SYS_openat2, AT_FDCWD, "beneath", &how, sizeof how);
    OK(fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0 && is("beneath", "x"));
    how.flags = O_RDONLY;
    how.mode = 0;
    OK(syscall(SYS_openat2, AT_FDCWD, "../nowhere", &how, sizeof how) < 0 && errno == EXDEV);
    fd = open(".", O_TMPFILE | O_RDWR, 0644);
    OK(fd >= 0 && write(fd, "unnamed", 7) == 7);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    OK(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW) == 0 && is("named", "unnamed"));
    OK(fstat(fd, &st) == 0 && st.st_nlink == 1 && is(path, "unnamed") && close(fd) == 0);
    OK(open(path, O_RDONLY) < 0 && errno == ENOENT);
    /* positioned and vectored forms */
    fd = open("vectors", O_RDWR | O_CREAT | O_EXCL, 0644);
    struct iovec two[2] = {{"ab", 2}, {"cd", 2}}, in[2] = {{buffer, 2}, {buffer + 2, 2}};
    OK(writev(fd, two, 2) == 4 && pwritev(fd, two, 2, 4) == 4 && pwritev2(fd, two, 2, 8, 0) == 4);
    OK(pwritev2(fd, two, 2, -1, 0) == 4 && lseek(fd, 0, SEEK_CUR) == 8 && fstat(fd, &st) == 0 && st.st_size == 12);
    OK(preadv2(fd, in, 2, 2, 0) == 4 && !memcmp(buffer, "cdab", 4) && preadv(fd, in, 2, 0) == 4);
    OK(pread(fd, buffer, 3, 1) == 3 && !memcmp(buffer, "bcd", 3) && lseek(fd, 0, SEEK_END) == 12);
    /* copies inside the kernel */
    int to = open("copy", O_RDWR | O_CREAT, 0644);
    off_t from = 0;
    loff_t at = 0, there = 4;
    OK(sendfile(to, fd, &from, 4) == 4 && copy_file_range(fd, &at, to, &there, 4, 0) == 4);
    int ends[2];
    OK(pipe(ends) == 0 && splice(fd, &(loff_t){0}, ends[1], 0, 4, 0) == 4);
    OK(splice(ends[0], 0, to, &(loff_t){8}, 4, 0) == 4 && close(to) == 0 && is("copy", "abcdabcdabcd"));
    OK(fallocate(fd, 0, 0, 20) == 0 && fstat(fd, &st) == 0 && st.st_size == 20);
    OK(fallocate(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 0, 12) == 0);
    OK(pread(fd, buffer, 1, 0) == 1 && !*buffer && ftruncate(fd, 2) == 0 && truncate("vectors", 1) == 0);
    OK(fstat(fd, &st) == 0 && st.st_size == 1 && close(fd) == 0);
    /* renames */
    put("one", "1");
    put("two", "2");
    OK(renameat2(AT_FDCWD, "one", AT_FDCWD, "two", RENAME_NOREPLACE) < 0 && errno == EEXIST);
    OK(renameat2(AT_FDCWD, "one", AT_FDCWD, "two", RENAME_EXCHANGE) == 0 && is("one", "2") && is("two", "1"));
    OK(rename("one", "two") == 0 && is("two", "2") && access("one", F_OK) < 0 && errno == ENOENT);
    /* links of both kinds */
    OK(link("two", "hard") == 0 && symlink("hard", "soft") == 0 && is("soft", "2"));
    OK(stat("hard", &st) == 0 && st.st_nlink == 2 && readlink("soft", buffer, sizeof buffer) == 4);
    OK(faccessat(AT_FDCWD, "soft", R_OK, AT_SYMLINK_NOFOLLOW) == 0 && unlink("two") == 0 && is("hard", "2"));
    /* times */
    struct timespec times[2] = {{5, 7}, {9, 11}};
    OK(utimensat(AT_FDCWD, "hard", times, 0) == 0 && stat("hard", &st) == 0 && st.st_mtim.tv_sec == 9);
    times[1].tv_nsec = UTIME_OMIT;
    OK(utimensat(AT_FDCWD, "hard", times, 0) == 0 && stat("hard", &st) == 0);
    OK(st.st_mtim.tv_sec == 9 && st.st_mtim.tv_nsec == 11);
    times[1].tv_nsec = UTIME_NOW;
    OK(utimensat(AT_FDCWD, "hard", times, 0) == 0 && stat("hard", &st) == 0 && st.st_mtim.tv_sec > 1000000000);
    OK(chmod("hard", 0600) == 0 && stat("hard", &st) == 0 && (st.st_mode & 07777) == 0600);
    if (setxattr("hard", "user.colour", "red", 3, XATTR_CREATE) == 0) {
        OK(getxattr("hard", "user.colour", buffer, sizeof buffer) == 3 && !memcmp(buffer, "red", 3));
        OK(removexattr("hard", "user.colour") == 0 && getxattr("hard", "user.colour", buffer, 9) < 0);
    } else {
        OK(errno == ENOTSUP);
    }
    /* a folder that is renamed while we are in it, and a listing in order */
    OK(mkdir("d", 0755) == 0 && chdir("d") == 0);
    put("b", "");
    put("a", "");
    OK(rename("../d", "../e") == 0 && is("a", "") && chdir("../e") == 0);
    DIR *dir = opendir(".");
    struct dirent *entry;
    char names[10] = {0};
    while ((entry = readdir(dir))) {
        if (*entry->d_name != '.') strcat(names, entry->d_name);
    }
    OK(closedir(dir) == 0 && strlen(names) == 2 && chdir("..") == 0);
    OK(rmdir("e") < 0 && errno == ENOTEMPTY && unlink("e/a") == 0 && unlink("e/b") == 0 && rmdir("e") == 0);
    /* locks: a dup keeps one */
    fd = open("../shared.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    int copy = dup(fd), other;
    OK(flock(fd, LOCK_EX) == 0 && close(fd) == 0);
    other = open("../shared.lock", O_RDWR);
    OK(flock(other, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK && close(copy) == 0);
    OK(flock(other, LOCK_SH) == 0 && close(other) == 0);
    struct flock region = {.l_type = F_WRLCK, .l_start = 2, .l_len = 3};
    fd = open("../shared.lock", O_RDWR);
    OK(fcntl(fd, F_OFD_SETLKW, &region) == 0);
    other = open("../shared.lock", O_RDWR);
    OK(fcntl(other, F_OFD_SETLK, &region) < 0 && (errno == EAGAIN || errno == EACCES));
    OK(close(fd) == 0 && fcntl(other, F_OFD_SETLKW, &region) == 0 && close(other) == 0);
    /* a descriptor handed to a child through a socket, and one that it inherits */
    int pair[2];
    OK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && (fd = open("sent", O_RDWR | O_CREAT, 0644)) >= 0);
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec byte = {buffer, 1};
    struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1};
    message.msg_control = control.space;
    message.msg_controllen = sizeof control.space;
    pid_t child = fork();
    OK(child >= 0);
    if (!child) {
        OK(write(fd, "inherited ", 10) == 10 && recvmsg(pair[1], &message, 0) == 1);
        memcpy(&other, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof other);
        OK(write(other, "handed", 6) == 6);
        _exit(0);
    }
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    int status;
    OK(sendmsg(pair[0], &message, 0) == 1 && waitpid(child, &status, 0) == child && status == 0);
    OK(is("sent", "inherited handed") && fsync(fd) == 0 && fdatasync(fd) == 0);
    return 0;
}
