#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "simulator/simulator.h"
#include "simulator/syntax.h"
#include "simulator/watch.h"

// The machine that runs decoded instructions.
//
// Registers. A frame is one buffer a warp and function; an operand is the byte offset of a slot in it. A slot holds the
// 32 lanes of a register side by side (64, 128 or 256 bytes for 16, 32 and 64 bits), so a handler is one loop over an
// array. A predicate is one 32-bit mask. Constants and special registers are slots too, filled when a frame is made.
//
// Divergence. A warp is a set of splits: lanes that share a program counter. Where a branch sends lanes two ways, a
// Meeting is made at the immediate post-dominator of the branch; a split that comes there waits until all lanes that
// the meeting expects have arrived or exited, and goes on as one. Splits take turns, so lanes that wait for
// each other in a loop make progress.
namespace tilewright::sim {

inline constexpr uint32_t kLanes = 32;
inline constexpr uint32_t kAllLanes = 0xffffffffu;
inline constexpr uint32_t kNone = 0xffffffffu;

// Generic addresses. Global, const and kernel parameter memory is host memory under its own address; shared and local
// memory have windows that no host address reaches.
inline constexpr uint64_t kSharedWindow = uint64_t{0xfd} << 56;
inline constexpr uint64_t kLocalWindow = uint64_t{0xfe} << 56;
inline constexpr uint64_t kFunctionWindow = uint64_t{0xfc} << 56;
inline constexpr uint64_t kWindowMask = uint64_t{0xff} << 56;
// A shared address is an offset; one of another block of the cluster carries that block's rank + 1 above it.
inline constexpr uint32_t kSharedRankShift = 24;

enum class Kind : uint8_t {
  kInteger,
  kFp16,
  kFp32,
  kFp64,
  kSpecial,
  kConvert,
  kMove,
  kPredicate,
  kMemory,
  kAtomic,
  kControl,
  kBarrier,
  kCollective,
  kMatrix,
  kOther,
  kInternal,
};
inline constexpr size_t kKinds = 16;

struct Instr;
struct Warp;
using Handler = void (*)(const Instr& in, Warp& warp, uint32_t mask);

struct Instr {
  Handler fn = nullptr;
  uint32_t d = kNone, a = kNone, b = kNone, c = kNone, e = kNone;  // slots
  uint32_t guard = kNone;
  bool guard_negated = false;
  Kind kind = Kind::kOther;
  uint8_t bytes = 0;      // memory: of an element; else free
  uint8_t vector = 1;     // memory: elements a lane
  uint8_t reg_bytes = 0;  // memory: of the register
  uint8_t mode = 0;
  bool flag = false;
  bool is_signed = false;
  bool ftz = false, sat = false, relu = false;
  Space space = Space::kGeneric;  // memory
  bool address_32 = false;        // memory: the address register has 32 bits
  bool frame_local = false;       // memory: the offset counts from the frame's local memory
  int64_t imm = 0;
  uint32_t target = 0;       // branch
  uint32_t meeting = kNone;  // branch: pc of the immediate post-dominator
  uint32_t list = 0;         // into Code::lists
  uint32_t access = kNone;   // index of a memory instruction in the kernel
  uint8_t sync = 0;          // memory: SyncFlags
  uint32_t statement = 0;    // in Code::syntax->statements
};

// Registers whose value is fixed while a block runs.
enum class Special : uint8_t {
  kTidX,
  kTidY,
  kTidZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kLaneid,
  kWarpid,
  kNwarpid,
  kSmid,
  kNsmid,
  kGridid,
  kLanemaskEq,
  kLanemaskLe,
  kLanemaskLt,
  kLanemaskGe,
  kLanemaskGt,
  kDynamicSmem,
  kTotalSmem,
  kAggrSmem,
  kClusteridX,
  kClusteridY,
  kClusteridZ,
  kNclusteridX,
  kNclusteridY,
  kNclusteridZ,
  kClusterCtaidX,
  kClusterCtaidY,
  kClusterCtaidZ,
  kClusterNctaidX,
  kClusterNctaidY,
  kClusterNctaidZ,
  kClusterCtarank,
  kClusterNctarank,
  kIsExplicitCluster,
  kReservedSmemBegin,
  kEnvreg1,  // address of the grid's workspace: upper half, lower half
  kEnvreg2,
};

struct ConstantSlot {
  uint32_t slot = 0;
  uint32_t bytes = 0;  // of a lane; 0: a predicate
  uint64_t bits = 0;
};

struct SpecialSlot {
  uint32_t slot = 0;
  uint32_t bytes = 0;
  Special which{};
};

struct PlacedParam {
  uint32_t offset = 0;  // entry: in the parameter block; function: in the frame's local memory
  uint32_t bytes = 0;
};

// One function, decoded.
struct Code {
  const FunctionSyntax* syntax = nullptr;
  std::vector<Instr> instrs;
  uint32_t frame_bytes = 0;
  uint32_t local_bytes = 0;  // .local variables and call parameters
  uint32_t count_base = 0;   // of its instructions among the kernel's
  std::vector<ConstantSlot> constants;
  std::vector<SpecialSlot> specials;
  std::vector<uint32_t> lists;
  std::vector<PlacedParam> params, results;
  // The registers of each instruction, for the check of their values: in `uses`, sources and then destinations.
  struct Uses {
    uint32_t first = 0, reads = 0, writes = 0;
    bool copies = false;  // moves values on, wherever they come from
  };
  std::vector<Uses> uses_of;
  std::vector<uint32_t> uses;                          // slots
  std::unordered_map<uint32_t, uint32_t> register_of;  // by slot
};

struct AccessSite {
  const Code* code = nullptr;
  uint32_t pc = 0;
  AccessKind kind = AccessKind::kLoad;
};

// An entry with the functions it can reach.
struct Kernel {
  KernelInfo info;
  std::vector<std::unique_ptr<Code>> codes;  // [0] is the entry
  std::vector<const Code*> functions;        // by the module's functions, whose addresses are their numbers; or null
  std::vector<AccessSite> accesses;
  uint32_t instructions = 0;
  uint32_t param_bytes = 0;
  uint32_t local_stack_bytes = 0;  // local memory a lane, calls included
  uint32_t dynamic_smem_offset = 0;
};

struct AlignedFree {
  void operator()(std::byte* p) const { std::free(p); }
};

// A buffer aligned to cache lines whose contents survive growing.
class Buffer {
 public:
  std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }
  void grow(size_t bytes) {
    if (bytes <= size_) return;
    const size_t rounded = (bytes + 63) / 64 * 64;
    auto* fresh = static_cast<std::byte*>(std::aligned_alloc(64, rounded));
    if (!fresh) throw std::bad_alloc();
    if (size_) std::memcpy(fresh, data_.get(), size_);
    std::memset(fresh + size_, 0, rounded - size_);
    data_.reset(fresh);
    size_ = rounded;
  }

