#include <algorithm>
#include <bit>
#include <cfenv>
#include <iterator>
#include <numeric>
#include <random>
#include <thread>

#include "simulator/async.h"

namespace tilewright::sim {
namespace {

constexpr uint32_t kSlice = 16384;       // instructions before another warp's turn
constexpr uint32_t kPatientRounds = 64;  // turns of a cluster before others start beside it: it may wait for them
constexpr uint32_t kPollingRounds = 32;  // what a turn counts in which all warps polled memory
constexpr size_t kMaxResident = 512;     // blocks a worker keeps at once
constexpr uint32_t kIdleRounds = 256;    // turns of a cluster in which all warps polled in vain: they wait for ever
constexpr uint32_t kMaxRandomSlice = 64;
constexpr uint64_t kRegisterFile = 65536;  // registers of a multiprocessor

uint64_t product(const std::array<uint32_t, 3>& d) { return uint64_t{d[0]} * d[1] * d[2]; }

std::string triple(const std::array<uint32_t, 3>& d) {
  return "(" + std::to_string(d[0]) + ", " + std::to_string(d[1]) + ", " + std::to_string(d[2]) + ")";
}

// Blocks that run together.
struct Cluster {
  std::vector<std::unique_ptr<Block>> blocks;
  uint32_t rounds = 0;
  uint32_t idle = 0;  // turns since a warp did more than poll in vain
  std::unique_ptr<Watch> watch;
  std::unique_ptr<AsyncCopies> copies;
  std::mt19937_64 random;
  std::vector<Warp*> order;
};

// One host thread's share of a launch.
class Engine {
 public:
  explicit Engine(Launch& launch) : launch_(launch) {
    worker_.launch = &launch;
    worker_.kernel = launch.kernel;
    worker_.accesses.resize(launch.kernel->accesses.size());
    worker_.counts.resize(launch.kernel->instructions);
    worker_.counters = launch.config.counters;
  }

  void run() {
    std::fenv_t saved;
    std::fegetenv(&saved);
    std::fesetenv(FE_DFL_ENV);
    try {
      while (!launch_.failed.load(std::memory_order_relaxed)) {
        if (wants_more()) start_next();
        if (resident_.empty()) break;
        turn();
      }
    } catch (...) {
      const std::lock_guard<std::mutex> lock(launch_.failure_mutex);
      if (!launch_.failed.exchange(true)) launch_.failure = std::current_exception();
    }
    std::fesetenv(&saved);
  }

  Worker& worker() { return worker_; }

 private:
  bool wants_more() const {
    if (resident_.empty()) return true;
    const auto patient = [](const auto& c) { return c->rounds >= kPatientRounds; };
    return resident_.size() * product(launch_.config.cluster) < kMaxResident &&
           std::all_of(resident_.begin(), resident_.end(), patient);
  }

  void start_next() {
    const uint64_t size = product(launch_.config.cluster);
    const uint64_t id = launch_.next_block.fetch_add(1);
    if (id * size >= launch_.blocks) return;
    std::unique_ptr<Cluster> cluster;
    if (free_.empty()) {
      cluster = std::make_unique<Cluster>();
    } else {
      cluster = std::move(free_.back());
      free_.pop_back();
    }
    start_cluster(*cluster, id);
    resident_.push_back(std::move(cluster));
  }

