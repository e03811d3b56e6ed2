#include "runtime/assemble.h"

// The declarations of nvJitLink's functions, not inline wrappers around one version's names.
#define NVJITLINK_NO_INLINE
#include <nvJitLink.h>

#include <filesystem>
#include <regex>

#include "runtime/shared_library.h"
#include "support/error.h"

namespace tilewright {

namespace {

struct Functions {
  nvJitLinkResult (*create)(nvJitLinkHandle*, uint32_t, const char**) = nullptr;
  nvJitLinkResult (*destroy)(nvJitLinkHandle*) = nullptr;
  nvJitLinkResult (*add_data)(nvJitLinkHandle, nvJitLinkInputType, const void*, size_t, const char*) = nullptr;
  nvJitLinkResult (*complete)(nvJitLinkHandle) = nullptr;
  nvJitLinkResult (*cubin_size)(nvJitLinkHandle, size_t*) = nullptr;
  nvJitLinkResult (*cubin)(nvJitLinkHandle, void*) = nullptr;
  nvJitLinkResult (*error_log_size)(nvJitLinkHandle, size_t*) = nullptr;
  nvJitLinkResult (*error_log)(nvJitLinkHandle, char*) = nullptr;
  nvJitLinkResult (*info_log_size)(nvJitLinkHandle, size_t*) = nullptr;
  nvJitLinkResult (*info_log)(nvJitLinkHandle, char*) = nullptr;
};

// A handle that is destroyed on every way out.
class Link {
 public:
  Link(const Functions& f, std::vector<const char*> options) : f_(f) {
    created_ = f_.create(&handle_, static_cast<uint32_t>(options.size()), options.data());
  }
  ~Link() {
    if (handle_) f_.destroy(&handle_);
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  nvJitLinkResult created() const { return created_; }
  nvJitLinkHandle handle() const { return handle_; }

  using SizeOf = nvJitLinkResult (*)(nvJitLinkHandle, size_t*);
  using Get = nvJitLinkResult (*)(nvJitLinkHandle, char*);
  std::string log(SizeOf size_of, Get get) const {
    size_t size = 0;
    if (!handle_ || size_of(handle_, &size) != NVJITLINK_SUCCESS || size == 0) return "";
    std::string text(size, '\0');
    if (get(handle_, text.data()) != NVJITLINK_SUCCESS) return "";
    text.resize(std::min(text.find('\0'), text.size()));
    return text;
  }

 private:
  const Functions& f_;
  nvJitLinkHandle handle_ = nullptr;
  nvJitLinkResult created_;
};

class NvJitLink final : public Assembler {
 public:
  NvJitLink(Functions f, unsigned major, unsigned minor, std::string path)
      : f_(f), version_(std::to_string(major) + "." + std::to_string(minor)), path_(std::move(path)) {}

  std::string version() const override { return version_; }
  std::string path() const override { return path_; }

  MachineCode assemble(const std::string& ptx, const std::string& arch, const std::string& name) const override {
    const std::string arch_option = "-arch=" + arch;
    const Link link(f_, {arch_option.c_str(), "-verbose", "-lineinfo"});
    const auto check = [&](nvJitLinkResult result, const char* what) {
      if (result == NVJITLINK_SUCCESS) return;
      throw DeviceError("nvJitLink " + version_ + " cannot " + what + " kernel " + name + " for " + arch + " (error " +
                        std::to_string(result) + ")\n" + link.log(f_.error_log_size, f_.error_log));
    };
    check(link.created(), "begin");
    check(f_.add_data(link.handle(), NVJITLINK_INPUT_PTX, ptx.c_str(), ptx.size() + 1, name.c_str()),
          "read the PTX of");
    check(f_.complete(link.handle()), "assemble");
    MachineCode code;
    size_t size = 0;
    check(f_.cubin_size(link.handle(), &size), "size the code of");
    code.cubin.resize(size);
    check(f_.cubin(link.handle(), code.cubin.data()), "give the code of");
    read_resource_usage(link.log(f_.info_log_size, f_.info_log), code);
    return code;
  }

