/* A library with the symbols of NVML that knows GPUs from files: for machines without any.
 *
 * The directory named by NVML_STAND_IN has `driver` ("580.105.08 13000"), `calls`, `proc/` and a directory for each GPU:
 * `facts` (lines of key and value), `profiles` (MIG), `mig_mode`, `compute_mode`, `recovery_action`, `instances/`. An instance
 * is a file, `<gi>`: profile, start, size, compute instance (-1 for none), UUID. Files are read at each call and replaced
 * as a whole, so that they outlive whoever is killed, and tests look at them and change them. Each call that changes
 * something appends a line to `calls`. A file `fail/<function>` has the error that the function gives.
 */
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

static handle_t devices[GPUS], instances[GPUS][IDS], computes[GPUS][IDS], parts[GPUS][IDS];

static const char *root(void) {
    const char *found = getenv("NVML_STAND_IN");
    return found ? found : "/nonexistent";
}

static char *place(char *path, int gpu, const char *name) {
    if (gpu < 0) snprintf(path, PATH, "%s/%s", root(), name);
    else snprintf(path, PATH, "%s/gpus/%d/%s", root(), gpu, name);
    return path;
}

static int exists(int gpu, const char *name) {
    char path[PATH];
    return access(place(path, gpu, name), F_OK) == 0;
}

static int content(int gpu, const char *name, char *text, size_t size) {
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

static int number(int gpu, const char *name, int otherwise) {
    char text[64];
    return content(gpu, name, text, sizeof text) ? otherwise : atoi(text);
}

static void replace(int gpu, const char *name, const char *text) {
    char path[PATH], beside[PATH + 32];
    place(path, gpu, name);
    snprintf(beside, sizeof beside, "%s/new.%d", root(), getpid());
    FILE *file = fopen(beside, "w");
    if (!file) return;
    fputs(text, file);
    fclose(file);
    rename(beside, path);
}

static void replace_number(int gpu, const char *name, int value) {
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    replace(gpu, name, text);
}

static void note(const char *format, ...) {
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

static int failing(const char *function) {
    char name[128];
    snprintf(name, sizeof name, "fail/%s", function);
    return number(-1, name, SUCCESS);
}

static void fact(int gpu, const char *key, char *value) {
    char text[4096], *rest, *line;
    value[0] = 0;
    content(gpu, "facts", text, sizeof text);
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        size_t length = strlen(key);
        if (!strncmp(line, key, length) && line[length] == ' ') snprintf(value, TEXT, "%s", line + length + 1);
    }
}

static long long fact_number(int gpu, const char *key) {
    char text[TEXT];
    fact(gpu, key, text);
    return strtoll(text, NULL, 0);
}

static int gone(handle_t *device) {
    return exists(device->gpu, "lost") ? GPU_IS_LOST : SUCCESS;
}

/* Lines of `profiles`: index id slices count sm copy dec enc jpeg ofa memory name start:size,start:size */
static int profile_line(char *line, profile_t *found) {
    char places[256];
    memset(found, 0, sizeof *found);
    if (sscanf(line, "%d %u %u %u %u %u %u %u %u %u %llu %80s %200s", &found->index, &found->id, &found->slices, &found->count,
               &found->multiprocessors, &found->copy, &found->decoders, &found->encoders, &found->jpeg, &found->ofa,
               &found->memory, found->name, places) != 13) return 0;
    char *rest, *each;
    for (each = strtok_r(places, ",", &rest); each; each = strtok_r(NULL, ",", &rest))
        if (sscanf(each, "%u:%u", &found->places[found->placements].start, &found->places[found->placements].size) == 2)
            found->placements++;
    return 1;
}

static int profile_by(int gpu, int index, int id, profile_t *found) {
    char text[8192], *rest, *line;
    content(gpu, "profiles", text, sizeof text);
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (profile_line(line, found) && (index < 0 || found->index == index) && (id < 0 || (int)found->id == id)) return 1;
    return 0;
}

static int instance(int gpu, int gi, instance_t *found) {
    char name[64], text[256];
    snprintf(name, sizeof name, "instances/%d", gi);
    return !content(gpu, name, text, sizeof text) &&
           sscanf(text, "%d %d %d %d %90s", &found->profile, &found->start, &found->size, &found->ci, found->uuid) == 5;
}

static void keep(int gpu, int gi, const instance_t *made) {
    char name[64], text[256];
    snprintf(name, sizeof name, "instances/%d", gi);
    snprintf(text, sizeof text, "%d %d %d %d %s", made->profile, made->start, made->size, made->ci, made->uuid);
    replace(gpu, name, text);
}

static void make_directories(char *path) {
    for (char *at = path + 1; *at; at++)
        if (*at == '/') { *at = 0; mkdir(path, 0755); *at = '/'; }
}

/* What the kernel shows of an instance: the minor number of its capability file. */
static void show(int gpu, int gi, int ci, int there) {
    char path[PATH], base[PATH];
    int minor = 3 + (int)fact_number(gpu, "minor") * 135 + gi * 9;
    snprintf(base, sizeof base, "%s/proc/driver/nvidia/capabilities/gpu%d/mig/gi%d", root(), (int)fact_number(gpu, "minor"), gi);
    if (ci < 0) snprintf(path, sizeof path, "%.500s/access", base);
    else snprintf(path, sizeof path, "%.500s/ci%d/access", base, ci);
    if (!there) {
        unlink(path);
        *strrchr(path, '/') = 0;
        rmdir(path);
        return;
    }
    make_directories(path);
    FILE *file = fopen(path, "w");
    if (!file) return;
    fprintf(file, "DeviceFileMinor: %d\nDeviceFileMode: 292\nDeviceFileModify: 1\n", ci < 0 ? minor : minor + 1 + ci);
    fclose(file);
}

int nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    for (int gpu = 0; gpu < GPUS; gpu++) {
        devices[gpu] = (handle_t){gpu, -1, -1};
        for (int id = 0; id < IDS; id++) instances[gpu][id] = computes[gpu][id] = parts[gpu][id] = (handle_t){gpu, id, 0};
    }
    if (!exists(-1, "driver")) return DRIVER_NOT_LOADED;
    return failing("nvmlInit");
}
int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int error) {
    static char text[32];
    switch (error) {
        case DRIVER_NOT_LOADED: return "Driver Not Loaded";
        case GPU_IS_LOST: return "GPU is lost";
        case NOT_SUPPORTED: return "Not Supported";
        case NOT_FOUND: return "Not Found";
        case IN_USE: return "In use by another client";
        case INSUFFICIENT_RESOURCES: return "Insufficient Resources";
    }
    snprintf(text, sizeof text, "Error %d", error);
    return text;
}

int nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    char text[TEXT];
    content(-1, "driver", text, sizeof text);
    snprintf(version, length, "%s", strtok(text, " "));
    return SUCCESS;
}
int nvmlSystemGetCudaDriverVersion(int *version) {
    char text[TEXT];
    content(-1, "driver", text, sizeof text);
    *version = atoi(strchr(text, ' ') + 1);
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned int *count) {
    char name[32];
    for (*count = 0; *count < GPUS; ++*count) {
        snprintf(name, sizeof name, "gpus/%u", *count);
        if (!exists(-1, name)) break;
    }
    return SUCCESS;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, handle_t **device) {
    unsigned int count;
    nvmlDeviceGetCount_v2(&count);
    if (index >= count) return INVALID_ARGUMENT;
    *device = &devices[index];
    return gone(*device);
}
int nvmlDeviceGetHandleByUUID(const char *uuid, handle_t **device) {
    unsigned int count;
    char text[TEXT];
    nvmlDeviceGetCount_v2(&count);
    for (unsigned int gpu = 0; gpu < count; gpu++) {
        fact(gpu, "uuid", text);
        if (!strcmp(text, uuid)) { *device = &devices[gpu]; return gone(*device); }
    }
    return NOT_FOUND;
}
int nvmlDeviceGetUUID(handle_t *device, char *uuid, unsigned int length) {
    char text[TEXT];
    instance_t found;
    if (device->gi >= 0) {
        if (!instance(device->gpu, device->gi, &found)) return NOT_FOUND;
        snprintf(uuid, length, "%s", found.uuid);
        return SUCCESS;
    }
    if (gone(device)) return GPU_IS_LOST;
    fact(device->gpu, "uuid", text);
    snprintf(uuid, length, "%s", text);
    return SUCCESS;
}
int nvmlDeviceGetName(handle_t *device, char *name, unsigned int length) {
    char text[TEXT];
    fact(device->gpu, "name", text);
    snprintf(name, length, "%s", text);
    return SUCCESS;
}
int nvmlDeviceGetMinorNumber(handle_t *device, unsigned int *minor) {
    *minor = fact_number(device->gpu, "minor");
    return SUCCESS;
}
typedef struct { char legacy[16]; unsigned int domain, bus, device, id, subsystem; char bus_id[32]; } pci_t;
int nvmlDeviceGetPciInfo_v3(handle_t *device, pci_t *pci) {
    if (gone(device)) return GPU_IS_LOST;
    memset(pci, 0, sizeof *pci);
    fact(device->gpu, "bus", pci->bus_id);
    sscanf(pci->bus_id, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
    return SUCCESS;
}
int nvmlDeviceGetMemoryInfo(handle_t *device, unsigned long long *memory) {
    memory[0] = fact_number(device->gpu, "memory");
    memory[1] = memory[0];
    memory[2] = 0;
    return SUCCESS;
}
int nvmlDeviceGetBrand(handle_t *device, int *brand) {
    *brand = fact_number(device->gpu, "brand");
    return SUCCESS;
}
int nvmlDeviceGetArchitecture(handle_t *device, unsigned int *architecture) {
    *architecture = fact_number(device->gpu, "architecture");
    return SUCCESS;
}
int nvmlDeviceGetCudaComputeCapability(handle_t *device, int *major, int *minor) {
    char text[TEXT];
    fact(device->gpu, "capability", text);
    sscanf(text, "%d.%d", major, minor);
    return SUCCESS;
}
int nvmlDeviceGetAddressingMode(handle_t *device, unsigned int *mode) {
    char text[TEXT];
    fact(device->gpu, "addressing", text);
    if (!text[0]) return NOT_SUPPORTED;
    mode[1] = atoi(text);
    return SUCCESS;
}

int nvmlDeviceGetComputeMode(handle_t *device, int *mode) {
    *mode = number(device->gpu, "compute_mode", 0);
    return gone(device);
}
int nvmlDeviceSetComputeMode(handle_t *device, int mode) {
    if (gone(device)) return GPU_IS_LOST;
    note("SetComputeMode gpu-%d %d", device->gpu, mode);
    int error = failing("nvmlDeviceSetComputeMode");
    if (error) return error;
    replace_number(device->gpu, "compute_mode", mode);
    return SUCCESS;
}

int nvmlDeviceGetMigMode(handle_t *device, unsigned int *current, unsigned int *pending) {
    if (gone(device)) return GPU_IS_LOST;
    if (!exists(device->gpu, "profiles")) return NOT_SUPPORTED;
    *current = *pending = number(device->gpu, "mig_mode", 0);
    return SUCCESS;
}
static int used(int gpu) {
    instance_t found;
    for (int gi = 0; gi < IDS; gi++) if (instance(gpu, gi, &found)) return 1;
    return 0;
}
int nvmlDeviceSetMigMode(handle_t *device, unsigned int mode, unsigned int *activation) {
    note("SetMigMode gpu-%d %u", device->gpu, mode);
    *activation = SUCCESS;
    if (!exists(device->gpu, "profiles")) return NOT_SUPPORTED;
    int error = failing("nvmlDeviceSetMigMode");
    if (error) return error;
    if (!mode && used(device->gpu)) return IN_USE;
    replace_number(device->gpu, "mig_mode", mode);
    return SUCCESS;
}

typedef struct {
    unsigned int version, id, p2p, slices, count, multiprocessors, copy, decoders, encoders, jpeg, ofa;
    unsigned long long memory;
    char name[TEXT];
} profile_info_t;
int nvmlDeviceGetGpuInstanceProfileInfoV(handle_t *device, unsigned int index, profile_info_t *info) {
    profile_t found;
    if (!profile_by(device->gpu, index, -1, &found)) return NOT_SUPPORTED;
    unsigned int version = info->version;
    *info = (profile_info_t){version, found.id, 0, found.slices, found.count, found.multiprocessors, found.copy, found.decoders,
                             found.encoders, found.jpeg, found.ofa, found.memory, ""};
    snprintf(info->name, TEXT, "MIG %.80s", found.name);
    return SUCCESS;
}
int nvmlDeviceGetGpuInstancePossiblePlacements_v2(handle_t *device, unsigned int id, placement_t *places, unsigned int *count) {
    profile_t found;
    if (!profile_by(device->gpu, -1, id, &found)) return NOT_SUPPORTED;
    if (places && *count < (unsigned int)found.placements) return INSUFFICIENT_SIZE;
    *count = found.placements;
    if (places) memcpy(places, found.places, sizeof(placement_t) * found.placements);
    return SUCCESS;
}
int nvmlDeviceCreateGpuInstanceWithPlacement(handle_t *device, unsigned int id, placement_t *wanted, handle_t **made) {
    int gpu = device->gpu, free = -1;
    unsigned int same = 0;
    profile_t profile;
    instance_t other;
    note("CreateGpuInstance gpu-%d %u %u:%u", gpu, id, wanted->start, wanted->size);
    int error = failing("nvmlDeviceCreateGpuInstanceWithPlacement");
    if (error) return error;
    if (!number(gpu, "mig_mode", 0)) return NOT_SUPPORTED;
    if (!profile_by(gpu, -1, id, &profile)) return INVALID_ARGUMENT;
    for (int gi = IDS - 1; gi > 0; gi--) {
        if (!instance(gpu, gi, &other)) { free = gi; continue; }
        same += other.profile == (int)id;
        if (other.start < (int)(wanted->start + wanted->size) && (int)wanted->start < other.start + other.size)
            return INSUFFICIENT_RESOURCES;
    }
    if (free < 0 || same >= profile.count) return INSUFFICIENT_RESOURCES;
    instance_t made_one = {id, wanted->start, wanted->size, -1, ""};
    snprintf(made_one.uuid, TEXT, "MIG-00000000-0000-4000-8000-%06d%06d", (int)fact_number(gpu, "minor"), free);
    /* Whoever is killed between the two has made nothing. */
    show(gpu, free, -1, 1);
    keep(gpu, free, &made_one);
    *made = &instances[gpu][free];
    return SUCCESS;
}
int nvmlGpuInstanceDestroy(handle_t *which) {
    instance_t found;
    char path[PATH], name[64];
    note("DestroyGpuInstance gpu-%d %d", which->gpu, which->gi);
    if (!instance(which->gpu, which->gi, &found)) return NOT_FOUND;
    if (found.ci >= 0) return IN_USE;
    snprintf(name, sizeof name, "instances/%d", which->gi);
    unlink(place(path, which->gpu, name));
    show(which->gpu, which->gi, -1, 0);
    return SUCCESS;
}
int nvmlDeviceGetGpuInstances(handle_t *device, unsigned int id, handle_t **found, unsigned int *count) {
    instance_t each;
    *count = 0;
    for (int gi = 0; gi < IDS; gi++)
        if (instance(device->gpu, gi, &each) && each.profile == (int)id) found[(*count)++] = &instances[device->gpu][gi];
    return SUCCESS;
}
typedef struct { handle_t *device; unsigned int id, profile; placement_t place; } instance_info_t;
int nvmlGpuInstanceGetInfo(handle_t *which, instance_info_t *info) {
    instance_t found;
    if (!instance(which->gpu, which->gi, &found)) return NOT_FOUND;
    *info = (instance_info_t){&devices[which->gpu], which->gi, found.profile, {found.start, found.size}};
    return SUCCESS;
}

typedef struct {
    unsigned int version, id, slices, count, multiprocessors, copy, decoders, encoders, jpeg, ofa;
    char name[TEXT];
} compute_profile_t;
int nvmlGpuInstanceGetComputeInstanceProfileInfoV(handle_t *which, unsigned int index, unsigned int engines, compute_profile_t *info) {
    static const unsigned int slices[] = {1, 2, 3, 4, 7, 8, 6, 1};
    instance_t found;
    profile_t profile;
    (void)engines;
    if (!instance(which->gpu, which->gi, &found) || !profile_by(which->gpu, -1, found.profile, &profile)) return NOT_FOUND;
    if (index >= sizeof slices / sizeof *slices || slices[index] > profile.slices) return NOT_SUPPORTED;
    unsigned int version = info->version;
    memset(info, 0, sizeof *info);
    info->version = version;
    info->id = index;
    info->slices = slices[index];
    info->count = profile.slices / slices[index];
    return SUCCESS;
}
int nvmlGpuInstanceCreateComputeInstance(handle_t *which, unsigned int profile, handle_t **made) {
    instance_t found;
    note("CreateComputeInstance gpu-%d %d %u", which->gpu, which->gi, profile);
    int error = failing("nvmlGpuInstanceCreateComputeInstance");
    if (error) return error;
    if (!instance(which->gpu, which->gi, &found)) return NOT_FOUND;
    if (found.ci >= 0) return INSUFFICIENT_RESOURCES;
    found.ci = profile;
    show(which->gpu, which->gi, 0, 1);
    keep(which->gpu, which->gi, &found);
    *made = &computes[which->gpu][which->gi];
    return SUCCESS;
}
int nvmlGpuInstanceGetComputeInstances(handle_t *which, unsigned int profile, handle_t **found, unsigned int *count) {
    instance_t each;
    *count = 0;
    if (instance(which->gpu, which->gi, &each) && each.ci == (int)profile) found[(*count)++] = &computes[which->gpu][which->gi];
    return SUCCESS;
}
typedef struct { handle_t *device, *instance; unsigned int id, profile; placement_t place; } compute_info_t;
int nvmlComputeInstanceGetInfo_v2(handle_t *which, compute_info_t *info) {
    instance_t found;
    if (!instance(which->gpu, which->gi, &found) || found.ci < 0) return NOT_FOUND;
    *info = (compute_info_t){&devices[which->gpu], &instances[which->gpu][which->gi], 0, found.ci, {0, 0}};
    return SUCCESS;
}
int nvmlComputeInstanceDestroy(handle_t *which) {
    instance_t found;
    note("DestroyComputeInstance gpu-%d %d", which->gpu, which->gi);
    int error = failing("nvmlComputeInstanceDestroy");
    if (error) return error;
    if (!instance(which->gpu, which->gi, &found) || found.ci < 0) return NOT_FOUND;
    found.ci = -1;
    keep(which->gpu, which->gi, &found);
    show(which->gpu, which->gi, 0, 0);
    return SUCCESS;
}
int nvmlDeviceGetMaxMigDeviceCount(handle_t *device, unsigned int *count) {
    *count = exists(device->gpu, "profiles") ? 7 : 0;
    return SUCCESS;
}
int nvmlDeviceGetMigDeviceHandleByIndex(handle_t *device, unsigned int index, handle_t **found) {
    instance_t each;
    unsigned int at = 0;
    for (int gi = 0; gi < IDS; gi++)
        if (instance(device->gpu, gi, &each) && each.ci >= 0 && at++ == index) {
            *found = &parts[device->gpu][gi];
            return SUCCESS;
        }
    return NOT_FOUND;
}
int nvmlDeviceGetGpuInstanceId(handle_t *device, unsigned int *id) { *id = device->gi; return SUCCESS; }
int nvmlDeviceGetComputeInstanceId(handle_t *device, unsigned int *id) { *id = 0; (void)device; return SUCCESS; }

/* Events are files: events/<anything> with "gpu type data gi". They are read once. */
typedef struct { handle_t *device; unsigned long long type, data; unsigned int gi, ci; } event_t;
int nvmlEventSetCreate(void **set) { static int made; *set = &made; return SUCCESS; }
int nvmlEventSetFree(void *set) { (void)set; return SUCCESS; }
int nvmlDeviceGetSupportedEventTypes(handle_t *device, unsigned long long *types) {
    *types = exists(device->gpu, "unmonitored") ? 0 : 0xf;
    return gone(device);
}
int nvmlDeviceRegisterEvents(handle_t *device, unsigned long long types, void *set) {
    (void)types; (void)set;
    return exists(device->gpu, "unmonitored") ? NOT_SUPPORTED : gone(device);
}
int nvmlEventSetWait_v2(void *set, event_t *event, unsigned int timeout) {
    char path[PATH], name[300], text[128];
    (void)set;
    for (unsigned int waited = 0;; waited += 10) {
        DIR *directory = opendir(place(path, -1, "events"));
        struct dirent *entry;
        while (directory && (entry = readdir(directory))) {
            int gpu, type, gi;
            unsigned long long data;
            if (entry->d_name[0] == '.') continue;
            snprintf(name, sizeof name, "events/%s", entry->d_name);
            if (content(-1, name, text, sizeof text) || sscanf(text, "%d %d %llu %d", &gpu, &type, &data, &gi) != 4) continue;
            unlink(place(path, -1, name));
            *event = (event_t){&devices[gpu], type, data, gi, gi < 0 ? -1 : 0};
            closedir(directory);
            return SUCCESS;
        }
        if (directory) closedir(directory);
        if (waited >= timeout) return TIMEOUT;
        usleep(10000);
    }
}
typedef struct { unsigned int field, scope; long long stamp, latency; int type, error; union { unsigned int number; double wide; } value; } field_t;
int nvmlDeviceGetFieldValues(handle_t *device, int count, field_t *values) {
    for (int at = 0; at < count; at++) {
        values[at].error = values[at].field == 230 && exists(device->gpu, "recovery_action") ? SUCCESS : NOT_SUPPORTED;
        values[at].type = 1;
        values[at].value.number = number(device->gpu, "recovery_action", 0);
    }
    return gone(device);
}
int nvmlDeviceGetRemappedRows(handle_t *device, unsigned int *corrected, unsigned int *uncorrected, unsigned int *pending, unsigned int *failed) {
    *corrected = *uncorrected = *failed = 0;
    *pending = exists(device->gpu, "rows_pending");
    return gone(device);
}
