#pragma once

#include <string>
#include <vector>

namespace tilewright {

// A library reached at run time only. It stays loaded to the end of the process: its functions are kept by their
// address.
class SharedLibrary {
 public:
  SharedLibrary() = default;
  // The library if the process has loaded it already.
  static SharedLibrary loaded(const char* name);
  // Loads it; where that fails, `error` receives the loader's text.
  static SharedLibrary open(const std::string& path, std::string* error);

  explicit operator bool() const { return handle_ != nullptr; }
  void* find(const char* symbol) const;
  // Where the library that holds `address` lies; "" where the loader does not know.
  static std::string path_of(const void* address);

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}
  void* handle_ = nullptr;
};

// Folders of the libraries in this process whose file name begins with one of `names`, each once.
std::vector<std::string> folders_of_loaded(const std::vector<std::string>& names);

}  // namespace tilewright
