/* MIG: profiles and placements, GPU instances and compute instances. */
#include "state.h"

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

int nvmlDeviceGetMigMode(handle_t *device, unsigned int *current, unsigned int *pending) {
    ENTER(device->gpu);
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
    ENTER(device->gpu);
    note("SetMigMode gpu-%d %u", device->gpu, mode);
    *activation = SUCCESS;
    if (!exists(device->gpu, "profiles")) return NOT_SUPPORTED;
    if (!mode && used(device->gpu)) return IN_USE;
    if (!mode && exists(device->gpu, "mig_busy")) {
        *activation = IN_USE;
        return SUCCESS;
    }
    replace_number(device->gpu, "mig_mode", mode);
    return SUCCESS;
}

typedef struct {
    unsigned int version, id, p2p, slices, count, multiprocessors, copy, decoders, encoders, jpeg, ofa;
    unsigned long long memory;
    char name[TEXT];
} profile_info_t;
int nvmlDeviceGetGpuInstanceProfileInfoV(handle_t *device, unsigned int index, profile_info_t *info) {
    ENTER(device->gpu);
    profile_t found;
    if (!profile_by(device->gpu, index, -1, &found)) return NOT_SUPPORTED;
    unsigned int version = info->version;
    *info = (profile_info_t){version, found.id, 0, found.slices, found.count, found.multiprocessors, found.copy, found.decoders,
                             found.encoders, found.jpeg, found.ofa, found.memory, ""};
    snprintf(info->name, TEXT, "MIG %.80s", found.name);
    return SUCCESS;
}
int nvmlDeviceGetGpuInstancePossiblePlacements_v2(handle_t *device, unsigned int id, placement_t *places, unsigned int *count) {
    ENTER(device->gpu);
    profile_t found;
    if (!profile_by(device->gpu, -1, id, &found)) return NOT_SUPPORTED;
    if (places && *count < (unsigned int)found.placements) return INSUFFICIENT_SIZE;
    *count = places ? (unsigned int)found.placements : told(__func__, found.placements);
    if (places) memcpy(places, found.places, sizeof(placement_t) * found.placements);
    return places || !exists(-1, "refuses_sizes") ? SUCCESS : INSUFFICIENT_SIZE;
}
int nvmlDeviceCreateGpuInstanceWithPlacement(handle_t *device, unsigned int id, placement_t *wanted, handle_t **made) {
    ENTER(device->gpu);
    int gpu = device->gpu, free = -1;
    unsigned int same = 0;
    profile_t profile;
    instance_t other;
    note("CreateGpuInstance gpu-%d %u %u:%u", gpu, id, wanted->start, wanted->size);
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
    ENTER(which->gpu);
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
    ENTER(device->gpu);
    instance_t each;
    *count = 0;
    for (int gi = 0; gi < IDS; gi++)
        if (instance(device->gpu, gi, &each) && each.profile == (int)id) found[(*count)++] = &instances[device->gpu][gi];
    *count = told(__func__, *count);
    return SUCCESS;
}
typedef struct { handle_t *device; unsigned int id, profile; placement_t place; } instance_info_t;
int nvmlGpuInstanceGetInfo(handle_t *which, instance_info_t *info) {
    ENTER(which->gpu);
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
    ENTER(which->gpu);
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
    ENTER(which->gpu);
    instance_t found;
    note("CreateComputeInstance gpu-%d %d %u", which->gpu, which->gi, profile);
    if (!instance(which->gpu, which->gi, &found)) return NOT_FOUND;
    if (found.ci >= 0) return INSUFFICIENT_RESOURCES;
    found.ci = profile;
    show(which->gpu, which->gi, 0, 1);
    keep(which->gpu, which->gi, &found);
    *made = &computes[which->gpu][which->gi];
    return SUCCESS;
}
int nvmlGpuInstanceGetComputeInstances(handle_t *which, unsigned int profile, handle_t **found, unsigned int *count) {
    ENTER(which->gpu);
    instance_t each;
    *count = 0;
    if (instance(which->gpu, which->gi, &each) && each.ci == (int)profile) found[(*count)++] = &computes[which->gpu][which->gi];
    *count = told(__func__, *count);
    return SUCCESS;
}
typedef struct { handle_t *device, *instance; unsigned int id, profile; placement_t place; } compute_info_t;
int nvmlComputeInstanceGetInfo_v2(handle_t *which, compute_info_t *info) {
    ENTER(which->gpu);
    instance_t found;
    if (!instance(which->gpu, which->gi, &found) || found.ci < 0) return NOT_FOUND;
    *info = (compute_info_t){&devices[which->gpu], &instances[which->gpu][which->gi], 0, found.ci, {0, 0}};
    return SUCCESS;
}
int nvmlComputeInstanceDestroy(handle_t *which) {
    ENTER(which->gpu);
    instance_t found;
    note("DestroyComputeInstance gpu-%d %d", which->gpu, which->gi);
    if (!instance(which->gpu, which->gi, &found) || found.ci < 0) return NOT_FOUND;
    found.ci = -1;
    keep(which->gpu, which->gi, &found);
    show(which->gpu, which->gi, 0, 0);
    return SUCCESS;
}
int nvmlDeviceGetMaxMigDeviceCount(handle_t *device, unsigned int *count) {
    ENTER(device->gpu);
    *count = told(__func__, exists(device->gpu, "profiles") ? 7 : 0);
    return SUCCESS;
}
int nvmlDeviceGetMigDeviceHandleByIndex(handle_t *device, unsigned int index, handle_t **found) {
    ENTER(device->gpu);
    instance_t each;
    unsigned int at = 0;
    for (int gi = 0; gi < IDS; gi++)
        if (instance(device->gpu, gi, &each) && each.ci >= 0 && at++ == index) {
            *found = &parts[device->gpu][gi];
            return SUCCESS;
        }
    return NOT_FOUND;
}
int nvmlDeviceGetGpuInstanceId(handle_t *device, unsigned int *id) {
    ENTER(device->gpu);
    *id = device->gi; return SUCCESS;
}
int nvmlDeviceGetComputeInstanceId(handle_t *device, unsigned int *id) {
    ENTER(device->gpu);
    *id = 0; (void)device; return SUCCESS;
}