 private:
  Functions f_;
  std::string version_;
  std::string path_;
};

// A release exports each function by its name, or by its name with the release's number.
template <typename F>
bool find(const SharedLibrary& library, const std::string& suffix, const char* name, F& function) {
  void* symbol = library.find(name);
  if (!symbol) symbol = library.find(("__" + std::string(name) + suffix).c_str());
  function = reinterpret_cast<F>(symbol);
  return symbol != nullptr;
}

std::shared_ptr<Assembler> bind(const SharedLibrary& library, const std::string& name, std::string& why) {
  unsigned major = 0, minor = 0;
  const auto version = reinterpret_cast<nvJitLinkResult (*)(unsigned*, unsigned*)>(library.find("nvJitLinkVersion"));
  if (!version || version(&major, &minor) != NVJITLINK_SUCCESS) {
    why += name + ": does not tell its version (CUDA 12.3 or newer is needed)\n";
    return nullptr;
  }
  const std::string suffix = "_" + std::to_string(major) + "_" + std::to_string(minor);
  Functions f;
  const bool complete =
      find(library, suffix, "nvJitLinkCreate", f.create) && find(library, suffix, "nvJitLinkDestroy", f.destroy) &&
      find(library, suffix, "nvJitLinkAddData", f.add_data) && find(library, suffix, "nvJitLinkComplete", f.complete) &&
      find(library, suffix, "nvJitLinkGetLinkedCubinSize", f.cubin_size) &&
      find(library, suffix, "nvJitLinkGetLinkedCubin", f.cubin) &&
      find(library, suffix, "nvJitLinkGetErrorLogSize", f.error_log_size) &&
      find(library, suffix, "nvJitLinkGetErrorLog", f.error_log) &&
      find(library, suffix, "nvJitLinkGetInfoLogSize", f.info_log_size) &&
      find(library, suffix, "nvJitLinkGetInfoLog", f.info_log);
  if (!complete) {
    why += name + ": lacks functions of nvJitLink " + std::to_string(major) + "." + std::to_string(minor) + "\n";
    return nullptr;
  }
  const std::string path = SharedLibrary::path_of(reinterpret_cast<const void*>(f.create));
  return std::make_shared<NvJitLink>(f, major, minor, path.empty() ? name : path);
}

constexpr const char* kNames[] = {"libnvJitLink.so.13", "libnvJitLink.so.12"};

// NVIDIA's wheels lie beside PyTorch's: site-packages/nvidia/cu13/lib, or nvidia/nvjitlink/lib for CUDA 12.
std::vector<std::string> files_of_wheels() {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const std::string& folder : folders_of_loaded({"libc10.so", "libtorch_cpu.so", "libtilewright_core.so"})) {
    for (fs::path up = folder; up.has_relative_path(); up = up.parent_path()) {
      if (up.filename() != "site-packages" && up.filename() != "dist-packages") continue;
      for (const char* wheel : {"cu13", "nvjitlink"}) {
        for (const char* name : kNames) {
          const fs::path file = up / "nvidia" / wheel / "lib" / name;
          std::error_code ignored;
          if (fs::exists(file, ignored)) files.push_back(file);
        }
      }
      break;
    }
  }
  return files;
}

}  // namespace

std::shared_ptr<Assembler> Assembler::load(const std::vector<std::string>& paths, std::string* why) {
  std::string reasons;
  for (const char* name : kNames) {
    if (const SharedLibrary library = SharedLibrary::loaded(name)) {
      if (auto assembler = bind(library, name, reasons)) return assembler;
    }
  }
  std::vector<std::string> candidates = paths;
  for (std::string& file : files_of_wheels()) candidates.push_back(std::move(file));
  candidates.insert(candidates.end(), std::begin(kNames), std::end(kNames));
  for (const std::string& candidate : candidates) {
    std::string error;
    if (const SharedLibrary library = SharedLibrary::open(candidate, &error)) {
      if (auto assembler = bind(library, candidate, reasons)) return assembler;
    } else {
      reasons += error + "\n";
    }
  }
  if (why) *why = reasons;
  return nullptr;
}

void read_resource_usage(const std::string& log, MachineCode& code) {
  const auto number = [&](const char* pattern) -> int64_t {
    std::smatch match;
    return std::regex_search(log, match, std::regex(pattern)) ? std::stoll(match[1]) : 0;
  };
  code.registers = static_cast<int>(number("Used ([0-9]+) registers"));
  code.stack_bytes = number("([0-9]+) bytes stack frame");
  code.spill_store_bytes = number("([0-9]+) bytes spill stores");
  code.spill_load_bytes = number("([0-9]+) bytes spill loads");
  code.static_smem_bytes = number("([0-9]+) bytes smem");
}

}  // namespace tilewright