  void start_cluster(Cluster& cluster, uint64_t id) {
    const auto& shape = launch_.config.cluster;
    const auto& grid = launch_.config.grid;
    const uint64_t across = grid[0] / shape[0], down = grid[1] / shape[1];
    const std::array<uint64_t, 3> at{id % across, id / across % down, id / across / down};
    const uint32_t size = static_cast<uint32_t>(product(shape));
    cluster.rounds = cluster.idle = 0;
    const uint64_t seed = launch_.config.seed + 0x9e3779b97f4a7c15u * (id + 1);
    cluster.random.seed(seed);
    if (!cluster.copies) cluster.copies = std::make_unique<AsyncCopies>(launch_.config.completion, seed);
    cluster.copies->restart(seed);
    const uint32_t warps = (static_cast<uint32_t>(product(launch_.config.block)) + kLanes - 1) / kLanes;
    if (launch_.watch && !cluster.watch) cluster.watch = std::make_unique<Watch>(launch_, size, warps);
    while (cluster.blocks.size() < size) cluster.blocks.push_back(std::make_unique<Block>());
    std::vector<Block*> members;
    members.reserve(cluster.blocks.size());
    for (auto& b : cluster.blocks) members.push_back(b.get());
    for (uint32_t rank = 0; rank < size; ++rank) {
      Block& b = *cluster.blocks[rank];
      const std::array<uint32_t, 3> in{rank % shape[0], rank / shape[0] % shape[1], rank / shape[0] / shape[1]};
      for (int d = 0; d < 3; ++d) b.index[d] = static_cast<uint32_t>(at[d] * shape[d] + in[d]);
      b.rank = rank;
      b.cluster = members;
      b.watch = cluster.watch.get();
      b.copies = cluster.copies.get();
      start_block(b);
    }
    if (cluster.watch) cluster.watch->start(static_cast<uint32_t>(id), members);
    cluster.order.clear();
    cluster.order.reserve(size_t{size} * warps);
    for (Block* b : members)
      std::transform(b->warps.begin(), b->warps.begin() + warps, std::back_inserter(cluster.order),
                     [](const auto& w) { return w.get(); });
  }

  void start_block(Block& b) {
    const Kernel& kernel = *launch_.kernel;
    b.threads = static_cast<uint32_t>(product(launch_.config.block));
    b.smem_bytes = smem_bytes(kernel);
    b.smem.grow(b.smem_bytes);
    // Shared memory is not cleared on a GPU either: all ones is NaN in every float format.
    if (b.smem_bytes) std::memset(b.smem.data(), 0xff, b.smem_bytes);
    b.barriers.fill(Barrier());
    b.cluster_arrived = b.cluster_phase = 0;
    const uint32_t warps = (b.threads + kLanes - 1) / kLanes;
    b.moves.fill({nullptr, 0, launch_.config.registers});
    b.live_warps = warps;
    while (b.warps.size() < warps) b.warps.push_back(std::make_unique<Warp>());
    for (uint32_t i = 0; i < warps; ++i) {
      Warp& w = *b.warps[i];
      w.worker = &worker_;
      w.block = &b;
      w.index = i;
      const uint32_t lanes = std::min(kLanes, b.threads - i * kLanes);
      start_warp(w, *kernel.codes[0], lanes == kLanes ? kAllLanes : (1u << lanes) - 1);
    }
    ++worker_.blocks;
    worker_.warps += warps;
  }

  uint32_t smem_bytes(const Kernel& kernel) const {
    return static_cast<uint32_t>(launch_.config.dynamic_smem_bytes
                                     ? kernel.dynamic_smem_offset + launch_.config.dynamic_smem_bytes
                                     : kernel.info.static_smem_bytes);
  }

  // Every warp of every resident block has a turn.
  void turn() {
    for (size_t i = 0; i < resident_.size();) {
      Cluster& cluster = *resident_[i];
      const bool random = launch_.config.order == WarpOrder::kRandom;
      if (random) std::shuffle(cluster.order.begin(), cluster.order.end(), cluster.random);
      bool progress = false, done = true, polling = true, blocked = true;
      for (Warp* w : cluster.order) {
        if (warp_done(*w)) continue;
        done = false;
        if (!warp_ready(*w)) continue;
        progress = true;
        w->acted = false;
        step(*w, random ? 1 + static_cast<uint32_t>(cluster.random() % kMaxRandomSlice) : kSlice);
        cluster.copies->finish_some();
        polling &= w->polled;
        blocked &= w->blocked && !w->acted;
      }
      if (done) {
        free_.push_back(std::move(resident_[i]));
        resident_.erase(resident_.begin() + static_cast<std::ptrdiff_t>(i));
        continue;
      }
      cluster.idle = blocked && progress ? cluster.idle + 1 : 0;
      if (!progress || cluster.idle >= kIdleRounds) report_deadlock(cluster);
      cluster.rounds += polling ? kPollingRounds : 1;
      ++i;
    }
  }

