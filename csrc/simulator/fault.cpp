#include <algorithm>
#include <bit>
#include <cstdio>

#include "simulator/machine.h"

namespace tilewright::sim {
namespace {

std::string hex(uint64_t v) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(v));
  return text;
}

std::string triple(uint64_t x, uint64_t y, uint64_t z) {
  return "(" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
}

std::string region_text(const Region& r) {
  return std::string("'") + r.name + "' (" + hex(r.base) + ", " + std::to_string(r.end - r.base) + " bytes)";
}

// How an address lies to the allocation closest to it.
std::string nearest_text(const Launch& launch, uint64_t address, uint32_t bytes) {
  const Region* best = nullptr;
  uint64_t best_distance = ~uint64_t{0};
  for (const Region& r : launch.regions) {
    const uint64_t distance = address < r.base ? r.base - address : address < r.end ? 0 : address - r.end;
    if (distance < best_distance) {
      best_distance = distance;
      best = &r;
    }
  }
  if (!best) return "the launch has no allocations";
  if (address < best->base) return std::to_string(best->base - address) + " bytes before " + region_text(*best);
  if (address >= best->end)
    return std::to_string(address - best->end) + " bytes past the end of " + region_text(*best) + ", at offset " +
           std::to_string(address - best->base);
  return "at offset " + std::to_string(address - best->base) + " of " + region_text(*best) + ", which the last " +
         std::to_string(address + bytes - best->end) + " of its bytes pass";
}

}  // namespace

const char* space_name(Space space) {
  switch (space) {
    case Space::kGlobal:
      return "global";
    case Space::kShared:
      return "shared";
    case Space::kLocal:
      return "local";
    case Space::kConst:
      return "const";
    case Space::kParam:
      return "param";
    default:
      return "generic";
  }
}

const char* check_name(Check check) {
  switch (check) {
    case Check::kOutOfBounds:
      return "out of bounds";
    case Check::kMisaligned:
      return "misaligned";
    case Check::kReadOnly:
      return "read-only memory";
    case Check::kUninitialized:
      return "uninitialised";
    case Check::kSharedRace:
      return "shared-memory race";
    case Check::kGlobalRace:
      return "global-memory race";
    case Check::kMissingWait:
      return "missing wait";
    case Check::kMissingFence:
      return "missing proxy fence";
    case Check::kMbarrier:
      return "mbarrier";
    case Check::kDivergence:
      return "divergence";
    case Check::kBarrier:
      return "barrier";
    case Check::kDeadlock:
      return "deadlock";
    case Check::kStepBudget:
      return "step budget";
    case Check::kRegisters:
      return "registers";
    case Check::kTrap:
      return "trap";
    case Check::kOther:
      return "fault";
  }
  return "fault";
}

void fault(std::string what, int lane) { fault(Check::kOther, std::move(what), "", lane); }

void fault(Check check, std::string what, std::string advice, int lane, uint64_t address) {
  throw Fault{std::move(what), lane, check, std::move(advice), address};
}

void fault_global(const Warp& w, uint64_t address, uint32_t bytes, bool store, int lane) {
  const Launch& launch = *w.worker->launch;
  const Region* r = find_region(launch, address, bytes);
  if (r && store && !r->writable)
    fault(Check::kReadOnly,
          "store to read-only memory: " + std::to_string(bytes) + " bytes at " + hex(address) + ", at offset " +
              std::to_string(address - r->base) + " of " + region_text(*r),
          "the launch lists it as one that kernels do not write", lane, address);
  fault(Check::kOutOfBounds,
        std::string("out-of-bounds global ") + (store ? "store" : "load") + " of " + std::to_string(bytes) +
            " bytes at " + hex(address) + ", " + nearest_text(launch, address, bytes),
        "guard the access by the size of the tensor", lane, address);
}

void fault_window(const Warp&, const char* space, uint64_t address, uint64_t size, uint32_t bytes, bool store,
                  int lane) {
  fault(Check::kOutOfBounds,
        std::string("out-of-bounds ") + space + " " + (store ? "store" : "load") + " of " + std::to_string(bytes) +
            " bytes at offset " + std::to_string(address) + ", the " + space + " memory has " + std::to_string(size) +
            " bytes",
        "", lane, address);
}

