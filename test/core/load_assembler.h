#pragma once

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/assemble.h"

namespace tilewright {

// nvJitLink from TILEWRIGHT_NVJITLINK or the .venv at the root, which no system folder holds; null where it is absent.
inline std::shared_ptr<Assembler> load_assembler(std::string* why) {
  namespace fs = std::filesystem;
  std::vector<std::string> paths;
  const fs::path lib = fs::path(TILEWRIGHT_SOURCE_DIR) / ".venv/lib";
  if (fs::exists(lib)) {
    for (const auto& python : fs::directory_iterator(lib)) {
      paths.push_back(python.path() / "site-packages/nvidia/cu13/lib/libnvJitLink.so.13");
    }
  }
  if (const char* path = std::getenv("TILEWRIGHT_NVJITLINK")) paths.insert(paths.begin(), path);
  return Assembler::load(paths, why);
}

}  // namespace tilewright
