/* A disk without file locks, as some network disks are: preloaded, it refuses every lock. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

static int unless_lock(const char *name, int descriptor, int command, void *argument) {
    if (command == F_SETLK || command == F_SETLKW) {
        errno = ENOLCK;
        return -1;
    }
    int (*real)(int, int, ...) = (int (*)(int, int, ...))dlsym(RTLD_NEXT, name);
    return real(descriptor, command, argument);
}

#define REFUSING(name)                                              \
    int name(int descriptor, int command, ...) {                    \
        va_list rest;                                               \
        va_start(rest, command);                                    \
        void *argument = va_arg(rest, void *);                      \
        va_end(rest);                                               \
        return unless_lock(#name, descriptor, command, argument);   \
    }

REFUSING(fcntl)
REFUSING(fcntl64)

int flock(int descriptor, int operation) {
    errno = ENOLCK;
    return -1;
}
