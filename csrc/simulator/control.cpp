// Branches, calls, and what needs the machine's own state.
#include <bit>
#include <chrono>
#include <cstdio>
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
  call_function(w, *w.worker->kernel->codes[in.target], in.list, mask);
}

void call_indirect(const Instr& in, Warp& w, uint32_t mask) {
  const int first = std::countr_zero(mask);
  const uint64_t address = w.slot<uint64_t>(in.a)[first];
  for (uint32_t m = mask; m; m &= m - 1)
    if (w.slot<uint64_t>(in.a)[std::countr_zero(m)] != address)
      fault("call of different functions by one warp is not simulated");
  const auto& codes = w.worker->kernel->codes;
  const uint64_t index = address - kFunctionWindow;
  if ((address & kWindowMask) != kFunctionWindow || index == 0 || index >= codes.size())
    fault("call of an address that is not a function's", first);
  const Code& callee = *codes[index];
  if (callee.params.size() != static_cast<size_t>(in.imm & 0xffff) ||
      callee.results.size() != static_cast<size_t>(in.imm >> 16))
    fault("indirect call of '" + std::string(callee.syntax->name) + "' with other parameters than it has", first);
  call_function(w, callee, in.list, mask);
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

// A readable generic address as a host pointer; null when it is none.
const char* host_text(const Warp& w, uint64_t address) {
  return find_region(*w.worker->launch, address, 1) ? reinterpret_cast<const char*>(address) : nullptr;
}

uint64_t call_argument(const Warp& w, const Instr& in, uint32_t index, int lane) {
  uint64_t value;
  const size_t at = static_cast<size_t>(lane) * w.local_stride + w.now.local + w.now.code->lists[in.list + index];
  std::memcpy(&value, w.local.data() + at, 8);
  return value;
}

// __assertfail(message, file, line, function, character size)
void assert_fail(const Instr& in, Warp& w, uint32_t mask) {
  const int lane = std::countr_zero(mask);
  const auto text = [&](uint32_t index) {
    const char* t = host_text(w, call_argument(w, in, index, lane));
    return std::string(t ? t : "?");
  };
  const uint32_t line = static_cast<uint32_t>(call_argument(w, in, 2, lane));
  fault("assertion failed: " + text(0) + " at " + text(1) + ":" + std::to_string(line) + " in " + text(3), lane);
}

// One value of vprintf's argument buffer, which lies in local memory.
struct PrintfArguments {
  const std::byte* at;
  const std::byte* end;
  size_t used = 0;
  uint64_t next(uint32_t bytes) {
    used = (used + bytes - 1) / bytes * bytes;
    uint64_t v = 0;
    if (at + used + bytes <= end) std::memcpy(&v, at + used, bytes);
    used += bytes;
    return v;
  }
};

std::string format_text(const Warp& w, const char* format, PrintfArguments args) {
  std::string out;
  for (const char* p = format; *p; ++p) {
    if (*p != '%' || p[1] == '%') {
      out += *p;
      p += *p == '%';
      continue;
    }
    std::string spec = "%";
    bool wide = false;
    for (++p; *p && std::strchr("-+ #0123456789.hlzjt", *p); ++p) {
      if (*p == 'l' || *p == 'z' || *p == 'j' || *p == 't')
        wide = true;
      else if (*p != 'h')
        spec += *p;
    }
    if (!*p) break;
    char buffer[512];
    if (std::strchr("eEfFgGaA", *p)) {
      std::snprintf(buffer, sizeof buffer, (spec + *p).c_str(), std::bit_cast<double>(args.next(8)));
    } else if (*p == 's') {
      const char* text = host_text(w, args.next(8));
      std::snprintf(buffer, sizeof buffer, (spec + "s").c_str(), text ? text : "(null)");
    } else if (*p == 'p') {
      std::snprintf(buffer, sizeof buffer, "%p", reinterpret_cast<void*>(args.next(8)));
    } else if (*p == 'd' || *p == 'i') {
      const int64_t v = wide ? static_cast<int64_t>(args.next(8)) : static_cast<int32_t>(args.next(4));
      std::snprintf(buffer, sizeof buffer, (spec + "lld").c_str(), static_cast<long long>(v));
    } else if (*p == 'c') {
      std::snprintf(buffer, sizeof buffer, (spec + "c").c_str(), static_cast<int>(args.next(4)));
    } else if (std::strchr("uxXo", *p)) {
      std::snprintf(buffer, sizeof buffer, (spec + "ll" + *p).c_str(),
                    static_cast<unsigned long long>(args.next(wide ? 8 : 4)));
    } else {
      std::snprintf(buffer, sizeof buffer, "%%%c", *p);
    }
    out += buffer;
  }
  return out;
}

void print(const Instr& in, Warp& w, uint32_t mask) {
  for (uint32_t m = mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const char* format = host_text(w, call_argument(w, in, 0, lane));
    const uint64_t args = call_argument(w, in, 1, lane);
    if (!format) fault("vprintf with a format that is not in memory", lane);
    const std::byte* local = w.local.data() + static_cast<size_t>(lane) * w.local_stride;
    PrintfArguments values{local, local};
    if ((args & kWindowMask) == kLocalWindow && args - kLocalWindow < w.local_stride)
      values = {local + (args - kLocalWindow), local + w.local_stride};
    const std::string text = format_text(w, format, values);
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
}

// isspacep: imm is the window; 0 for global.
void is_space(const Instr& in, Warp& w, uint32_t mask) {
  uint32_t* p = w.slot<uint32_t>(in.d);
  for (uint32_t m = mask; m; m &= m - 1) {
    const int i = std::countr_zero(m);
    const bool is = (w.slot<uint64_t>(in.a)[i] & kWindowMask) == static_cast<uint64_t>(in.imm);
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
