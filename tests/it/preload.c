/* Stands between the server and the system: writes and syncs that fail, a wall clock that is moved, and clients elsewhere.
 *
 * DIBS_FAULT="<write|sync> <end of the file's name> <n> <what>" lets the n-th such call on such a file fail: with
 * ENOSPC or EIO; "short" writes half and says so, "torn" writes half and lets the next call fail, "rotten" lets this
 * and every later call fail, "hang" lets them never return. DIBS_CLOCK names a file with the seconds the wall clock is wrong by.
 * While the file exists that DIBS_BOOT_CLOCK names, the clock since boot stands still at the second that is in it.
 * With DIBS_PEERS, a connection from 127.0.0.2 and so on seems to come from 10.0.0.2 and so on. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static char call[16], name[256], what[16];
static long nth;
static atomic_long seen;

__attribute__((constructor)) static void begin(void) {
    const char *fault = getenv("DIBS_FAULT");
    if (fault == NULL || sscanf(fault, "%15s %255s %ld %15s", call, name, &nth, what) != 4) nth = 0;
}

/* How this call goes: 0 as always, 1 it fails with errno set, 2 only half of it is done. */
static int fate(const char *this_call, int fd) {
    if (nth == 0 || strcmp(this_call, call) != 0) return 0;
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path);
    size_t end = strlen(name);
    if (length < (ssize_t)end || memcmp(path + length - end, name, end) != 0) return 0;
    long count = atomic_fetch_add(&seen, 1) + 1;
    if (count < nth) return 0;
    while (strcmp(what, "hang") == 0) pause();
    if (strcmp(what, "torn") == 0) {
        errno = EIO;
        return count == nth ? 2 : count == nth + 1;
    }
    if (strcmp(what, "rotten") == 0) {
        errno = EIO;
        return 1;
    }
    if (count > nth) return 0;
    if (strcmp(what, "short") == 0) return 2;
    errno = strcmp(what, "ENOSPC") == 0 ? ENOSPC : EIO;
    return 1;
}

ssize_t write(int fd, const void *bytes, size_t count) {
    static ssize_t (*next)(int, const void *, size_t);
    if (next == NULL) next = dlsym(RTLD_NEXT, "write");
    switch (fate("write", fd)) {
    case 1: return -1;
    case 2: return next(fd, bytes, count > 1 ? count / 2 : count);
    default: return next(fd, bytes, count);
    }
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
    static ssize_t (*next)(int, const void *, size_t, off64_t);
    if (next == NULL) next = dlsym(RTLD_NEXT, "pwrite64");
    switch (fate("write", fd)) {
    case 1: return -1;
    case 2: return next(fd, bytes, count > 1 ? count / 2 : count, at);
    default: return next(fd, bytes, count, at);
    }
}

int fsync(int fd) {
    static int (*next)(int);
    if (next == NULL) next = dlsym(RTLD_NEXT, "fsync");
    return fate("sync", fd) == 1 ? -1 : next(fd);
}

int fdatasync(int fd) {
    static int (*next)(int);
    if (next == NULL) next = dlsym(RTLD_NEXT, "fdatasync");
    return fate("sync", fd) == 1 ? -1 : next(fd);
}

static time_t moved_by(void) {
    const char *path = getenv("DIBS_CLOCK");
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    char text[32] = {0};
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    return length > 0 ? atol(text) : 0;
}

static void stand_still(struct timespec *now) {
    const char *path = getenv("DIBS_BOOT_CLOCK");
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    char text[32] = {0};
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length > 0) *now = (struct timespec){.tv_sec = atol(text)};
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*next)(clockid_t, struct timespec *);
    if (next == NULL) next = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = next(clock, now);
    if (failed == 0 && clock == CLOCK_BOOTTIME) stand_still(now);
    if (failed == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += moved_by();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    static int (*next)(struct timeval *restrict, void *restrict);
    if (next == NULL) next = dlsym(RTLD_NEXT, "gettimeofday");
    int failed = next(now, zone);
    if (failed == 0) now->tv_sec += moved_by();
    return failed;
}

time_t time(time_t *now) {
    struct timespec moment;
    clock_gettime(CLOCK_REALTIME, &moment);
    if (now != NULL) *now = moment.tv_sec;
    return moment.tv_sec;
}

int accept4(int fd, struct sockaddr *restrict from, socklen_t *restrict length, int flags) {
    static int (*next)(int, struct sockaddr *restrict, socklen_t *restrict, int);
    if (next == NULL) next = dlsym(RTLD_NEXT, "accept4");
    int accepted = next(fd, from, length, flags);
    if (accepted < 0 || from == NULL || from->sa_family != AF_INET || getenv("DIBS_PEERS") == NULL) return accepted;
    struct in_addr *address = &((struct sockaddr_in *)from)->sin_addr;
    in_addr_t host = ntohl(address->s_addr);
    if (host != INADDR_LOOPBACK) address->s_addr = htonl((host & 0xffffff) | 10u << 24);
    return accepted;
}
