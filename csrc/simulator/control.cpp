// Branches, calls, and what needs the machine's own state.
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <thread>

#include "simulator/machine.h"

namespace tilewright::sim {
namespace {

void branch(const Instr& in, Warp& w, uint32_t mask) {
  if (mask == w.now.mask)
    w.now.pc = in.target;
  else
    diverge(w, mask, in.target, in.meeting);
}

// brx.idx: the list holds the number of targets, then each.
void branch_indexed(const Instr& in, Warp& w, uint32_t mask) {
  const uint32_t* list = w.now.code->lists.data() + in.list;
  const uint32_t count = list[0];
  for (uint32_t left = mask; left;) {
    const int lane = std::countr_zero(left);
    const uint32_t index = w.slot<uint32_t>(in.a)[lane];
    if (index >= count) fault("brx.idx takes target " + std::to_string(index) + " of " + std::to_string(count), lane);
    uint32_t group = 0;
    for (uint32_t m = left; m; m &= m - 1)
      if (list[1 + w.slot<uint32_t>(in.a)[std::countr_zero(m)]] == list[1 + index] &&
          w.slot<uint32_t>(in.a)[std::countr_zero(m)] < count)
        group |= m & -m;
    left &= ~group;
    if (group == w.now.mask)
      w.now.pc = list[1 + index];
    else
      diverge(w, group, list[1 + index], in.meeting);
  }
}

void reconverge(const Instr&, Warp& w, uint32_t) {
  const Meeting& m = w.meetings[w.now.meeting];
  if (w.now.meeting != 0 && !m.is_frame && m.resume.pc + 1 == w.now.pc) arrive(w);
}

void call(const Instr& in, Warp& w, uint32_t mask) {
  call_functions(w, {{w.worker->kernel->codes[in.target].get(), mask}}, in.list);
}

// The list holds the offsets of arguments and results, then their sizes.
bool fits_call(const Instr& in, const Code& caller, const Code& callee) {
  const size_t args = static_cast<size_t>(in.imm & 0xffff), results = static_cast<size_t>(in.imm >> 16);
  if (callee.params.size() != args || callee.results.size() != results) return false;
  const uint32_t* bytes = caller.lists.data() + in.list + args + results;
  for (size_t k = 0; k < args; ++k)
    if (callee.params[k].bytes > bytes[k]) return false;
  for (size_t k = 0; k < results; ++k)
    if (callee.results[k].bytes > bytes[args + k]) return false;
  return true;
}

// Lanes may call different functions: those of one go together.
void call_indirect(const Instr& in, Warp& w, uint32_t mask) {
  const auto& functions = w.worker->kernel->functions;
  std::vector<Callee> callees;
  for (uint32_t left = mask; left;) {
    const int first = std::countr_zero(left);
    const uint64_t address = w.slot<uint64_t>(in.a)[first], index = address - kFunctionWindow;
    if ((address & kWindowMask) != kFunctionWindow || index >= functions.size() || !functions[index])
      fault("call of an address that is not a function's", first);
    const Code& callee = *functions[index];
    if (!fits_call(in, *w.now.code, callee))
      fault("indirect call of '" + std::string(callee.syntax->name) + "' with other parameters than it has", first);
    uint32_t group = 0;
    for (uint32_t m = left; m; m &= m - 1)
      if (w.slot<uint64_t>(in.a)[std::countr_zero(m)] == address) group |= m & -m;
    callees.push_back({&callee, group});
    left &= ~group;
  }
  call_functions(w, callees, in.list);
}

void ret(const Instr&, Warp& w, uint32_t mask) { return_lanes(w, mask); }
void exit_thread(const Instr&, Warp& w, uint32_t mask) { exit_lanes(w, mask); }
void trap(const Instr&, Warp&, uint32_t mask) {
  fault(Check::kTrap, "trap", "the kernel has stopped itself", std::countr_zero(mask));
}
void nothing(const Instr&, Warp&, uint32_t) {}

// mode: FenceFlags.
void fence(const Instr& in, Warp& w, uint32_t) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (w.block->watch) w.block->watch->fence(w, in.mode);
}

void nanosleep(const Instr&, Warp& w, uint32_t) {
  std::this_thread::yield();
  w.yielding = true;
  w.stop = true;
}

template <typename T>
void write_all(Warp& w, uint32_t slot, uint32_t mask, T value) {
  for (uint32_t m = mask; m; m &= m - 1) w.slot<T>(slot)[std::countr_zero(m)] = value;
}
void write_sized(const Instr& in, Warp& w, uint32_t mask, uint64_t value) {
  if (in.reg_bytes == 8)
    write_all<uint64_t>(w, in.d, mask, value);
  else
    write_all<uint32_t>(w, in.d, mask, static_cast<uint32_t>(value));
}

void read_clock(const Instr& in, Warp& w, uint32_t mask) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  write_sized(in, w, mask, static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()));
}
void local_address(const Instr& in, Warp& w, uint32_t mask) {
  write_sized(in, w, mask, w.now.local + static_cast<uint64_t>(in.imm));
}
void param_address(const Instr& in, Warp& w, uint32_t mask) {
  write_sized(in, w, mask, reinterpret_cast<uint64_t>(w.worker->launch->params.data()) + static_cast<uint64_t>(in.imm));
}
void active_mask(const Instr& in, Warp& w, uint32_t mask) { write_all<uint32_t>(w, in.d, mask, mask); }

