// A CUDA driver that only answers, for tests of what a real one refuses. The test sets the answers.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>

extern "C" {

int fake_gpus = 1;
int fake_cc_major = 9;
int fake_cc_minor = 0;
int fake_load_result = 0;
int fake_launch_result = 0;

using Result = int;
using Handle = void*;
Handle const kSome = &fake_gpus;

Result cuDriverGetVersion(int* version) { return *version = 12040, 0; }
Result cuInit(unsigned) { return 0; }
Result cuDeviceGetCount(int* count) { return *count = fake_gpus, 0; }
Result cuDeviceGet(int* device, int ordinal) { return *device = ordinal, 0; }
Result cuDeviceGetName(char* name, int size, int) { return std::strncpy(name, "Fake GPU", size), 0; }
Result cuDeviceGetAttribute(int* value, int attribute, int) {
  // By the numbers of CUdevice_attribute.
  const std::map<int, int> values = {
      {13, 1980000},                             // clock, kHz
      {16, 132},                                 // multiprocessors
      {36, 3200000},       {37, 6144},           // memory clock, kHz, and bus, bits
      {38, 60 << 20},                            // L2
      {39, 2048},                                // threads of a multiprocessor
      {75, fake_cc_major}, {76, fake_cc_minor},  // compute capability
      {81, 228 << 10},     {82, 65536},          // shared memory and registers of a multiprocessor
      {97, 227 << 10},                           // shared memory that a block may ask for
      {106, 32},                                 // blocks of a multiprocessor
      {111, 1 << 10},                            // shared memory that a block cannot have
  };
  const auto found = values.find(attribute);
  *value = found == values.end() ? 0 : found->second;
  return 0;
}
Result cuDevicePrimaryCtxRetain(Handle* context, int) { return *context = kSome, 0; }
Result cuCtxGetCurrent(Handle* context) { return *context = kSome, 0; }
Result cuCtxSetCurrent(Handle) { return 0; }
Result cuGetErrorName(Result, const char** name) { return *name = "CUDA_ERROR_FAKE", 0; }
Result cuGetErrorString(Result, const char** text) { return *text = "made up", 0; }
Result cuLibraryLoadData(Handle* library, const void*, Handle, Handle, unsigned, Handle, Handle, unsigned) {
  *library = kSome;
  return fake_load_result;
}
Result cuLibraryUnload(Handle) { return 0; }
Result cuLibraryGetKernel(Handle* kernel, Handle, const char*) { return *kernel = kSome, 0; }
Result cuKernelGetFunction(Handle* function, Handle) { return *function = kSome, 0; }
Result cuFuncSetAttribute(Handle, int, int) { return 0; }
Result cuFuncGetAttribute(int* value, int, Handle) { return *value = 0, 0; }
Result cuLaunchKernelEx(const void*, Handle, Handle, Handle) { return fake_launch_result; }
Result cuMemsetD8Async(uint64_t, uint8_t, size_t, Handle) { return 0; }
Result cuStreamIsCapturing(Handle, int* status) { return *status = 0, 0; }
}