 private:
  std::unique_ptr<std::byte, AlignedFree> data_;
  size_t size_ = 0;
};

// Zeros that take no memory before they are written.
class ZeroedMemory {
 public:
  ZeroedMemory() = default;
  explicit ZeroedMemory(size_t bytes) : block_(static_cast<std::byte*>(std::calloc(bytes + kAlign, 1))) {
    if (!block_) throw std::bad_alloc();
  }
  std::byte* data() const {
    const auto at = reinterpret_cast<uintptr_t>(block_.get());
    return block_.get() + (kAlign - at % kAlign);
  }

 private:
  static constexpr size_t kAlign = 4096;  // what .align may ask for
  std::unique_ptr<std::byte, AlignedFree> block_;
};

struct Region {
  uint64_t base = 0;
  uint64_t end = 0;
  const char* name = "";
  bool writable = true;
  bool initialized = true;
};

// What one memory instruction did, in one worker.
struct AccessState {
  const Region* hit = nullptr;  // region of the last access
  MemoryCounters global, shared;
  uint64_t local_bytes = 0, const_bytes = 0, param_bytes = 0;
};

struct InstrCount {
  uint64_t warps = 0;
  uint64_t lanes = 0;
};

enum class SplitState : uint8_t { kReady, kAtBarrier, kAtWarpSync, kAtCluster };

struct Split {
  const Code* code = nullptr;
  uint32_t pc = 0;
  uint32_t mask = 0;
  uint32_t meeting = 0;
  uint32_t frame = 0;  // byte offset of the frame in the register file
  uint32_t local = 0;  // offset of the frame's local memory
  uint32_t depth = 0;
  SplitState state = SplitState::kReady;
  uint32_t wait_mask = 0;  // kAtWarpSync: lanes that execute the instruction
  uint32_t barrier = 0;    // kAtBarrier
};

// Where diverged lanes of a warp go on together.
struct Meeting {
  uint32_t parent = kNone;
  uint32_t expected = 0;
  uint32_t arrived = 0;
  bool is_frame = false;  // at the return of a call; else at resume.pc
  Split resume;           // all but the mask
  uint32_t results = 0;   // of a frame: in the caller's lists, where results go
};

