#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/error.h"

// The simulator runs PTX on the host. It parses a module once into predecoded instructions, runs each warp's 32 lanes
// together, checks every access, and counts what the memory system of a GPU would see.
//
// Kernel pointers are host addresses: a launch lists the allocations that the kernel may touch, and every global
// access is checked against that list.
//
//   auto module = sim::parse(ptx);
//   sim::LaunchConfig config;
//   config.grid = {8, 1, 1};
//   config.block = {256, 1, 1};
//   sim::LaunchResult r = sim::launch(*module, "add", config, {sim::arg(x), sim::arg(y), sim::arg(n)}, memory);
namespace tilewright::sim {

// A parsed and predecoded PTX module. The code is immutable and may be shared between threads; `.global` variables of
// the PTX belong to the module and keep their values between launches, as they do on a GPU.
class Module;

// Throws UserError whose text begins with "line:column:".
std::shared_ptr<const Module> parse(std::string_view ptx);

struct KernelInfo {
  std::string name;
  std::vector<uint32_t> param_bytes;         // size of each parameter, in order
  uint64_t static_smem_bytes = 0;            // of .shared variables with a size
  bool uses_dynamic_smem = false;            // has an .extern .shared array
  std::array<uint32_t, 3> maxntid{0, 0, 0};  // zeros: not given
  std::array<uint32_t, 3> reqntid{0, 0, 0};
  std::array<uint32_t, 3> reqcluster{0, 0, 0};  // .reqnctapercluster: a launch without clusters takes it
  uint64_t local_bytes = 0;                     // of .local memory a thread
};
std::vector<std::string> kernel_names(const Module& module);
KernelInfo kernel_info(const Module& module, const std::string& entry);  // throws UserError for an unknown name

// Bytes at `base` that a kernel may read, and write when `writable`.
struct Allocation {
  uint64_t base = 0;
  uint64_t bytes = 0;
  std::string name;
  bool writable = true;
  bool initialized = true;  // false: a load of what no thread has written is a fault, when check_uninitialized
};

// When asynchronous copies move their bytes: as soon as they are issued, as late as a wait allows, or between.
enum class Completion : uint8_t { kEager, kLazy, kRandom };
enum class WarpOrder : uint8_t { kInTurn, kRandom };

struct LaunchConfig {
  std::array<uint32_t, 3> grid{1, 1, 1};
  std::array<uint32_t, 3> block{1, 1, 1};
  std::array<uint32_t, 3> cluster{1, 1, 1};
  uint64_t dynamic_smem_bytes = 0;
  int threads = 0;           // host threads; 0: all cores
  bool counters = true;      // fill LaunchResult
  uint64_t step_budget = 0;  // instructions a warp may run; 0: no limit
  // Checks that cost time (docs/simulator.md). A race is a pair of accesses to shared or global memory, one of them a
  // store and not both atomic, that nothing orders; with it come the waits and fences of asynchronous copies.
  bool check_races = false;
  bool check_uninitialized = false;  // loads of shared memory, and of allocations without contents, before any store
  bool check_registers = false;      // reads of registers that have no value
  Completion completion = Completion::kEager;
  WarpOrder order = WarpOrder::kInTurn;
  uint64_t seed = 0;                                  // of what is random
  uint64_t smem_limit_bytes = 0;                      // static and dynamic, a block; 0: what the .target allows
  uint32_t registers = 0;                             // a thread, as the assembler found; 0: not known
  const std::map<int, std::string>* names = nullptr;  // from .loc lines to operators, for reports
};

enum class Space : uint8_t { kGeneric, kGlobal, kShared, kLocal, kConst, kParam };
const char* space_name(Space space);

// What the warps of a launch asked of the memory system. `requests` are warp instructions. For global memory: distinct
// 32-byte sectors and 128-byte lines of each request; `ideal_sectors` is what the same bytes need when dense. For
// shared memory: `passes` over the 32 banks, and how many would do without conflicts.
struct MemoryCounters {
  uint64_t requests = 0;
  uint64_t bytes = 0;
  uint64_t sectors = 0;
  uint64_t ideal_sectors = 0;
  uint64_t lines = 0;
  uint64_t passes = 0;
  uint64_t ideal_passes = 0;
};

enum class AccessKind : uint8_t { kLoad, kStore, kAtomic, kAsyncCopy };

// One memory instruction of the kernel that was executed at least once.
struct AccessCounters : MemoryCounters {
  int ptx_line = 0;
  int loc_line = 0;  // 0: no .loc
  std::string text;  // the instruction as in the PTX
  AccessKind kind = AccessKind::kLoad;
  bool is_store = false;
  Space space = Space::kGlobal;  // a generic access counts where its addresses point
};

// Executions of one instruction.
struct LineCounters {
  int ptx_line = 0;
  int loc_line = 0;
  uint64_t warps = 0;  // warp instructions
  uint64_t lanes = 0;  // active lanes over those
};

struct Counters {
  uint64_t warp_instructions = 0;
  uint64_t lane_instructions = 0;
  // Warp instructions by kind; they add up to warp_instructions.
  uint64_t integer = 0, fp16 = 0, fp32 = 0, fp64 = 0, special = 0, convert = 0, move = 0, predicate = 0;
  uint64_t memory = 0, atomic = 0, control = 0, barrier = 0, collective = 0, matrix = 0, other = 0;
  uint64_t divergent_branches = 0;
  uint64_t blocks = 0, warps = 0;
  MemoryCounters global_load, global_store, global_atomic, shared_load, shared_store, shared_atomic;
  uint64_t local_bytes = 0, const_bytes = 0, param_bytes = 0;
};

struct LaunchResult {
  std::string printed;  // by printf, block after block; at most 1 MiB, as on a GPU
  Counters total;
  std::vector<AccessCounters> accesses;  // in PTX order
  std::vector<LineCounters> lines;       // in PTX order
};

// What a kernel did wrong.
enum class Check : uint8_t {
  kOutOfBounds,
  kMisaligned,
  kReadOnly,
  kUninitialized,
  kSharedRace,
  kGlobalRace,
  kMissingWait,
  kMissingFence,
  kMbarrier,
  kDivergence,
  kBarrier,
  kDeadlock,
  kStepBudget,
  kRegisters,
  kTrap,
  kOther,
};
const char* check_name(Check check);

struct FaultReport {
  Check check = Check::kOther;
  std::string what;    // one sentence, with the other access of a pair
  std::string advice;  // may be empty
  std::string kernel;
  int ptx_line = 0;
  std::string instruction;
  int loc_line = 0;  // 0: no .loc
  std::string loc_file;
  std::string op;  // from LaunchConfig::names
  std::array<uint32_t, 3> block{}, thread{};
  int warp = -1;         // when no single thread is at fault
  uint64_t address = 0;  // of memory, as the kernel sees it; 0: none
  std::string places;    // of a deadlock: where each warp waits, a line each
  std::string printed;   // by printf before
  std::string text() const;
};

class KernelFault : public DeviceError {
 public:
  explicit KernelFault(FaultReport report) : DeviceError(report.text()), report(std::move(report)) {}
  FaultReport report;
};

// `args`: one byte blob a kernel parameter, in order. A fault of the kernel throws KernelFault (with
// what was printed before in its text); a
// launch that does not fit the kernel (unknown name, wrong argument sizes, block too large) throws UserError.
LaunchResult launch(const Module& module, const std::string& entry, const LaunchConfig& config,
                    std::span<const std::vector<std::byte>> args, std::span<const Allocation> memory);

// The bytes of a scalar or pointer as a kernel argument.
template <typename T>
std::vector<std::byte> arg(const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  return std::vector<std::byte>(bytes, bytes + sizeof(T));
}

}  // namespace tilewright::sim
