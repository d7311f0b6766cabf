/* Lets writes below Python fail: loaded before the C library, it fails one call that writes with EIO.

   FAILING_CALL   the name of the call: write, pwrite, fsync, ftruncate or close
   FAILING_AT     the number of the call that fails, from 1; those after it succeed
   FAILING_IN     only files whose paths have this text count; a close, of files that are no directories */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static int counted;

static int fails(const char *call, int fd)
{
    const char *wanted = getenv("FAILING_CALL"), *in = getenv("FAILING_IN"), *at = getenv("FAILING_AT");
    char link[64], path[4096];
    ssize_t length;

    if (wanted == NULL || in == NULL || at == NULL || strcmp(wanted, call) != 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    if (strstr(path, in) == NULL || __sync_add_and_fetch(&counted, 1) != atoi(at))
        return 0;
    errno = EIO;
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *data, size_t size)
{
    return fails("write", fd) ? -1 : REAL(write)(fd, data, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
    return fails("pwrite", fd) ? -1 : REAL(pwrite)(fd, data, size, at);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
    return fails("pwrite", fd) ? -1 : REAL(pwrite64)(fd, data, size, at);
}

int ftruncate(int fd, off_t size)
{
    return fails("ftruncate", fd) ? -1 : REAL(ftruncate)(fd, size);
}

int ftruncate64(int fd, off64_t size)
{
    return fails("ftruncate", fd) ? -1 : REAL(ftruncate64)(fd, size);
}

int fsync(int fd)
{
    return fails("fsync", fd) ? -1 : REAL(fsync)(fd);
}

int close(int fd)
{
    /* Linux has closed the file, whatever it says. */
    struct stat status;
    int failing = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && fails("close", fd);
    int closed = REAL(close)(fd);

    return failing ? (errno = EIO, -1) : closed;
}
