/* The library itself, and GPUs: facts, compute mode. */
#include "state.h"

handle_t devices[GPUS], instances[GPUS][IDS], computes[GPUS][IDS], parts[GPUS][IDS];
int session_seen;
/* How often it is initialized for the machine, also in its file `opened`: while it is, the kernel module stays loaded. */
static int opened;
static char machine[PATH];

int nvmlInitWithFlags(unsigned int flags) {
    ENTER(-1);
    (void)flags;
    for (int gpu = 0; gpu < GPUS; gpu++) {
        devices[gpu] = (handle_t){gpu, -1, -1};
        for (int id = 0; id < IDS; id++) instances[gpu][id] = computes[gpu][id] = parts[gpu][id] = (handle_t){gpu, id, 0};
    }
    session_seen = number(-1, "session", 0);
    if (strcmp(machine, root())) opened = 0;
    snprintf(machine, sizeof machine, "%s", root());
    replace_number(-1, "opened", ++opened);
    return SUCCESS;
}
int nvmlShutdown(void) {
    int refused = entered(__func__, -1);
    if (opened && !strcmp(machine, root())) replace_number(-1, "opened", --opened);
    return refused;
}

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
    ENTER(-1);
    char text[TEXT];
    content(-1, "driver", text, sizeof text);
    snprintf(version, length, "%s", strtok(text, " "));
    return SUCCESS;
}
int nvmlSystemGetCudaDriverVersion(int *version) {
    ENTER(-1);
    char text[TEXT];
    content(-1, "driver", text, sizeof text);
    *version = atoi(strchr(text, ' ') + 1);
    return SUCCESS;
}

static unsigned int gpu_count(void) {
    char name[32];
    for (unsigned int count = 0;; count++) {
        snprintf(name, sizeof name, "gpus/%u", count);
        if (count == GPUS || !exists(-1, name)) return count;
    }
}
int nvmlDeviceGetCount_v2(unsigned int *count) {
    ENTER(-1);
    *count = told(__func__, gpu_count());
    return SUCCESS;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, handle_t **device) {
    ENTER((int)index);
    if (index >= gpu_count()) return INVALID_ARGUMENT;
    *device = &devices[index];
    return gone(*device);
}
int nvmlDeviceGetHandleByUUID(const char *uuid, handle_t **device) {
    char text[TEXT];
    unsigned int count = gpu_count();
    for (unsigned int gpu = 0; gpu < count; gpu++) {
        fact(gpu, "uuid", text);
        if (strcmp(text, uuid)) continue;
        ENTER((int)gpu);
        *device = &devices[gpu];
        return gone(*device);
    }
    return NOT_FOUND;
}
int nvmlDeviceGetUUID(handle_t *device, char *uuid, unsigned int length) {
    ENTER(device->gpu);
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
    ENTER(device->gpu);
    char text[TEXT];
    fact(device->gpu, "name", text);
    snprintf(name, length, "%s", text);
    return SUCCESS;
}
int nvmlDeviceGetMinorNumber(handle_t *device, unsigned int *minor) {
    ENTER(device->gpu);
    *minor = fact_number(device->gpu, "minor");
    return SUCCESS;
}
typedef struct { char legacy[16]; unsigned int domain, bus, device, id, subsystem; char bus_id[32]; } pci_t;
int nvmlDeviceGetPciInfo_v3(handle_t *device, pci_t *pci) {
    ENTER(device->gpu);
    if (gone(device)) return GPU_IS_LOST;
    memset(pci, 0, sizeof *pci);
    fact(device->gpu, "bus", pci->bus_id);
    sscanf(pci->bus_id, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
    return SUCCESS;
}
int nvmlDeviceGetMemoryInfo(handle_t *device, unsigned long long *memory) {
    ENTER(device->gpu);
    memory[0] = fact_number(device->gpu, "memory");
    memory[2] = (unsigned long long)number(device->gpu, "memory_used_mib", 0) << 20;
    memory[1] = memory[0] - memory[2];
    return SUCCESS;
}
int nvmlDeviceGetUtilizationRates(handle_t *device, unsigned int *rates) {
    ENTER(device->gpu);
    rates[0] = number(device->gpu, "utilization", 0);
    rates[1] = 0;
    /* As GPUs in MIG mode answer. */
    return number(device->gpu, "mig_mode", 0) ? NOT_SUPPORTED : gone(device);
}
int nvmlDeviceGetPerformanceState(handle_t *device, int *state) {
    ENTER(device->gpu);
    *state = 0;
    return gone(device);
}
int nvmlDeviceGetVirtualizationMode(handle_t *device, int *mode) {
    ENTER(device->gpu);
    *mode = number(device->gpu, "virtualization", 0);
    return SUCCESS;
}
int nvmlDeviceGetBrand(handle_t *device, int *brand) {
    ENTER(device->gpu);
    *brand = fact_number(device->gpu, "brand");
    return SUCCESS;
}
int nvmlDeviceGetArchitecture(handle_t *device, unsigned int *architecture) {
    ENTER(device->gpu);
    *architecture = fact_number(device->gpu, "architecture");
    return SUCCESS;
}
int nvmlDeviceGetCudaComputeCapability(handle_t *device, int *major, int *minor) {
    ENTER(device->gpu);
    char text[TEXT];
    fact(device->gpu, "capability", text);
    sscanf(text, "%d.%d", major, minor);
    return SUCCESS;
}
int nvmlDeviceGetAddressingMode(handle_t *device, unsigned int *mode) {
    ENTER(device->gpu);
    char text[TEXT];
    fact(device->gpu, "addressing", text);
    if (!text[0]) return NOT_SUPPORTED;
    mode[1] = atoi(text);
    return SUCCESS;
}

int nvmlDeviceGetComputeMode(handle_t *device, int *mode) {
    ENTER(device->gpu);
    *mode = number(device->gpu, "compute_mode", 0);
    return gone(device);
}
int nvmlDeviceGetPersistenceMode(handle_t *device, int *mode) {
    ENTER(device->gpu);
    *mode = number(device->gpu, "persistence_mode", 1);
    return gone(device);
}
int nvmlDeviceSetComputeMode(handle_t *device, int mode) {
    ENTER(device->gpu);
    if (gone(device)) return GPU_IS_LOST;
    note("SetComputeMode gpu-%d %d", device->gpu, mode);
    replace_number(device->gpu, "compute_mode", mode);
    return SUCCESS;
}