  void step(Warp& w, uint32_t slice) {
    try {
      run_warp(w, slice);
      const uint64_t budget = launch_.config.step_budget;
      if (budget && w.steps > budget && !warp_done(w)) {
        if (!w.running) w.now = w.splits.front();
        fault(Check::kStepBudget,
              "a warp has run " + std::to_string(w.steps) + " instructions, more than the step budget of " +
                  std::to_string(budget),
              "does this loop end?");
      }
    } catch (const Fault& f) {
      throw KernelFault(fault_report(w, w.now, f));
    }
  }

  [[noreturn]] void report_deadlock(const Cluster& cluster) {
    FaultReport report;
    report.check = Check::kDeadlock;
    report.kernel = launch_.kernel->info.name;
    std::string out;
    const auto list = [&](const Warp& w, const Split& s, const std::string& where) {
      if (report.ptx_line == 0)
        report = fault_report(w, s, Fault{"", std::countr_zero(s.mask), Check::kDeadlock, "", 0});
      out += "\n  warp " + std::to_string(w.index) + ", lanes " + hex_mask(s.mask) + where + ", " + place_text(w, s);
    };
    for (const auto& b : cluster.blocks) {
      out += "\n  block " + triple(b->index) + barrier_text(*b);
      size_t listed = 0;
      for (const auto& w : b->warps) {
        if (warp_done(*w) || ++listed > 64) continue;
        if (w->running) list(*w, w->now, " polling " + mbarrier_text(*w));
        for (const Split& s : w->splits)
          list(*w, s,
               s.state == SplitState::kAtBarrier   ? " at barrier " + std::to_string(s.barrier)
               : s.state == SplitState::kAtCluster ? " at the cluster's barrier"
               : s.state == SplitState::kReady     ? " polling " + mbarrier_text(*w)
                                                   : " waiting for lanes of its warp");
      }
    }
    report.what = "deadlock, every thread waits";
    report.places = out;
    throw KernelFault(std::move(report));
  }

  static std::string hex_mask(uint32_t mask) {
    char text[16];
    std::snprintf(text, sizeof text, "0x%08x", mask);
    return text;
  }

