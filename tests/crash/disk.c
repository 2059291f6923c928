/* A disk that loses what was not synced. Preloaded into a process and all processes that it starts,
 * it notes every call that changes files below one folder, in the order in which they happened.
 * simulated_disk.py makes from these notes the folder as a power cut would leave it.
 *
 * Calls go on to the real file system, except that nothing waits for a disk. Calls fail as
 * disk_fail() says. Writes through memory maps are not seen; of what the tests run, only SQLite
 * makes some, in the -shm file that it makes anew after a crash.
 *
 * The environment: SIMULATED_DISK is the folder, SIMULATED_DISK_LOG the file of notes; the file with
 * the suffix .faults beside it holds the fault for all processes.
 */
/* Some compilers define this, and headers then declare the calls of such programs themselves. */
#undef _FORTIFY_SOURCE
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

typedef struct {
    uint32_t size; /* of the whole note */
    char kind;     /* see KINDS in simulated_disk.py */
    char unused[3];
    int32_t pid, error;
    uint64_t inode;
    int64_t number; /* an offset, a size or the flags of open */
    uint32_t name_size, path_size, second_size, data_size;
} Note;

typedef struct {
    char call[16], path[128]; /* the kind of call, and a part of the path */
    int32_t error, skip, times;
} Fault;

static char folder[PATH_MAX];
static size_t folder_size;
static int notes = -1;
static Fault *fault;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* One call at a time, of all threads and processes, so that the notes have their order. */
static void lock(void) {
    pthread_mutex_lock(&mutex);
    syscall(SYS_flock, notes, LOCK_EX);
}

static void unlock(void) {
    int error = errno;
    syscall(SYS_flock, notes, LOCK_UN);
    pthread_mutex_unlock(&mutex);
    errno = error;
}

static void before_fork(void) { pthread_mutex_lock(&mutex); }

static void after_fork(void) { pthread_mutex_unlock(&mutex); }

static int open_beside(const char *log, const char *suffix, int flags) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s%s", log, suffix);
    return syscall(SYS_openat, AT_FDCWD, path, flags | O_CREAT | O_CLOEXEC, 0600);
}

/* Watch the folder that the environment names; None is watched without one. */
void disk_watch(void) {
    const char *watched = getenv("SIMULATED_DISK"), *log = getenv("SIMULATED_DISK_LOG");
    folder_size = 0;
    if (watched == NULL || log == NULL)
        return;
    /* High numbers: programs may close the low ones that they did not open. */
    int opened = open_beside(log, "", O_WRONLY | O_APPEND);
    notes = fcntl(opened, F_DUPFD_CLOEXEC, 900);
    syscall(SYS_close, opened);
    int faults = open_beside(log, ".faults", O_RDWR);
    if (notes < 0 || faults < 0 || syscall(SYS_ftruncate, faults, sizeof(Fault)) < 0)
        abort();
    fault = mmap(NULL, sizeof(Fault), PROT_READ | PROT_WRITE, MAP_SHARED, faults, 0);
    syscall(SYS_close, faults);
    snprintf(folder, sizeof folder, "%s", watched);
    folder_size = strlen(folder);
}

/* A lock of notes belongs to an open file, so each process opens its own. */
static void after_fork_in_child(void) {
    pthread_mutex_unlock(&mutex);
    if (folder_size) {
        syscall(SYS_close, notes);
        disk_watch();
    }
}

__attribute__((constructor)) static void start(void) {
    pthread_atfork(before_fork, after_fork, after_fork_in_child);
    disk_watch();
}

static int is_watched(const char *path) {
    return folder_size && strncmp(path, folder, folder_size) == 0 &&
           (path[folder_size] == '/' || path[folder_size] == 0);
}

/* Where an open file is; only regular files and folders that are watched. */
static int path_of(int descriptor, char *path, struct stat *status) {
    int error = errno, is_ours = 0;
    if (folder_size && descriptor >= 0 && fstat(descriptor, status) == 0 &&
        (S_ISREG(status->st_mode) || S_ISDIR(status->st_mode))) {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
        ssize_t size = readlink(link, path, PATH_MAX - 1);
        path[size < 0 ? 0 : size] = 0;
        is_ours = is_watched(path);
    }
    errno = error;
    return is_ours;
}

