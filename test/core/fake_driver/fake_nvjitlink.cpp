// An assembler that refuses every kernel that computes a sine, and gives something for the others.
#include <cstdint>
#include <cstring>
#include <string_view>

extern "C" {

using Result = int;

Result nvJitLinkVersion(unsigned* major, unsigned* minor) { return *major = 13, *minor = 0, 0; }
Result nvJitLinkCreate(void** link, uint32_t, const char**) { return *link = nullptr, 0; }
Result nvJitLinkDestroy(void**) { return 0; }
Result nvJitLinkAddData(void*, int, const void* ptx, size_t size, const char*) {
  constexpr std::string_view kTwoOverPi = "i2opi";  // the table that sines reduce large arguments with
  return std::string_view(static_cast<const char*>(ptx), size).find(kTwoOverPi) == std::string_view::npos ? 0 : 4;
}
Result nvJitLinkComplete(void*) { return 0; }
Result nvJitLinkGetLinkedCubinSize(void*, size_t* size) { return *size = 4, 0; }
Result nvJitLinkGetLinkedCubin(void*, void* cubin) { return std::memcpy(cubin, "code", 4), 0; }
Result nvJitLinkGetErrorLogSize(void*, size_t* size) { return *size = 0, 0; }
Result nvJitLinkGetErrorLog(void*, char*) { return 0; }
Result nvJitLinkGetInfoLogSize(void*, size_t* size) { return *size = 0, 0; }
Result nvJitLinkGetInfoLog(void*, char*) { return 0; }
}