  Launch& launch_;
  Worker worker_;
  std::vector<std::unique_ptr<Cluster>> resident_, free_;
};

// Shared memory that a block may have (CUDA C++ Programming Guide, technical specifications by compute capability).
uint64_t smem_limit(std::string_view target) {
  const uint64_t kib = target.starts_with("sm_80") || target.starts_with("sm_87")   ? 163
                       : target.starts_with("sm_86") || target.starts_with("sm_89") ? 99
                                                                                    : 227;
  return kib * 1024;
}

void check_config(const Module& module, const Kernel& kernel, const LaunchConfig& c) {
  const std::string name = "launch of '" + kernel.info.name + "': ";
  const uint64_t threads = product(c.block);
  if (threads == 0 || threads > 1024)
    throw UserError(name + "block " + triple(c.block) + " has " + std::to_string(threads) +
                    " threads, expected 1 to 1024");
  if (product(c.grid) == 0) throw UserError(name + "grid " + triple(c.grid) + " is empty");
  if (c.grid[0] > 0x7fffffffu || c.grid[1] > 65535 || c.grid[2] > 65535)
    throw UserError(name + "grid " + triple(c.grid) + " is larger than (2147483647, 65535, 65535)");
  const uint64_t most = product(kernel.info.maxntid), required = product(kernel.info.reqntid);
  if (most && threads > most)
    throw UserError(name + "block of " + std::to_string(threads) + " threads, .maxntid allows " + std::to_string(most));
  if (required && c.block != kernel.info.reqntid)
    throw UserError(name + "block " + triple(c.block) + ", .reqntid asks for " + triple(kernel.info.reqntid));
  const std::array<uint32_t, 3>& asked = kernel.info.reqcluster;
  if (product(asked) && c.cluster != asked)
    throw UserError(name + "cluster " + triple(c.cluster) + ", .reqnctapercluster asks for " + triple(asked));
  const uint64_t cluster = product(c.cluster);
  if (cluster == 0 || cluster > 16)
    throw UserError(name + "cluster " + triple(c.cluster) + ", expected 1 to 16 blocks");
  for (int d = 0; d < 3; ++d)
    if (c.grid[d] % c.cluster[d] != 0)
      throw UserError(name + "grid " + triple(c.grid) + " is not a multiple of cluster " + triple(c.cluster));
  const uint64_t smem =
      c.dynamic_smem_bytes ? kernel.dynamic_smem_offset + c.dynamic_smem_bytes : kernel.info.static_smem_bytes;
  const uint64_t limit = c.smem_limit_bytes ? c.smem_limit_bytes : smem_limit(module.syntax.target);
  if (smem > limit)
    throw UserError(name + std::to_string(smem) + " bytes of shared memory, the limit is " + std::to_string(limit));
  if (threads * c.registers > kRegisterFile)
    throw UserError(name + std::to_string(threads) + " threads of " + std::to_string(c.registers) +
                    " registers, a multiprocessor has " + std::to_string(kRegisterFile));
}

void place_args(Launch& launch, std::span<const std::vector<std::byte>> args) {
  const Kernel& kernel = *launch.kernel;
  const auto& params = kernel.codes[0]->params;
  if (args.size() != params.size())
    throw UserError("launch of '" + kernel.info.name + "': found " + std::to_string(args.size()) +
                    " arguments, expected " + std::to_string(params.size()));
  launch.params.resize(std::max<size_t>(kernel.param_bytes, 16));
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].size() != params[i].bytes)
      throw UserError("launch of '" + kernel.info.name + "': argument " + std::to_string(i) + " has " +
                      std::to_string(args[i].size()) + " bytes, expected " + std::to_string(params[i].bytes));
    std::copy(args[i].begin(), args[i].end(), launch.params.begin() + params[i].offset);
  }
}

void place_regions(Launch& launch, std::span<const Allocation> memory) {
  for (const Allocation& a : memory)
    if (a.bytes) launch.regions.push_back({a.base, a.base + a.bytes, a.name.c_str(), a.writable, a.initialized});
  launch.region_names.reserve(launch.module->variables.size());
  for (const Module::Placed& p : launch.module->variables) {
    const uint64_t base = reinterpret_cast<uint64_t>(p.memory.data());
    launch.region_names.emplace_back(p.variable->name);
    launch.regions.push_back(
        {base, base + p.variable->bytes, launch.region_names.back().c_str(), p.variable->space != Space::kConst});
  }
  const uint64_t params = reinterpret_cast<uint64_t>(launch.params.data());
  launch.regions.push_back({params, params + launch.params.size(), "the kernel's parameters", false});
  const uint64_t workspace = reinterpret_cast<uint64_t>(launch.grid_workspace.data());
  launch.regions.push_back({workspace, workspace + launch.grid_workspace.size(), "the grid's workspace", true});
  std::stable_sort(launch.regions.begin(), launch.regions.end(),
                   [](const Region& a, const Region& b) { return a.base < b.base; });
}

