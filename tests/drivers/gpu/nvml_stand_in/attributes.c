/* Sizes of compute instances. A file `compute/<gi>` of a GPU has slices and multiprocessors of a smaller one. */
#include "state.h"

typedef struct {
    unsigned int multiprocessors, copy, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices;
    unsigned long long memory;
} attributes_t;

int nvmlDeviceGetAttributes_v2(handle_t *device, attributes_t *told) {
    char name[64], text[128];
    instance_t found;
    ENTER(device->gpu);
    if (device->gi < 0) return NOT_SUPPORTED;
    if (!instance(device->gpu, device->gi, &found)) return NOT_FOUND;
    memset(told, 0, sizeof *told);
    told->gpu_slices = told->compute_slices = found.size;
    snprintf(name, sizeof name, "compute/%d", device->gi);
    if (!content(device->gpu, name, text, sizeof text))
        sscanf(text, "%u %u %u", &told->gpu_slices, &told->compute_slices, &told->multiprocessors);
    return SUCCESS;
}
