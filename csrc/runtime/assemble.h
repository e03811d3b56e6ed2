#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/artifact.h"

namespace tilewright {

// PTX to machine code by nvJitLink, which needs no GPU and may run in several threads.
class Assembler {
 public:
  // The library is not linked: the one that the process has loaded is taken, else the first of `paths` that loads, else
  // one of NVIDIA's wheels beside PyTorch's or our own library, else what the loader finds by its name. Null where
  // there is none; `why` then receives the reasons, one a line.
  static std::shared_ptr<Assembler> load(const std::vector<std::string>& paths, std::string* why = nullptr);
  virtual ~Assembler() = default;

  virtual std::string version() const = 0;  // "13.0"
  virtual std::string path() const = 0;
  // Throws DeviceError with the assembler's log, naming `name`.
  virtual MachineCode assemble(const std::string& ptx, const std::string& arch, const std::string& name) const = 0;
};

// Registers, spills, stack and shared memory from the assembler's verbose log.
void read_resource_usage(const std::string& log, MachineCode& code);

}  // namespace tilewright
