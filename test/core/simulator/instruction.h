#pragma once

#include <bit>
#include <cmath>
#include <functional>

#include "run.h"

// Tests of one instruction against a formula, over all combinations of special values, with all lanes active and with a
// guard that turns every other lane off.
namespace tilewright::sim {

// "s32" -> a register declaration's type.
inline std::string register_type(const std::string& type) {
  if (type == "pred" || type == "f32" || type == "f64") return type;
  if (type == "b8" || type == "u8" || type == "s8" || type == "f16" || type == "bf16" || type.substr(1) == "16")
    return "b16";
  if (type == "f16x2" || type == "bf16x2" || type.substr(1) == "32") return "b32";
  return "b64";
}

// From a 64-bit cell to a register of a type, and back.
inline std::string from_cell(const std::string& type, const std::string& reg, const std::string& cell) {
  const std::string r = register_type(type);
  if (r == "pred") return "  setp.ne.u64 " + reg + ", " + cell + ", 0;\n";
  if (r == "b16") return "  cvt.u16.u64 " + reg + ", " + cell + ";\n";
  if (r == "b32") return "  cvt.u32.u64 " + reg + ", " + cell + ";\n";
  if (r == "f32") return "  cvt.u32.u64 %w, " + cell + ";\n  mov.b32 " + reg + ", %w;\n";
  return "  mov.b64 " + reg + ", " + cell + ";\n";
}
inline std::string to_cell(const std::string& type, const std::string& reg) {
  const std::string r = register_type(type);
  if (r == "pred") return "  selp.u64 %d, 1, 0, " + reg + ";\n";
  if (r == "b16") return "  cvt.u64.u16 %d, " + reg + ";\n";
  if (r == "b32") return "  cvt.u64.u32 %d, " + reg + ";\n";
  if (r == "f32") return "  mov.b32 %w, " + reg + ";\n  cvt.u64.u32 %d, %w;\n";
  return "  mov.b64 %d, " + reg + ";\n";
}

using Cells = std::vector<uint64_t>;  // four a thread

constexpr uint64_t kKept = 5;  // what a guarded-off lane's result register holds before

inline std::string instruction_kernel(const std::string& opcode, const std::string& d,
                                      const std::vector<std::string>& sources, bool guarded, const std::string& last) {
  static const char* const kCell[] = {"%a", "%b", "%c", "%e"};
  std::string body = "  .reg .b32 %w;\n  .reg .pred %g;\n  .reg ." + register_type(d) + " %xd;\n";
  std::string operands = "%xd";
  for (size_t i = 0; i < sources.size(); ++i) {
    const std::string reg = "%x" + std::to_string(i);
    body += "  .reg ." + register_type(sources[i]) + " " + reg + ";\n" + from_cell(sources[i], reg, kCell[i]);
    operands += ", " + reg;
  }
  body += "  mov.u64 %d, " + std::to_string(kKept) + ";\n" + from_cell(d, "%xd", "%d");
  if (guarded) body += "  and.b32 %w, %thread, 1;\n  setp.eq.u32 %g, %w, 0;\n";
  body += std::string(guarded ? "  @%g " : "  ") + opcode + " " + operands + last + ";\n" + to_cell(d, "%xd");
  return cell_kernel(body);
}

using Formula = std::function<uint64_t(uint64_t a, uint64_t b, uint64_t c)>;
using Same = std::function<bool(uint64_t got, uint64_t expected)>;

inline uint64_t masked(const std::string& type, uint64_t v) {
  const std::string r = register_type(type);
  if (r == "pred") return v & 1;
  return r == "b16" ? v & 0xffff : r == "b32" || r == "f32" ? v & 0xffffffffu : v;
}

// All combinations of `values` for up to three sources, in launches of at most 1024 threads.
inline void expect_instruction(const std::string& opcode, const std::string& d, const std::vector<std::string>& sources,
                               const std::vector<std::vector<uint64_t>>& values, const Formula& formula,
                               const Same& same = std::equal_to<uint64_t>(), const std::string& last = "") {
  std::vector<std::array<uint64_t, 3>> cases{{0, 0, 0}};
  for (size_t i = 0; i < sources.size(); ++i) {
    std::vector<std::array<uint64_t, 3>> longer;
    for (const auto& c : cases)
      for (uint64_t v : values[std::min(i, values.size() - 1)]) {
        longer.push_back(c);
        longer.back()[i] = v;
      }
    cases = std::move(longer);
  }
  for (const bool guarded : {false, true}) {
    const std::string ptx = instruction_kernel(opcode, d, sources, guarded, last);
    for (size_t start = 0; start < cases.size(); start += 1000) {
      const size_t n = std::min<size_t>(1000, cases.size() - start);
      Cells cells;
      for (size_t i = 0; i < n; ++i)
        cells.insert(cells.end(), {cases[start + i][0], cases[start + i][1], cases[start + i][2], 0});
      const std::vector<uint64_t> out = run_cells(ptx, cells);
      for (size_t i = 0; i < n; ++i) {
        const auto& c = cases[start + i];
        const bool off = guarded && i % 2 == 1;
        const uint64_t expected = masked(d, off ? kKept : formula(c[0], c[1], c[2]));
        ASSERT_TRUE(off ? out[i] == expected : same(out[i], expected))
            << opcode << (guarded ? " guarded" : "") << std::hex << " of 0x" << c[0] << ", 0x" << c[1] << ", 0x" << c[2]
            << ": 0x" << out[i] << ", expected 0x" << expected;
      }
    }
  }
}

inline float f32(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }
inline uint64_t bits(float x) { return std::bit_cast<uint32_t>(x); }
inline double f64(uint64_t b) { return std::bit_cast<double>(b); }
inline uint64_t bits(double x) { return std::bit_cast<uint64_t>(x); }

inline const std::vector<uint64_t> kInts16 = {0,    1,    2,    3,      7,      15,     16,     17,    100,
                                              0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff};
inline const std::vector<uint64_t> kInts32 = {
    0,      1,      2,          3,          7,          31,         32,         33,         100,       255,
    0x7fff, 0xffff, 0x12345678, 0x7fffffff, 0x80000000, 0x80000001, 0xdeadbeef, 0xfffffffe, 0xffffffff};
inline const std::vector<uint64_t> kInts64 = {0,
                                              1,
                                              2,
                                              3,
                                              63,
                                              64,
                                              65,
                                              1000,
                                              0x7fffffff,
                                              0x80000000,
                                              0xffffffff,
                                              0x123456789abcdef0,
                                              0x7fffffffffffffff,
                                              0x8000000000000000,
                                              0x8000000000000001,
                                              0xfffffffffffffffe,
                                              0xffffffffffffffff};
inline const std::vector<uint64_t> kFloats32 = {0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x40490fdb,
                                                0x3eaaaaab, 0xc2c80000, 0x7f800000, 0xff800000, 0x7fc00000,
                                                0x7f7fffff, 0xff7fffff, 0x00800000, 0x007fffff, 0x00000001,
                                                0x80000001, 0x4b7fffff, 0x501502f9, 0x33800000, 0x3f000000};
inline const std::vector<uint64_t> kFloats64 = {
    0x0000000000000000, 0x8000000000000000, 0x3ff0000000000000, 0xbff0000000000000,
    0x400921fb54442d18, 0x3fd5555555555555, 0xc059000000000000, 0x7ff0000000000000,
    0xfff0000000000000, 0x7ff8000000000000, 0x7fefffffffffffff, 0x0010000000000000,
    0x000fffffffffffff, 0x0000000000000001, 0x4330000000000001, 0x3ca0000000000000};
inline const std::vector<uint64_t> kF16s = {0x0000, 0x8000, 0x3c00, 0xbc00, 0x3555, 0x4248, 0x7bff, 0xfbff, 0x7c00,
                                            0xfc00, 0x7e00, 0x0400, 0x03ff, 0x0001, 0x8001, 0x6400, 0x3c01, 0x1400};
inline const std::vector<uint64_t> kBF16s = {0x0000, 0x8000, 0x3f80, 0xbf80, 0x3eab, 0x4049, 0x7f7f, 0xff7f, 0x7f80,
                                             0xff80, 0x7fc0, 0x0080, 0x007f, 0x0001, 0x8001, 0x4b00, 0x3f81, 0x3b80};

// Equal bits, or both NaN of the type.
inline bool same_f32(uint64_t a, uint64_t b) { return a == b || (std::isnan(f32(a)) && std::isnan(f32(b))); }
inline bool same_f64(uint64_t a, uint64_t b) { return a == b || (std::isnan(f64(a)) && std::isnan(f64(b))); }

}  // namespace tilewright::sim
