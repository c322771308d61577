/* A library with the symbols of NVML that knows GPUs from files: for machines without any.
 *
 * The directory named by NVML_STAND_IN has `driver` ("580.105.08 13000"), `calls`, `proc/` and a directory for each GPU:
 * `facts` (lines of key and value), `profiles` (MIG), `mig_mode`, `compute_mode`, `recovery_action`, `instances/`. An instance
 * is a file, `<gi>`: profile, start, size, compute instance (-1 for none), UUID. Files are read at each call and replaced
 * as a whole, so that they outlive whoever is killed, and tests look at them and change them. Each call that changes
 * something appends a line to `calls`, and each function that is called leaves a file in `called`.
 *
 * Functions fail and hang while files say so: `fail/<function>` has the nvmlReturn_t that the function returns, and
 * `hang/<function>` the seconds that it sleeps before it answers; a second number limits either to one GPU. `fail/all`
 * and `hang/all` are for all functions. In the directory of a GPU, `sick` has the error of all calls for it, `deaf` that
 * of all but its handle and UUID, which come from a cache; `utilization` (percent) and `memory_used_mib` are what it is
 * used for; `mig_busy` says that another client keeps the MIG mode on. A session ends when the content of `session`
 * changes: all calls return UNINITIALIZED, or the error in `session_error`, until NVML is initialized again.
 */
#pragma once
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9,
    TIMEOUT = 10, GPU_IS_LOST = 15, IN_USE = 19, INSUFFICIENT_RESOURCES = 23
};
enum { GPUS = 16, IDS = 16, PATH = 600, TEXT = 96 };

typedef struct { int gpu, gi, ci; } handle_t;
typedef struct { unsigned int start, size; } placement_t;
typedef struct {
    int index;
    unsigned int id, slices, count, multiprocessors, copy, decoders, encoders, jpeg, ofa;
    unsigned long long memory;
    char name[TEXT];
    int placements;
    placement_t places[16];
} profile_t;
typedef struct { int profile, start, size, ci; char uuid[TEXT]; } instance_t;

/* What a caller holds of GPUs, of GPU and compute instances, and of partitions as devices. */
extern handle_t devices[GPUS], instances[GPUS][IDS], computes[GPUS][IDS], parts[GPUS][IDS];

static inline const char *root(void) {
    const char *found = getenv("NVML_STAND_IN");
    return found ? found : "/nonexistent";
}

static inline char *place(char *path, int gpu, const char *name) {
    if (gpu < 0) snprintf(path, PATH, "%s/%s", root(), name);
    else snprintf(path, PATH, "%s/gpus/%d/%s", root(), gpu, name);
    return path;
}

static inline int exists(int gpu, const char *name) {
    char path[PATH];
    return access(place(path, gpu, name), F_OK) == 0;
}

static inline int content(int gpu, const char *name, char *text, size_t size) {
    char path[PATH];
    int file = open(place(path, gpu, name), O_RDONLY | O_CLOEXEC);
    text[0] = 0;
    if (file < 0) return -1;
    ssize_t length = read(file, text, size - 1);
    close(file);
    if (length < 0) return -1;
    text[length] = 0;
    return 0;
}

static inline int number(int gpu, const char *name, int otherwise) {
    char text[64];
    return content(gpu, name, text, sizeof text) ? otherwise : atoi(text);
}

static inline void replace(int gpu, const char *name, const char *text) {
    char path[PATH], beside[PATH + 32];
    place(path, gpu, name);
    snprintf(beside, sizeof beside, "%s/new.%ld", root(), syscall(SYS_gettid));
    FILE *file = fopen(beside, "w");
    if (!file) return;
    fputs(text, file);
    fclose(file);
    rename(beside, path);
}

static inline void replace_number(int gpu, const char *name, int value) {
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    replace(gpu, name, text);
}

static inline void note(const char *format, ...) {
    char path[PATH], line[512];
    va_list rest;
    va_start(rest, format);
    int length = vsnprintf(line, sizeof line - 1, format, rest);
    va_end(rest);
    line[length++] = '\n';
    int file = open(place(path, -1, "calls"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (file >= 0) {
        if (write(file, line, length) < 0) perror("calls");
        close(file);
    }
    /* Real ones take their time, and somebody may be killed in it. */
    usleep(number(-1, "delay", 0) * 1000);
}

/* The number in the file of a function, or of all functions, if it is for this GPU. */
static inline int ordered(const char *kind, const char *function, int gpu) {
    const char *names[] = {function, "all"};
    char name[128], text[64];
    for (int at = 0; at < 2; at++) {
        int value, only = -1;
        snprintf(name, sizeof name, "%s/%s", kind, names[at]);
        if (!content(-1, name, text, sizeof text) && sscanf(text, "%d %d", &value, &only) > 0 && (only < 0 || only == gpu)) return value;
    }
    return 0;
}

/* What a function tells: the number in its file in `told`, instead of the right one. */
static inline unsigned int told(const char *function, unsigned int right) {
    char name[128];
    snprintf(name, sizeof name, "told/%s", function);
    return number(-1, name, right);
}

extern int session_seen;

static inline int is_cached(const char *function) {
    return !strncmp(function, "nvmlDeviceGetHandle", 19) || !strcmp(function, "nvmlDeviceGetUUID");
}

/* At the entry of each function: what it returns at once, if anything. `gpu` is -1 where a call is for no GPU. */
static inline int entered(const char *function, int gpu) {
    char path[PATH], name[128];
    snprintf(name, sizeof name, "called/%s", function);
    if (!exists(-1, name)) {
        int file = open(place(path, -1, name), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (file >= 0) close(file);
    }
    for (int slept = 0; slept < 100 * ordered("hang", function, gpu); slept++) usleep(10000);
    int error = ordered("fail", function, gpu);
    if (error) return error;
    if (!exists(-1, "driver")) return DRIVER_NOT_LOADED;
    if (strncmp(function, "nvmlInit", 8) && number(-1, "session", 0) != session_seen)
        return number(-1, "session_error", UNINITIALIZED);
    if (gpu >= 0 && (error = number(gpu, "sick", 0))) return error;
    return gpu >= 0 && !is_cached(function) ? number(gpu, "deaf", 0) : SUCCESS;
}
#define ENTER(gpu) do { int refused = entered(__func__, gpu); if (refused) return refused; } while (0)

static inline void fact(int gpu, const char *key, char *value) {
    char text[4096], *rest, *line;
    value[0] = 0;
    content(gpu, "facts", text, sizeof text);
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        size_t length = strlen(key);
        if (!strncmp(line, key, length) && line[length] == ' ') snprintf(value, TEXT, "%s", line + length + 1);
    }
}

static inline long long fact_number(int gpu, const char *key) {
    char text[TEXT];
    fact(gpu, key, text);
    return strtoll(text, NULL, 0);
}

static inline int gone(handle_t *device) {
    return exists(device->gpu, "lost") ? GPU_IS_LOST : SUCCESS;
}

static inline int instance(int gpu, int gi, instance_t *found) {
    char name[64], text[256];
    snprintf(name, sizeof name, "instances/%d", gi);
    return !content(gpu, name, text, sizeof text) &&
           sscanf(text, "%d %d %d %d %90s", &found->profile, &found->start, &found->size, &found->ci, found->uuid) == 5;
}
