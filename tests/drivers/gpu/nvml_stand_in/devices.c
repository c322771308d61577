/* The library itself, and GPUs: facts, compute mode. */
#include "state.h"

handle_t devices[GPUS], instances[GPUS][IDS], computes[GPUS][IDS], parts[GPUS][IDS];

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
