/* Events, and what tells whether a GPU needs repair. */
#include "state.h"

/* Events are files: events/<anything> with "gpu type data gi". They are read once. */
typedef struct { handle_t *device; unsigned long long type, data; unsigned int gi, ci; } event_t;
int nvmlEventSetCreate(void **set) {
    ENTER(-1);
    static int made; *set = &made; return SUCCESS;
}
int nvmlEventSetFree(void *set) {
    ENTER(-1);
    (void)set; return SUCCESS;
}
int nvmlDeviceGetSupportedEventTypes(handle_t *device, unsigned long long *types) {
    ENTER(device->gpu);
    *types = exists(device->gpu, "unmonitored") ? 0 : 0xf;
    return gone(device);
}
int nvmlDeviceRegisterEvents(handle_t *device, unsigned long long types, void *set) {
    ENTER(device->gpu);
    (void)types; (void)set;
    return exists(device->gpu, "unmonitored") ? NOT_SUPPORTED : gone(device);
}
int nvmlEventSetWait_v2(void *set, event_t *event, unsigned int timeout) {
    ENTER(-1);
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
    ENTER(device->gpu);
    for (int at = 0; at < count; at++) {
        values[at].error = values[at].field == 230 && exists(device->gpu, "recovery_action") ? SUCCESS : NOT_SUPPORTED;
        values[at].type = 1;
        values[at].value.number = number(device->gpu, "recovery_action", 0);
    }
    return gone(device);
}
int nvmlDeviceGetRemappedRows(handle_t *device, unsigned int *corrected, unsigned int *uncorrected, unsigned int *pending, unsigned int *failed) {
    ENTER(device->gpu);
    *corrected = *uncorrected = *failed = 0;
    *pending = exists(device->gpu, "rows_pending");
    return gone(device);
}