// The text at a generic address, up to its zero or the end of the memory it lies in.
std::optional<std::string> text_at(const Warp& w, uint64_t address) {
  const Region* r = find_region(*w.worker->launch, address, 1);
  if (!r) return std::nullopt;
  const auto* text = reinterpret_cast<const char*>(address);
  return std::string(text, strnlen(text, r->end - address));
}

uint64_t call_argument(const Warp& w, const Instr& in, uint32_t index, uint32_t bytes, int lane) {
  uint64_t value = 0;
  const size_t at = static_cast<size_t>(lane) * w.local_stride + w.now.local + w.now.code->lists[in.list + index];
  std::memcpy(&value, w.local.data() + at, bytes);
  return value;
}

// __assertfail(message, file, line, function, character size)
void assert_fail(const Instr& in, Warp& w, uint32_t mask) {
  const int lane = std::countr_zero(mask);
  const auto text = [&](uint32_t index) { return text_at(w, call_argument(w, in, index, 8, lane)).value_or("?"); };
  fault("assertion failed: " + text(0) + " at " + text(1) + ":" + std::to_string(call_argument(w, in, 2, 4, lane)) +
            " in " + text(3),
        lane);
}

// One value after the other of vprintf's argument buffer.
struct PrintfArguments {
  const std::byte* at = nullptr;
  size_t size = 0;
  size_t used = 0;
  uint32_t count = 0;
  uint64_t next(uint32_t bytes) {
    used = (used + bytes - 1) / bytes * bytes;
    uint64_t v = 0;
    if (used + bytes <= size) std::memcpy(&v, at + used, bytes);
    used += bytes;
    ++count;
    return v;
  }
};

// One conversion, such as "%5.2f"; `p` stands behind the '%' and is moved to its last character.
std::string format_one(const Warp& w, const char*& p, const char* end, PrintfArguments& args) {
  constexpr size_t kLongestSpec = 12;  // a width or precision of more digits than any output needs is cut
  std::string spec = "%";
  bool wide = false;
  for (; p < end && std::strchr("-+ #0123456789.hlzjt", *p); ++p) {
    if (*p == 'l' || *p == 'z' || *p == 'j' || *p == 't')
      wide = true;
    else if (*p != 'h' && spec.size() < kLongestSpec &&
             !(spec.size() > 3 && spec.find_first_not_of("0123456789", spec.size() - 3) == std::string::npos))
      spec += *p;
  }
  if (p >= end) return spec;
  const auto formatted = [&](const std::string& format, auto value) {
    std::string out(static_cast<size_t>(std::max(0, std::snprintf(nullptr, 0, format.c_str(), value))) + 1, '\0');
    std::snprintf(out.data(), out.size(), format.c_str(), value);
    out.pop_back();
    return out;
  };
  switch (*p) {
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case 'a':
    case 'A':
      return formatted(spec + *p, std::bit_cast<double>(args.next(8)));
    case 's':
      return formatted(spec + "s", text_at(w, args.next(8)).value_or("(null)").c_str());
    case 'p':
      return formatted("0x%llx", static_cast<unsigned long long>(args.next(8)));
    case 'd':
    case 'i':
      return formatted(spec + "lld", static_cast<long long>(wide ? static_cast<int64_t>(args.next(8))
                                                                 : static_cast<int32_t>(args.next(4))));
    case 'c':
      return formatted(spec + "c", static_cast<int>(args.next(4)));
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      return formatted(spec + "ll" + *p, static_cast<unsigned long long>(args.next(wide ? 8 : 4)));
    default:
      return std::string("%") + *p;
  }
}