/* The absolute path of an argument; whether it is watched. */
static int resolve(int base, const char *path, char *absolute) {
    int error = errno;
    absolute[0] = 0;
    if (!folder_size)
        return 0;
    if (path[0] != '/') {
        char link[64];
        snprintf(link, sizeof link, base == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", base);
        ssize_t size = readlink(link, absolute, PATH_MAX - 2);
        absolute[size < 0 ? 0 : size] = 0;
        strncat(absolute, "/", PATH_MAX - strlen(absolute) - 1);
    }
    strncat(absolute, path, PATH_MAX - strlen(absolute) - 1);
    errno = error;
    return is_watched(absolute);
}

static void note(char kind, const char *name, uint64_t inode, int64_t number, const char *path,
                 const char *second, const void *data, size_t size) {
    int error = errno;
    Note head = {.kind = kind, .pid = getpid(), .error = error, .inode = inode, .number = number,
                 .name_size = strlen(name), .path_size = strlen(path),
                 .second_size = strlen(second), .data_size = size};
    head.size = sizeof head + head.name_size + head.path_size + head.second_size + head.data_size;
    struct iovec pieces[] = {{&head, sizeof head}, {(void *)name, head.name_size},
                             {(void *)path, head.path_size}, {(void *)second, head.second_size},
                             {(void *)data, size}};
    if (syscall(SYS_writev, notes, pieces, 5) != head.size)
        abort(); /* the notes are no longer what happened */
    errno = error;
}

/* Whether a call fails now: its error, 0 for a write that is cut short, or -1. */
static int fault_of(const char *call, const char *name, const char *path) {
    int is_meant = strcmp(fault->call, call) == 0 ||
                   (strcmp(fault->call, "change") == 0 && strcmp(call, "read") != 0);
    if (!fault->times || !is_meant || !strstr(path, fault->path))
        return -1;
    if (fault->skip) {
        fault->skip--;
        return -1;
    }
    if (fault->times > 0)
        fault->times--;
    errno = fault->error;
    note('f', name, 0, 0, path, "", call, strlen(call));
    return fault->error;
}

/* -- for the tests ------------------------------------------------------------------------- */

/* Let calls of a kind fail whose path contains `path`: `times` calls after the first `skip`; -1 is
 * for ever. Kinds are "write", "fsync", "read", "name" for what opens or changes names, and "change"
 * for all of them but "read". A write with the error 0 writes half. */
void disk_fail(const char *call, const char *path, int error, int skip, int times) {
    lock();
    memset(fault, 0, sizeof *fault);
    strncpy(fault->call, call, sizeof fault->call - 1);
    strncpy(fault->path, path, sizeof fault->path - 1);
    fault->error = error, fault->skip = skip, fault->times = times;
    unlock();
}

/* Note what a program acknowledged. */
void disk_note(const char *text) {
    lock();
    note('n', "", 0, 0, "", "", text, strlen(text));
    unlock();
}

/* -- contents ------------------------------------------------------------------------------ */

static ssize_t write_noted(const char *name, int descriptor, const void *data, size_t size,
                           int64_t offset) {
    char path[PATH_MAX];
    struct stat status;
    int is_ours = path_of(descriptor, path, &status);
    if (is_ours) {
        lock();
        int error = fault_of("write", name, path);
        if (error > 0) {
            unlock();
            return -1;
        }
        size = error == 0 ? (size + 1) / 2 : size;
    }
    ssize_t written = offset < 0 ? syscall(SYS_write, descriptor, data, size)
                                 : syscall(SYS_pwrite64, descriptor, data, size, offset);
    if (is_ours) {
        if (written > 0) {
            int64_t end = syscall(SYS_lseek, descriptor, (off_t)0, SEEK_CUR);
            note('w', name, status.st_ino, offset < 0 ? end - written : offset, path, "", data,
                 written);
        }
        unlock();
    }
    return written;
}

ssize_t write(int descriptor, const void *data, size_t size) {
    return write_noted(__func__, descriptor, data, size, -1);
}

#define PWRITE(name)                                                                      \
    ssize_t name(int descriptor, const void *data, size_t size, off_t offset) {           \
        return write_noted(#name, descriptor, data, size, offset);                        \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

/* Several pieces are as many writes; a caller has to expect that only some are written. */
static ssize_t write_pieces(const char *name, int descriptor, const struct iovec *pieces, int count,
                            int64_t offset) {
    char path[PATH_MAX];
    struct stat status;
    if (!path_of(descriptor, path, &status))
        return offset < 0 ? syscall(SYS_writev, descriptor, pieces, count)
                          : syscall(SYS_pwritev, descriptor, pieces, count, offset, 0);
    for (int i = 0; i < count; i++)
        if (pieces[i].iov_len)
            return write_noted(name, descriptor, pieces[i].iov_base, pieces[i].iov_len, offset);
    return 0;
}

ssize_t writev(int descriptor, const struct iovec *pieces, int count) {
    return write_pieces(__func__, descriptor, pieces, count, -1);
}

#define PWRITEV(name)                                                                     \
    ssize_t name(int descriptor, const struct iovec *pieces, int count, off_t offset) {   \
        return write_pieces(#name, descriptor, pieces, count, offset);                    \
    }
PWRITEV(pwritev)
PWRITEV(pwritev64)

/* Copies within the kernel are refused; programs then read and write. */
#define REFUSED(type, name, error, ...) \
    type name(__VA_ARGS__) {            \
        errno = error;                  \
        return -1;                      \
    }
REFUSED(ssize_t, sendfile, ENOTSOCK, int out, int in, off_t *offset, size_t size)
REFUSED(ssize_t, sendfile64, ENOTSOCK, int out, int in, off_t *offset, size_t size)
REFUSED(ssize_t, copy_file_range, ENOSYS, int in, off_t *in_offset, int out, off_t *out_offset,
        size_t size, unsigned flags)
REFUSED(int, fallocate, EOPNOTSUPP, int descriptor, int mode, off_t offset, off_t size)
REFUSED(int, fallocate64, EOPNOTSUPP, int descriptor, int mode, off_t offset, off_t size)

#define FTRUNCATE(name)                                                                   \
    int name(int descriptor, off_t size) {                                                \
        char path[PATH_MAX];                                                              \
        struct stat status;                                                               \
        if (!path_of(descriptor, path, &status))                                          \
            return syscall(SYS_ftruncate, descriptor, size);                              \
        lock();                                                                           \
        int result = syscall(SYS_ftruncate, descriptor, size);                            \
        if (result == 0)                                                                  \
            note('t', #name, status.st_ino, size, path, "", "", 0);                       \
        unlock();                                                                         \
        return result;                                                                    \
    }
FTRUNCATE(ftruncate)
FTRUNCATE(ftruncate64)

#define TRUNCATE(name)                                                                    \
    int name(const char *path, off_t size) {                                              \
        int descriptor = open(path, O_WRONLY | O_CLOEXEC);                                \
        if (descriptor < 0)                                                               \
            return -1;                                                                    \
        int result = ftruncate(descriptor, size);                                         \
        syscall(SYS_close, descriptor);                                                   \
        return result;                                                                    \
    }
TRUNCATE(truncate)
TRUNCATE(truncate64)

static int sync_noted(const char *name, int descriptor, long number) {
    char path[PATH_MAX];
    struct stat status;
    if (!path_of(descriptor, path, &status))
        return syscall(number, descriptor);
    lock();
    int error = fault_of("fsync", name, path);
    note(error > 0 ? 'e' : 's', name, status.st_ino, S_ISDIR(status.st_mode), path, "", "", 0);
    unlock();
    return error > 0 ? -1 : 0;
}

int fsync(int descriptor) { return sync_noted(__func__, descriptor, SYS_fsync); }

int fdatasync(int descriptor) { return sync_noted(__func__, descriptor, SYS_fdatasync); }

/* Only what is watched: the disks of the machine are not asked. */
void sync(void) {
    if (!folder_size)
        return;
    lock();
    note('a', __func__, 0, 0, "", "", "", 0);
    unlock();
}

static int read_fails(const char *name, int descriptor) {
    char path[PATH_MAX];
    struct stat status;
    if (!folder_size || !fault->times || strcmp(fault->call, "read") ||
        !path_of(descriptor, path, &status))
        return 0;
    lock();
    int error = fault_of("read", name, path);
    unlock();
    return error > 0;
}

ssize_t read(int descriptor, void *data, size_t size) {
    return read_fails(__func__, descriptor) ? -1 : syscall(SYS_read, descriptor, data, size);
}

#define PREAD(name)                                                                       \
    ssize_t name(int descriptor, void *data, size_t size, off_t offset) {                 \
        return read_fails(#name, descriptor)                                              \
                   ? -1                                                                   \
                   : syscall(SYS_pread64, descriptor, data, size, offset);                \
    }
PREAD(pread)
PREAD(pread64)

/* -- names --------------------------------------------------------------------------------- */

static int open_noted(const char *name, int base, const char *path, int flags, int mode) {
    char absolute[PATH_MAX];
    int changes = flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC);
    if (!resolve(base, path, absolute) || !changes)
        return syscall(SYS_openat, base, path, flags, mode);
    lock();
    int fails = fault_of("name", name, absolute) > 0;
    int descriptor = fails ? -1 : syscall(SYS_openat, base, path, flags, mode);
    struct stat status;
    if (descriptor >= 0 && fstat(descriptor, &status) == 0)
        note('o', name, status.st_ino, flags, absolute, "", "", 0);
    unlock();
    return descriptor;
}

#define MODE(flags, last)                                   \
    int mode = 0;                                           \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                  \
        va_list rest;                                       \
        va_start(rest, last);                               \
        mode = va_arg(rest, int);                           \
        va_end(rest);                                       \
    }
#define OPEN(name)                                                     \
    int name(const char *path, int flags, ...) {                       \
        MODE(flags, flags)                                             \
        return open_noted(#name, AT_FDCWD, path, flags, mode);         \
    }
#define OPENAT(name)                                                   \
    int name(int base, const char *path, int flags, ...) {             \
        MODE(flags, flags)                                             \
        return open_noted(#name, base, path, flags, mode);             \
    }
OPEN(open)
OPEN(open64)
OPEN(__open_2)
OPEN(__open64_2)
OPENAT(openat)
OPENAT(openat64)
OPENAT(__openat_2)
OPENAT(__openat64_2)

int creat(const char *path, mode_t mode) {
    return open_noted(__func__, AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

/* Note a call that changes names, if it succeeds. */
#define NAMES(kind, base, path, second_base, second, call)                                \
    char first_path[PATH_MAX], second_path[PATH_MAX] = "";                                \
    if (!(resolve(base, path, first_path) | resolve(second_base, second, second_path)))   \
        return call;                                                                      \
    lock();                                                                               \
    int result = fault_of("name", __func__, first_path) > 0 ? -1 : call;                  \
    if (result == 0)                                                                      \
        note(kind, __func__, 0, 0, first_path, second_path, "", 0);                       \
    unlock();                                                                             \
    return result;

int renameat2(int from_base, const char *from, int to_base, const char *to, unsigned flags) {
    NAMES('r', from_base, from, to_base, to,
          syscall(SYS_renameat2, from_base, from, to_base, to, flags))
}
int renameat(int from_base, const char *from, int to_base, const char *to) {
    return renameat2(from_base, from, to_base, to, 0);
}
int rename(const char *from, const char *to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

int linkat(int from_base, const char *from, int to_base, const char *to, int flags) {
    NAMES('l', from_base, from, to_base, to,
          syscall(SYS_linkat, from_base, from, to_base, to, flags))
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

int unlinkat(int base, const char *path, int flags) {
    NAMES('u', base, path, AT_FDCWD, "/",
          syscall(SYS_unlinkat, base, path, flags))
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char *path) {
    return unlink(path) == 0 ? 0 : errno == EISDIR ? rmdir(path) : -1;
}

int mkdirat(int base, const char *path, mode_t mode) {
    NAMES('m', base, path, AT_FDCWD, "/",
          syscall(SYS_mkdirat, base, path, mode))
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int symlinkat(const char *target, int base, const char *path) {
    char absolute[PATH_MAX];
    if (!resolve(base, path, absolute))
        return syscall(SYS_symlinkat, target, base, path);
    lock();
    int result = syscall(SYS_symlinkat, target, base, path);
    if (result == 0)
        note('y', __func__, 0, 0, absolute, "", target, strlen(target));
    unlock();
    return result;
}
int symlink(const char *target, const char *path) { return symlinkat(target, AT_FDCWD, path); }