void fault_misaligned(const char* space, uint64_t address, uint32_t bytes, int lane) {
  fault(Check::kMisaligned,
        std::string("misaligned ") + space + " access of " + std::to_string(bytes) + " bytes at " + hex(address),
        "the address must be a multiple of " + std::to_string(bytes), lane, address);
}

const Region* find_region(const Launch& launch, uint64_t address, uint64_t bytes) {
  const auto& regions = launch.regions;
  auto it =
      std::upper_bound(regions.begin(), regions.end(), address, [](uint64_t a, const Region& r) { return a < r.base; });
  // Allocations may overlap (views of one buffer): look further back for one that holds the whole access.
  for (int tries = 0; it != regions.begin() && tries < 16; ++tries) {
    --it;
    if (address + bytes <= it->end && address + bytes >= address) return &*it;
  }
  return nullptr;
}

namespace {

void add_place(FaultReport& r, const Launch& launch, const Split& split) {
  const Code& code = *split.code;
  const Instr& in = code.instrs[split.pc > 0 ? split.pc - 1 : 0];
  if (in.statement >= code.syntax->statements.size()) return;
  const Statement& s = code.syntax->statements[in.statement];
  r.ptx_line = s.at.line;
  bool blank = false;
  for (char c : s.text) {
    const bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (!space) {
      if (blank) r.instruction += ' ';
      r.instruction += c;
    }
    blank = space;
  }
  if (code.syntax->name != launch.kernel->info.name) r.instruction += "  in function " + std::string(code.syntax->name);
  if (!s.loc_line) return;
  r.loc_line = s.loc_line;
  const auto& files = launch.module->syntax.files;
  const auto file = files.find(s.loc_file);
  r.loc_file = file == files.end() ? "loc" : std::string(file->second);
  if (!launch.config.names) return;
  const auto name = launch.config.names->find(s.loc_line);
  if (name != launch.config.names->end()) r.op = name->second;
}

std::string place_of(const FaultReport& r) {
  std::string out = r.ptx_line ? "line " + std::to_string(r.ptx_line) + ": " + r.instruction : "line ?";
  if (r.loc_line)
    out += "  (" + r.loc_file + ":" + std::to_string(r.loc_line) + (r.op.empty() ? "" : ", " + r.op) + ")";
  return out;
}

std::string triple(const std::array<uint32_t, 3>& t) { return triple(t[0], t[1], t[2]); }

}  // namespace

std::string FaultReport::text() const {
  std::string out = "tilewright simulator: " + what;
  if (!advice.empty()) out += "; " + advice;
  out += "\n  kernel " + kernel;
  const std::string before = printed.empty() ? "" : "\n  printed before:\n" + printed;
  if (!places.empty()) return out + places + before;
  out += ", " + place_of(*this) + "\n  block " + triple(block) + ", ";
  if (warp >= 0) out += "warp " + std::to_string(warp) + ", ";
  return out + "thread " + triple(thread) + before;
}

std::string place_text(const Warp& w, const Split& split) {
  FaultReport r;
  add_place(r, *w.worker->launch, split);
  return place_of(r);
}

FaultReport fault_report(const Warp& w, const Split& at, const Fault& f) {
  FaultReport r;
  r.check = f.check;
  r.what = f.what;
  r.advice = f.advice;
  r.address = f.address;
  r.kernel = w.worker->kernel->info.name;
  add_place(r, *w.worker->launch, at);
  r.block = w.block->index;
  const int lane = f.lane >= 0 ? f.lane : at.mask ? std::countr_zero(at.mask) : 0;
  const auto& size = w.worker->launch->config.block;
  const uint32_t t = w.index * kLanes + static_cast<uint32_t>(lane);
  r.thread = {t % size[0], t / size[0] % size[1], t / size[0] / size[1]};
  if (f.lane < 0) r.warp = static_cast<int>(w.index);
  return r;
}

}  // namespace tilewright::sim
