/* A libcuda.so.1 that knows no device: cuPyNumeric's libraries are linked to one even where there is no GPU.

   gcc -shared -fPIC -Wl,-soname,libcuda.so.1 -o FOLDER/libcuda.so.1 no_cuda.c -ldl; LD_LIBRARY_PATH=FOLDER ... */

#define _GNU_SOURCE
#include <dlfcn.h>

enum { NO_DEVICE = 100 };

#define NONE(name) int name(void) { return NO_DEVICE; }
NONE(cuMemFreeHost)
NONE(cuMemFree_v2)
static NONE(nothing)

int cuInit(unsigned flags) { return NO_DEVICE; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *count) { *count = 0; return 0; }
int cuGetErrorName(int error, const char **name) { *name = "CUDA_ERROR_NO_DEVICE"; return 0; }
int cuGetErrorString(int error, const char **text) { *text = "no device"; return 0; }

int cuGetProcAddress_v2(const char *name, void **address, int version, unsigned long flags, int *status) {
    void *found = dlsym(RTLD_DEFAULT, name);
    *address = found ? found : (void *)nothing;
    if (status) *status = 0;
    return 0;
}
int cuGetProcAddress(const char *name, void **address, int version, unsigned long flags) {
    return cuGetProcAddress_v2(name, address, version, flags, 0);
}