struct Block;
struct Worker;
class AsyncCopies;

struct Warp {
  // The running split.
  std::byte* regs = nullptr;
  const Instr* code_begin = nullptr;
  InstrCount* counts = nullptr;
  Split now;
  bool running = false;          // `now` holds a split
  bool stop = false;             // leave the inner loop: the split changed
  bool yielding = false;         // leave the warp for now
  bool polled = false;           // an atomic access since the slice began: a loop may wait for other threads
  bool loosened = false;         // lanes have gone on before others came to their meeting
  bool blocked = false;          // what it last polled for has not happened
  bool acted = false;            // something that others may wait for has happened
  uint64_t awaited = 0;          // host address of the mbarrier at which it polls
  uint32_t cluster_waiting = 0;  // lanes between arrival and wait at the cluster's barrier
  uint32_t cluster_phase = 0;    // at their arrival
  uint32_t carry = 0;            // condition code of add.cc and its like, a bit a lane

  Worker* worker = nullptr;
  Block* block = nullptr;
  uint32_t index = 0;
  uint32_t live = 0;  // lanes that have not exited
  uint64_t steps = 0;
  Buffer file;
  Buffer local;
  uint32_t local_stride = 0;       // bytes of local memory a lane
  const Code* prepared = nullptr;  // whose constants the entry frame holds
  std::vector<Split> splits;       // those not running
  std::vector<Meeting> meetings;
  std::vector<uint32_t> free_meetings;
  std::vector<uint32_t> defined;  // when checked: lanes of each register that have a value, by slot / 4

  template <typename T>
  T* slot(uint32_t offset) const {
    return reinterpret_cast<T*>(regs + offset);
  }
};

struct Barrier {
  uint32_t arrived = 0;   // threads
  uint32_t expected = 0;  // 0: all threads that still run
  bool in_use = false;
  // bar.red
  uint32_t count_true = 0;
  bool all_true = true, any_true = false;
};

// setmaxnreg, which the four warps of a warpgroup execute together.
struct RegisterMove {
  const Instr* instr = nullptr;
  uint32_t warps = 0;      // mask of those that have come
  uint32_t registers = 0;  // a thread; 0: not known
};

struct Block {
  std::array<uint32_t, 3> index{};
  uint32_t rank = 0;  // in its cluster
  uint32_t threads = 0;
  uint32_t live_warps = 0;
  std::vector<Block*> cluster;
  std::vector<std::unique_ptr<Warp>> warps;
  Buffer smem;
  uint32_t smem_bytes = 0;
  std::array<Barrier, 16> barriers;
  uint32_t cluster_arrived = 0, cluster_phase = 0;  // of rank 0: its cluster's barrier
  Watch* watch = nullptr;                           // of its cluster, when accesses are checked
  AsyncCopies* copies = nullptr;                    // of its cluster
  std::array<RegisterMove, 8> moves{};              // of each warpgroup: setmaxnreg under way
};

struct Launch {
  std::unique_ptr<LaunchWatch> watch;  // when accesses are checked
  const Module* module = nullptr;
  const Kernel* kernel = nullptr;
  LaunchConfig config;
  std::vector<std::byte> params;
  std::vector<Region> regions;            // sorted by base
  std::vector<std::string> region_names;  // of the module's variables
  uint64_t blocks = 0;
  std::atomic<uint64_t> next_block{0};
  std::atomic<bool> failed{false};
  std::mutex failure_mutex;
  std::exception_ptr failure;
  std::atomic<uint64_t> printed_bytes{0};
  alignas(
      64) std::array<std::byte, 64> grid_workspace{};  // of cooperative groups' grid barrier; %envreg1 and 2 find it
};

// What a block's threads printed.
struct Printed {
  uint64_t block = 0;  // linear index
  std::string text;
};

struct Worker {
  Launch* launch = nullptr;
  const Kernel* kernel = nullptr;
  std::vector<AccessState> accesses;
  std::vector<InstrCount> counts;
  uint64_t divergent_branches = 0;
  uint64_t blocks = 0, warps = 0;
  bool counters = true;
  std::vector<Printed> printed;
};

// A fault of the running kernel, without its place, which the run loop adds.
struct Fault {
  std::string what;
  int lane = -1;
  Check check = Check::kOther;
  std::string advice;
  uint64_t address = 0;
};

