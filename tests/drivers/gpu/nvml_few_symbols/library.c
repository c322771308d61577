/* Another library with NVML's symbols: few of them, some in other versions than the first stand-in has.
 *
 * Two RTX 4090, or as many H100 as NVML_H100 says, of which the second and third have MIG on. Minor numbers are not the
 * indexes: they count down, so the first of two GPUs has /dev/nvidia1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, ARGUMENT_VERSION_MISMATCH = 25 };
typedef struct { unsigned int index; } device_t;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } memory_v2_t;

static device_t devices[16];

static unsigned int h100s(void) {
    const char *text = getenv("NVML_H100");
    return text ? (unsigned int)atoi(text) : 0;
}
static unsigned int count(void) { return h100s() ? h100s() : 2; }

int nvmlInit_v2(void) {
    for (unsigned int index = 0; index < 16; index++) devices[index].index = index;
    return SUCCESS;
}
int nvmlShutdown(void) { return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned int *found) {
    *found = count();
    return SUCCESS;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device_t **found) {
    if (index >= count()) return INVALID_ARGUMENT;
    *found = &devices[index];
    return SUCCESS;
}
int nvmlDeviceGetUUID(device_t *device, char *uuid, unsigned int length) {
    char text[64];
    snprintf(text, sizeof text, "GPU-%08x-1111-2222-3333-444444444444", device->index);
    if (strlen(text) >= length) return INSUFFICIENT_SIZE;
    strcpy(uuid, text);
    return SUCCESS;
}
int nvmlDeviceGetName(device_t *device, char *name, unsigned int length) {
    (void)device;
    snprintf(name, length, "%s", h100s() ? "NVIDIA H100 80GB HBM3" : "NVIDIA GeForce RTX 4090");
    return SUCCESS;
}
int nvmlDeviceGetMinorNumber(device_t *device, unsigned int *minor) {
    *minor = count() - 1 - device->index;
    return SUCCESS;
}
int nvmlDeviceGetMemoryInfo_v2(device_t *device, memory_v2_t *memory) {
    (void)device;
    if (memory->version != 0x02000028) return ARGUMENT_VERSION_MISMATCH;
    memory->total = (h100s() ? 80ULL : 24ULL) << 30;
    memory->reserved = 1ULL << 28;
    memory->used = 0;
    memory->free = memory->total - memory->reserved;
    return SUCCESS;
}
int nvmlDeviceGetMigMode(device_t *device, unsigned int *current, unsigned int *pending) {
    if (!h100s()) return NOT_SUPPORTED;
    *current = *pending = device->index == 1 || device->index == 2;
    return SUCCESS;
}
