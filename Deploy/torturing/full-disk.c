/* Preloaded into PostgreSQL: while the file that REPRICER_FULL_DISK names exists, its tables can't grow, as on a full
   disk. No mount is needed, so it works wherever the tests run. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static int is_full(int descriptor) {
    char link[64], path[4096];
    const char *flag = getenv("REPRICER_FULL_DISK");
    if (flag == NULL || access(flag, F_OK) != 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strstr(path, "/base/") != NULL;
}

static int no_space(void) {
    errno = ENOSPC;
    return -1;
}

ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset) {
    ssize_t (*next)(int, const void *, size_t, off_t) = dlsym(RTLD_NEXT, "pwrite");
    return is_full(descriptor) ? no_space() : next(descriptor, bytes, count, offset);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off64_t offset) {
    ssize_t (*next)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pwrite64");
    return is_full(descriptor) ? no_space() : next(descriptor, bytes, count, offset);
}

ssize_t pwritev(int descriptor, const struct iovec *parts, int count, off_t offset) {
    ssize_t (*next)(int, const struct iovec *, int, off_t) = dlsym(RTLD_NEXT, "pwritev");
    return is_full(descriptor) ? no_space() : next(descriptor, parts, count, offset);
}

int posix_fallocate(int descriptor, off_t offset, off_t length) {
    int (*next)(int, off_t, off_t) = dlsym(RTLD_NEXT, "posix_fallocate");
    return is_full(descriptor) ? ENOSPC : next(descriptor, offset, length);
}

int posix_fallocate64(int descriptor, off64_t offset, off64_t length) {
    int (*next)(int, off64_t, off64_t) = dlsym(RTLD_NEXT, "posix_fallocate64");
    return is_full(descriptor) ? ENOSPC : next(descriptor, offset, length);
}