// Divergence and calls (warp.cpp).
void start_warp(Warp& w, const Code& entry, uint32_t lanes);
// Runs until every split waits or is done, or `slice` instructions have run.
void run_warp(Warp& w, uint32_t slice);
bool warp_ready(const Warp& w);
bool warp_done(const Warp& w);
void diverge(Warp& w, uint32_t taken, uint32_t target, uint32_t meeting_pc);
void arrive(Warp& w);  // the running split is at its meeting
void exit_lanes(Warp& w, uint32_t mask);
void return_lanes(Warp& w, uint32_t mask);
// Each callee is called by some lanes of the running split; the others wait for them.
struct Callee {
  const Code* code = nullptr;
  uint32_t mask = 0;
};
void call_functions(Warp& w, const std::vector<Callee>& callees, uint32_t list);
void park(Warp& w, SplitState state);  // the running split waits
// Turns all live lanes, which have gathered at this instruction, into the running split as far as they share a meeting;
// others wait at `barrier`.
void merge_gathered(Warp& w, uint32_t barrier);
// True when all of `members`, and all that those who wait here name in `member_slot`, are at this instruction; then
// `lanes` is their union with those that waited, which go on.
bool gather_lanes(Warp& w, uint32_t members, uint32_t mask, uint32_t& lanes, uint32_t member_slot = kNone);
void fill_frame(Warp& w, const Code& code, uint32_t frame, uint32_t lanes);

// Warp-wide waits for a block (sync.cpp).
void warp_exited(Warp& w);
void cluster_check(Block& block);
std::string barrier_text(const Block& block);  // for a deadlock's report
std::string mbarrier_text(const Warp& w);      // what a warp that polls waits for

std::string place_text(const Warp& w, const Split& split);
FaultReport fault_report(const Warp& w, const Split& at, const Fault& fault);

// One lane's cp.async of in.bytes, zeros beyond the first `bytes` (mbarrier.cpp).
void copy_async_lane(const Instr& in, Warp& w, int lane, std::byte* to, const std::byte* from, uint32_t bytes);

// Values of registers (registers.cpp).
void check_registers(Warp& w, const Instr& in, uint32_t mask);
void check_guard(const Warp& w, const Instr& in);
void forget_registers(Warp& w, const Code& code, uint32_t frame, uint32_t lanes);

// Memory faults (fault.cpp).
[[noreturn]] void fault(std::string what, int lane = -1);
[[noreturn]] void fault(Check check, std::string what, std::string advice, int lane = -1, uint64_t address = 0);
[[noreturn]] void fault_global(const Warp& w, uint64_t address, uint32_t bytes, bool store, int lane);
[[noreturn]] void fault_window(const Warp& w, const char* space, uint64_t address, uint64_t size, uint32_t bytes,
                               bool store, int lane);
[[noreturn]] void fault_misaligned(const char* space, uint64_t address, uint32_t bytes, int lane);
const Region* find_region(const Launch& launch, uint64_t address, uint64_t bytes);

// Handlers by key ("add.b32"): for the best instruction set of this host. Null when there is none.
Handler find_handler(std::string_view key);
using HandlerRow = std::pair<std::string, Handler>;
using HandlerRows = std::vector<HandlerRow>;

// What an asynchronous reduction does to an element at `to` (combine.cpp). Numbered from 1, by the names of
// atomic_functions.h ("add.b32"); 0: there is none.
using CombineElement = void (*)(std::byte* to, const std::byte* from, bool global);
uint32_t find_combine(std::string_view name);
CombineElement combine_at(uint32_t number);

// Rounding of conversions and arithmetic (Instr::mode).
enum Rounding : uint8_t { kNearest, kTowardZero, kDown, kUp, kNearestAway };
// How setp combines with its predicate operand (Instr::mode).
enum Combine : uint8_t { kNoCombine, kAnd, kOr, kXor };

class Module {
 public:
  std::string text;
  ModuleSyntax syntax;
  std::vector<std::unique_ptr<Kernel>> kernels;
  struct Placed {
    const Variable* variable = nullptr;
    ZeroedMemory memory;
  };
  std::vector<Placed> variables;  // .global and .const
  const Kernel* find(std::string_view entry) const;
  const Placed* find_placed(std::string_view name) const;
  uint32_t function_number(std::string_view name) const;  // from 1; 0: there is none with a body
};

// Decodes an entry and what it calls; throws UserError with line and column.
std::unique_ptr<Kernel> decode_kernel(const Module& module, const FunctionSyntax& entry);

}  // namespace tilewright::sim
