#include "simulator/report.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

namespace tilewright::sim {
namespace {

using Json = nlohmann::ordered_json;
using Count = unsigned long long;  // what %llu prints

__attribute__((format(printf, 1, 2))) std::string formatted(const char* format, ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return text;
}

double share(uint64_t ideal, uint64_t real) {
  return real ? 100.0 * static_cast<double>(ideal) / static_cast<double>(real) : 100.0;
}

Json json_of(const MemoryCounters& c) {
  return {{"requests", c.requests},           {"bytes", c.bytes}, {"sectors", c.sectors},
          {"ideal_sectors", c.ideal_sectors}, {"lines", c.lines}, {"passes", c.passes},
          {"ideal_passes", c.ideal_passes}};
}

const char* kind_name(AccessKind kind) {
  switch (kind) {
    case AccessKind::kLoad:
      return "load";
    case AccessKind::kStore:
      return "store";
    case AccessKind::kAtomic:
      return "atomic";
    case AccessKind::kAsyncCopy:
      return "copy";
  }
  return "";
}

}  // namespace

std::string report_table(const LaunchResult& r) {
  const Counters& t = r.total;
  std::string out =
      formatted("%llu blocks, %llu warps, %llu warp instructions, %llu lane instructions, %llu divergent branches\n",
                static_cast<Count>(t.blocks), static_cast<Count>(t.warps), static_cast<Count>(t.warp_instructions),
                static_cast<Count>(t.lane_instructions), static_cast<Count>(t.divergent_branches));
  out += formatted("%6s %-7s %12s %14s %12s %8s  %s\n", "line", "space", "requests", "bytes", "units", "ideal",
                   "instruction");
  for (const AccessCounters& a : r.accesses) {
    const bool shared = a.space == Space::kShared;
    const uint64_t units = shared ? a.passes : a.sectors, ideal = shared ? a.ideal_passes : a.ideal_sectors;
    out += formatted("%6d %-7s %12llu %14llu %12llu %7.1f%%  ", a.ptx_line, space_name(a.space),
                     static_cast<Count>(a.requests), static_cast<Count>(a.bytes), static_cast<Count>(units),
                     share(ideal, units)) +
           a.text + "\n";
  }
  return out + "units: 32-byte sectors of global memory, passes over the banks of shared memory\n";
}

std::string report_listing(const LaunchResult& r, std::string_view ptx) {
  std::map<int, std::string> notes;
  std::map<int, uint64_t> runs;
  for (const LineCounters& l : r.lines) runs[l.ptx_line] += l.warps;
  for (const AccessCounters& a : r.accesses) {
    const bool shared = a.space == Space::kShared;
    notes[a.ptx_line] +=
        shared ? "  passes " + std::to_string(a.passes) + " (ideal " + std::to_string(a.ideal_passes) + ")"
               : "  sectors " + std::to_string(a.sectors) + " (ideal " + std::to_string(a.ideal_sectors) + ")";
  }
  std::istringstream in{std::string(ptx)};
  std::string out;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const auto run = runs.find(number);
    out += formatted("%10s  %5d  ", run == runs.end() ? "" : std::to_string(run->second).c_str(), number) + line;
    if (notes.count(number)) out += "   //" + notes[number];
    out += '\n';
  }
  return out;
}

std::string report_json(const LaunchResult& r) {
  const Counters& t = r.total;
  Json accesses = Json::array(), lines = Json::array();
  for (const AccessCounters& a : r.accesses) {
    Json row = {{"ptx_line", a.ptx_line},    {"loc_line", a.loc_line},       {"text", a.text},
                {"kind", kind_name(a.kind)}, {"space", space_name(a.space)}, {"store", a.is_store}};
    row.update(json_of(a));
    accesses.push_back(row);
  }
  for (const LineCounters& l : r.lines)
    lines.push_back({{"ptx_line", l.ptx_line}, {"loc_line", l.loc_line}, {"warps", l.warps}, {"lanes", l.lanes}});
  const Json out = {{"blocks", t.blocks},
                    {"warps", t.warps},
                    {"warp_instructions", t.warp_instructions},
                    {"lane_instructions", t.lane_instructions},
                    {"divergent_branches", t.divergent_branches},
                    {"kinds",
                     {{"integer", t.integer},
                      {"fp16", t.fp16},
                      {"fp32", t.fp32},
                      {"fp64", t.fp64},
                      {"special", t.special},
                      {"convert", t.convert},
                      {"move", t.move},
                      {"predicate", t.predicate},
                      {"memory", t.memory},
                      {"atomic", t.atomic},
                      {"control", t.control},
                      {"barrier", t.barrier},
                      {"collective", t.collective},
                      {"matrix", t.matrix},
                      {"other", t.other}}},
                    {"memory",
                     {{"global_load", json_of(t.global_load)},
                      {"global_store", json_of(t.global_store)},
                      {"global_atomic", json_of(t.global_atomic)},
                      {"shared_load", json_of(t.shared_load)},
                      {"shared_store", json_of(t.shared_store)},
                      {"shared_atomic", json_of(t.shared_atomic)},
                      {"local_bytes", t.local_bytes},
                      {"const_bytes", t.const_bytes},
                      {"param_bytes", t.param_bytes}}},
                    {"printed", r.printed},
                    {"accesses", accesses},
                    {"lines", lines}};
  return out.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

void set_checks(LaunchConfig& config, const std::string& names) {
  std::istringstream in(names);
  for (std::string name; std::getline(in, name, ',');) {
    const bool all = name == "all";
    if (!all && name != "races" && name != "uninitialized" && name != "registers" && name != "none")
      throw UserError("unknown check '" + name + "', expected races, uninitialized, registers, all or none");
    config.check_races |= all || name == "races";
    config.check_uninitialized |= all || name == "uninitialized";
    config.check_registers |= all || name == "registers";
  }
}

void set_order(LaunchConfig& config, std::string_view completion, std::string_view order) {
  config.completion = completion == "eager"  ? Completion::kEager
                      : completion == "lazy" ? Completion::kLazy
                                             : Completion::kRandom;
  config.order = order == "random" ? WarpOrder::kRandom : WarpOrder::kInTurn;
}

}  // namespace tilewright::sim
