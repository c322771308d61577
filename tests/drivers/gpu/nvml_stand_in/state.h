/* A library with the symbols of NVML that knows GPUs from files: for machines without any.
 *
 * The directory named by NVML_STAND_IN has `driver` ("580.105.08 13000"), `calls`, `proc/` and a directory for each GPU:
 * `facts` (lines of key and value), `profiles` (MIG), `mig_mode`, `compute_mode`, `recovery_action`, `instances/`. An instance
 * is a file, `<gi>`: profile, start, size, compute instance (-1 for none), UUID. Files are read at each call and replaced
 * as a whole, so that they outlive whoever is killed, and tests look at them and change them. Each call that changes
 * something appends a line to `calls`. A file `fail/<function>` has the error that the function gives.
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
#include <time.h>
#include <unistd.h>

enum {
    SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9,
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
    snprintf(beside, sizeof beside, "%s/new.%d", root(), getpid());
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

static inline int failing(const char *function) {
    char name[128];
    snprintf(name, sizeof name, "fail/%s", function);
    return number(-1, name, SUCCESS);
}

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