std::string format_text(const Warp& w, const std::string& format, PrintfArguments& args) {
  std::string out;
  const char *p = format.data(), *end = p + format.size();
  for (; p < end; ++p) {
    if (*p == '%' && p + 1 < end && p[1] == '%') {
      out += '%';
      ++p;
    } else if (*p == '%') {
      ++p;
      out += format_one(w, p, end, args);
    } else {
      out += *p;
    }
  }
  return out;
}

// vprintf(format, arguments) gives the number of arguments.
void print(const Instr& in, Warp& w, uint32_t mask) {
  constexpr uint64_t kMostBytes = 1u << 20;  // what the driver's buffer holds
  Launch& launch = *w.worker->launch;
  const auto& grid = launch.config.grid;
  const auto& at = w.block->index;
  const uint64_t block = at[0] + uint64_t{grid[0]} * (at[1] + uint64_t{grid[1]} * at[2]);
  auto& printed = w.worker->printed;
  if (printed.empty() || printed.back().block != block) printed.push_back({block, {}});
  for (uint32_t m = mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const std::optional<std::string> format = text_at(w, call_argument(w, in, 0, 8, lane));
    if (!format) fault("vprintf with a format that is not in memory", lane);
    const uint64_t args = call_argument(w, in, 1, 8, lane), offset = args - kLocalWindow;
    PrintfArguments values;
    if ((args & kWindowMask) == kLocalWindow && offset < w.local_stride) {
      values.at = w.local.data() + static_cast<size_t>(lane) * w.local_stride + offset;
      values.size = w.local_stride - offset;
    } else if (const Region* r = find_region(launch, args, 1)) {
      values.at = reinterpret_cast<const std::byte*>(args);
      values.size = r->end - args;
    }
    const std::string text = format_text(w, *format, values);
    if (launch.printed_bytes.fetch_add(text.size()) < kMostBytes) printed.back().text += text;
    if (in.flag) {
      const uint32_t result = values.count;
      std::memcpy(
          w.local.data() + static_cast<size_t>(lane) * w.local_stride + w.now.local + w.now.code->lists[in.list + 2],
          &result, sizeof result);
    }
  }
}

// What lies at a host address: variables in constant memory, the kernel's parameters, or global memory.
Space host_space(const Warp& w, uint64_t address) {
  const Launch& launch = *w.worker->launch;
  const auto params = reinterpret_cast<uint64_t>(launch.params.data());
  if (address - params < launch.params.size()) return Space::kParam;
  for (const Module::Placed& p : launch.module->variables)
    if (p.variable->space == Space::kConst && address - reinterpret_cast<uint64_t>(p.memory.data()) < p.variable->bytes)
      return Space::kConst;
  return Space::kGlobal;
}

// isspacep: imm is the window; 0 for the spaces of host memory.
void is_space(const Instr& in, Warp& w, uint32_t mask) {
  uint32_t* p = w.slot<uint32_t>(in.d);
  for (uint32_t m = mask; m; m &= m - 1) {
    const int i = std::countr_zero(m);
    const uint64_t address = w.slot<uint64_t>(in.a)[i];
    const bool is =
        (address & kWindowMask) == static_cast<uint64_t>(in.imm) && (in.imm != 0 || host_space(w, address) == in.space);
    *p = (*p & ~(1u << i)) | static_cast<uint32_t>(is) << i;
  }
}

}  // namespace

void control_rows(HandlerRows& rows) {
  rows.emplace_back("bra", &branch);
  rows.emplace_back("brx.idx", &branch_indexed);
  rows.emplace_back("reconverge", &reconverge);
  rows.emplace_back("call", &call);
  rows.emplace_back("call.indirect", &call_indirect);
  rows.emplace_back("ret", &ret);
  rows.emplace_back("exit", &exit_thread);
  rows.emplace_back("trap", &trap);
  rows.emplace_back("nothing", &nothing);
  rows.emplace_back("fence", &fence);
  rows.emplace_back("nanosleep", &nanosleep);
  rows.emplace_back("clock", &read_clock);
  rows.emplace_back("local_address", &local_address);
  rows.emplace_back("param_address", &param_address);
  rows.emplace_back("activemask", &active_mask);
  rows.emplace_back("isspacep", &is_space);
  rows.emplace_back("vprintf", &print);
  rows.emplace_back("__assertfail", &assert_fail);
}

}  // namespace tilewright::sim
