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

std::string block_text(const Warp& w) {
  return "block " + triple(w.block->index[0], w.block->index[1], w.block->index[2]);
}

std::string thread_text(const Warp& w, int lane) {
  const auto& size = w.worker->launch->config.block;
  const uint32_t t = w.index * kLanes + static_cast<uint32_t>(lane);
  return "thread " + triple(t % size[0], t / size[0] % size[1], t / size[0] / size[1]);
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

void fault(std::string what, int lane) { throw Fault{std::move(what), lane}; }

void fault_global(const Warp& w, uint64_t address, uint32_t bytes, bool store, int lane) {
  const Launch& launch = *w.worker->launch;
  const Region* r = find_region(launch, address, bytes);
  if (r && store && !r->writable)
    fault("store to read-only memory: " + std::to_string(bytes) + " bytes at " + hex(address) + ", at offset " +
              std::to_string(address - r->base) + " of " + region_text(*r),
          lane);
  fault(std::string("out-of-bounds global ") + (store ? "store" : "load") + " of " + std::to_string(bytes) +
            " bytes at " + hex(address) + ", " + nearest_text(launch, address, bytes),
        lane);
}

void fault_window(const Warp&, const char* space, uint64_t address, uint64_t size, uint32_t bytes, bool store,
                  int lane) {
  fault(std::string("out-of-bounds ") + space + " " + (store ? "store" : "load") + " of " + std::to_string(bytes) +
            " bytes at offset " + std::to_string(address) + ", the " + space + " memory has " + std::to_string(size) +
            " bytes",
        lane);
}

void fault_misaligned(const char* space, uint64_t address, uint32_t bytes, int lane) {
  fault(std::string("misaligned ") + space + " access of " + std::to_string(bytes) + " bytes at " + hex(address) +
            ", the address must be a multiple of " + std::to_string(bytes),
        lane);
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

std::string place_text(const Warp& w, const Split& split) {
  const Code& code = *split.code;
  const Instr& in = code.instrs[split.pc > 0 ? split.pc - 1 : 0];
  const Launch& launch = *w.worker->launch;
  std::string out = "line ";
  if (in.statement >= code.syntax->statements.size()) return out + "?";
  const Statement& s = code.syntax->statements[in.statement];
  out += std::to_string(s.at.line) + ": ";
  bool blank = false;
  for (char c : s.text) {
    const bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (!space) {
      if (blank) out += ' ';
      out += c;
    }
    blank = space;
  }
  if (s.loc_line) {
    const auto& files = launch.module->syntax.files;
    const auto file = files.find(s.loc_file);
    out += "  (" + (file == files.end() ? std::string("loc") : std::string(file->second)) + ":" +
           std::to_string(s.loc_line) + ")";
  }
  return out;
}

std::string fault_text(const Warp& w, const Fault& f) {
  const Kernel& kernel = *w.worker->kernel;
  std::string out = "tilewright simulator: " + f.what + "\n  kernel " + kernel.info.name + ", " + place_text(w, w.now);
  if (w.now.code->syntax->name != kernel.info.name) out += "  in function " + std::string(w.now.code->syntax->name);
  out += "\n  " + block_text(w) + ", ";
  const int lane = f.lane >= 0 ? f.lane : w.now.mask ? std::countr_zero(w.now.mask) : 0;
  out += (f.lane >= 0 ? "" : "warp " + std::to_string(w.index) + ", ") + thread_text(w, lane);
  return out;
}

}  // namespace tilewright::sim
