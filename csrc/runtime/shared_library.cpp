#include "runtime/shared_library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>

namespace tilewright {

SharedLibrary SharedLibrary::loaded(const char* name) {
  return SharedLibrary(dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD));
}

SharedLibrary SharedLibrary::open(const std::string& path, std::string* error) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle && error) *error = dlerror();
  return SharedLibrary(handle);
}

void* SharedLibrary::find(const char* symbol) const { return handle_ ? dlsym(handle_, symbol) : nullptr; }

std::string SharedLibrary::path_of(const void* address) {
  Dl_info info;
  return dladdr(address, &info) && info.dli_fname ? info.dli_fname : "";
}

std::vector<std::string> folders_of_loaded(const std::vector<std::string>& names) {
  struct Search {
    const std::vector<std::string>& names;
    std::vector<std::string> folders;
  } search{names, {}};
  const auto visit = [](dl_phdr_info* info, size_t, void* data) {
    auto& found = *static_cast<Search*>(data);
    const std::string path = info->dlpi_name ? info->dlpi_name : "";
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return 0;
    const bool is_wanted = std::any_of(found.names.begin(), found.names.end(), [&](const std::string& name) {
      return path.compare(slash + 1, name.size(), name) == 0;
    });
    const std::string folder = path.substr(0, slash);
    if (is_wanted && std::find(found.folders.begin(), found.folders.end(), folder) == found.folders.end()) {
      found.folders.push_back(folder);
    }
    return 0;
  };
  dl_iterate_phdr(visit, &search);
  return search.folders;
}

}  // namespace tilewright