void add(MemoryCounters& to, const MemoryCounters& from) {
  to.requests += from.requests;
  to.bytes += from.bytes;
  to.sectors += from.sectors;
  to.ideal_sectors += from.ideal_sectors;
  to.lines += from.lines;
  to.passes += from.passes;
  to.ideal_passes += from.ideal_passes;
}

std::string one_line(std::string_view text) {
  std::string out;
  for (char c : text) {
    const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (!blank)
      out += c;
    else if (!out.empty() && out.back() != ' ')
      out += ' ';
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

void report_access(LaunchResult& result, const AccessSite& site, const AccessState& st) {
  const Statement& s = site.code->syntax->statements[site.code->instrs[site.pc].statement];
  AccessCounters a;
  a.ptx_line = s.at.line;
  a.loc_line = s.loc_line;
  a.text = one_line(s.text);
  a.kind = site.kind;
  a.is_store = site.kind == AccessKind::kStore || site.kind == AccessKind::kAtomic;
  Counters& t = result.total;
  if (st.global.requests) {
    static_cast<MemoryCounters&>(a) = st.global;
    a.space = Space::kGlobal;
    result.accesses.push_back(a);
    add(site.kind == AccessKind::kAtomic  ? t.global_atomic
        : site.kind == AccessKind::kStore ? t.global_store
                                          : t.global_load,
        st.global);
  }
  if (st.shared.requests) {
    static_cast<MemoryCounters&>(a) = st.shared;
    a.space = Space::kShared;
    const bool stores = site.kind == AccessKind::kStore || site.kind == AccessKind::kAsyncCopy;
    a.is_store |= stores;
    result.accesses.push_back(a);
    add(site.kind == AccessKind::kAtomic ? t.shared_atomic : stores ? t.shared_store : t.shared_load, st.shared);
  }
  t.local_bytes += st.local_bytes;
  t.const_bytes += st.const_bytes;
  t.param_bytes += st.param_bytes;
}

uint64_t* counter_of(Counters& t, Kind kind) {
  switch (kind) {
    case Kind::kInteger:
      return &t.integer;
    case Kind::kFp16:
      return &t.fp16;
    case Kind::kFp32:
      return &t.fp32;
    case Kind::kFp64:
      return &t.fp64;
    case Kind::kSpecial:
      return &t.special;
    case Kind::kConvert:
      return &t.convert;
    case Kind::kMove:
      return &t.move;
    case Kind::kPredicate:
      return &t.predicate;
    case Kind::kMemory:
      return &t.memory;
    case Kind::kAtomic:
      return &t.atomic;
    case Kind::kControl:
      return &t.control;
    case Kind::kBarrier:
      return &t.barrier;
    case Kind::kCollective:
      return &t.collective;
    case Kind::kMatrix:
      return &t.matrix;
    case Kind::kOther:
      return &t.other;
    case Kind::kInternal:
      return nullptr;
  }
  return nullptr;
}

void report_code(LaunchResult& result, const Code& code, const std::vector<InstrCount>& counts) {
  for (size_t pc = 0; pc < code.instrs.size(); ++pc) {
    const InstrCount& c = counts[code.count_base + pc];
    const Instr& in = code.instrs[pc];
    uint64_t* counter = counter_of(result.total, in.kind);
    if (!counter || !c.warps) continue;
    *counter += c.warps;
    result.total.warp_instructions += c.warps;
    result.total.lane_instructions += c.lanes;
    const Statement& s = code.syntax->statements[in.statement];
    result.lines.push_back({s.at.line, s.loc_line, c.warps, c.lanes});
  }
}

// What all blocks printed, in the order of blocks whatever thread ran them.
std::string printed_text(std::vector<std::unique_ptr<Engine>>& engines) {
  std::vector<Printed> all;
  for (auto& e : engines)
    for (Printed& p : e->worker().printed) all.push_back(std::move(p));
  std::stable_sort(all.begin(), all.end(), [](const Printed& a, const Printed& b) { return a.block < b.block; });
  std::string out;
  for (const Printed& p : all) out += p.text;
  return out;
}

[[noreturn]] void rethrow_with(const std::exception_ptr& failure, const std::string& printed) {
  try {
    std::rethrow_exception(failure);
  } catch (const KernelFault& e) {
    FaultReport report = e.report;
    report.printed = printed;
    throw KernelFault(std::move(report));
  }
}

LaunchResult collect(const Launch& launch, std::vector<std::unique_ptr<Engine>>& engines) {
  const Kernel& kernel = *launch.kernel;
  LaunchResult result;
  if (!launch.config.counters) return result;
  std::vector<AccessState> accesses(kernel.accesses.size());
  std::vector<InstrCount> counts(kernel.instructions);
  for (auto& e : engines) {
    Worker& w = e->worker();
    for (size_t i = 0; i < accesses.size(); ++i) {
      add(accesses[i].global, w.accesses[i].global);
      add(accesses[i].shared, w.accesses[i].shared);
      accesses[i].local_bytes += w.accesses[i].local_bytes;
      accesses[i].const_bytes += w.accesses[i].const_bytes;
      accesses[i].param_bytes += w.accesses[i].param_bytes;
    }
    for (size_t i = 0; i < counts.size(); ++i) {
      counts[i].warps += w.counts[i].warps;
      counts[i].lanes += w.counts[i].lanes;
    }
    result.total.divergent_branches += w.divergent_branches;
    result.total.blocks += w.blocks;
    result.total.warps += w.warps;
  }
  for (size_t i = 0; i < accesses.size(); ++i) report_access(result, kernel.accesses[i], accesses[i]);
  for (const auto& code : kernel.codes) report_code(result, *code, counts);
  const auto by_line = [](const auto& a, const auto& b) { return a.ptx_line < b.ptx_line; };
  std::stable_sort(result.accesses.begin(), result.accesses.end(), by_line);
  std::stable_sort(result.lines.begin(), result.lines.end(), by_line);
  return result;
}

}  // namespace

LaunchResult launch(const Module& module, const std::string& entry, const LaunchConfig& config,
                    std::span<const std::vector<std::byte>> args, std::span<const Allocation> memory) {
  Launch l;
  l.module = &module;
  l.kernel = module.find(entry);
  if (!l.kernel) throw UserError("the PTX has no entry '" + entry + "'");
  l.config = config;
  if (product(config.cluster) == 1 && product(l.kernel->info.reqcluster)) l.config.cluster = l.kernel->info.reqcluster;
  check_config(module, *l.kernel, l.config);
  l.blocks = product(config.grid);
  place_args(l, args);
  place_regions(l, memory);
  const uint64_t clusters = l.blocks / product(l.config.cluster);
  const uint64_t wanted =
      config.threads > 0 ? static_cast<uint64_t>(config.threads) : std::max(1u, std::thread::hardware_concurrency());
  const uint64_t workers = std::min(wanted, clusters);
  if (config.check_races || config.check_uninitialized) {
    l.watch = std::make_unique<LaunchWatch>();
    l.watch->several_engines = workers > 1;
    l.watch->any_uninitialized =
        std::any_of(memory.begin(), memory.end(), [](const Allocation& a) { return !a.initialized; });
  }
  std::vector<std::unique_ptr<Engine>> engines;
  engines.reserve(workers);
  for (uint64_t i = 0; i < workers; ++i) engines.push_back(std::make_unique<Engine>(l));
  std::vector<std::thread> threads;
  for (size_t i = 1; i < engines.size(); ++i) threads.emplace_back([&, i] { engines[i]->run(); });
  engines[0]->run();
  for (std::thread& t : threads) t.join();
  std::string printed = printed_text(engines);
  if (l.failure) rethrow_with(l.failure, printed);
  LaunchResult result = collect(l, engines);
  result.printed = std::move(printed);
  return result;
}

}  // namespace tilewright::sim
