/* Lets writes below Python fail: loaded before the C library.

   FAILING_CALL     the names of the calls, with commas between: write, pwrite, fsync, ftruncate or close
   FAILING_AT       the number of the call that fails, from 1
   FAILING_IN       only files whose paths have this text count; a close, of files that are no directories
   FAILING_FOREVER  set: all calls after it fail, too; a close also of directories
   FAILING_ERRNO    the number of the error; without it EIO */

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

static int is_one_of(const char *call, const char *wanted)
{
    size_t length = strlen(call);
    const char *found;

    for (found = strstr(wanted, call); found != NULL; found = strstr(found + 1, call))
        if ((found == wanted || found[-1] == ',') && (found[length] == 0 || found[length] == ','))
            return 1;
    return 0;
}

static int fails(const char *call, int fd)
{
    const char *wanted = getenv("FAILING_CALL"), *in = getenv("FAILING_IN"), *at = getenv("FAILING_AT");
    const char *number = getenv("FAILING_ERRNO");
    char link[64], path[4096];
    ssize_t length;
    int count;

    if (wanted == NULL || in == NULL || at == NULL || !is_one_of(call, wanted))
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    if (strstr(path, in) == NULL)
        return 0;
    count = __sync_add_and_fetch(&counted, 1);
    if (count != atoi(at) && !(count > atoi(at) && getenv("FAILING_FOREVER") != NULL))
        return 0;
    errno = number == NULL ? EIO : atoi(number);
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
    int counts = fstat(fd, &status) == 0 && (S_ISREG(status.st_mode) || getenv("FAILING_FOREVER") != NULL);
    int failing = counts && fails("close", fd), error = errno;
    int closed = REAL(close)(fd);

    return failing ? (errno = error, -1) : closed;
}
