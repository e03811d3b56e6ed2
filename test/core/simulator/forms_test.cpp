// Forms of instructions by the table: every pair of types of cvt, every comparison of 16-bit floats, every modifier of
// their arithmetic, atomics of every type, and rarer integer instructions, each against a formula of its own.
#include <algorithm>
#include <array>
#include <limits>

#include "instruction.h"
#include "kernel_call.h"

namespace tilewright::sim {
namespace {

using Wide = __int128;

// ---- conversions ---------------------------------------------------------------------------------------------------

struct IntegerType {
  const char* name;
  int bits;
  bool is_signed;
  Wide low() const { return is_signed ? -(Wide{1} << (bits - 1)) : 0; }
  Wide high() const { return (Wide{1} << (is_signed ? bits - 1 : bits)) - 1; }
  Wide value(uint64_t raw) const {
    const Wide v = bits == 64 ? static_cast<Wide>(raw) : static_cast<Wide>(raw & ((uint64_t{1} << bits) - 1));
    return is_signed && v > high() ? v - (Wide{1} << bits) : v;
  }
  // How a register of 16, 32 or 64 bits holds it: extended by its sign.
  uint64_t held(Wide v) const {
    const int width = std::max(bits, 16);
    return static_cast<uint64_t>(v) & (width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1);
  }
};
const IntegerType kIntegers[] = {{"u8", 8, false},   {"s8", 8, true},   {"u16", 16, false}, {"s16", 16, true},
                                 {"u32", 32, false}, {"s32", 32, true}, {"u64", 64, false}, {"s64", 64, true}};

struct FloatType {
  const char* name;
  int exponent_bits, mantissa_bits;
  const std::vector<uint64_t>* values;
  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  long double value(uint64_t raw) const {
    const int all = (1 << exponent_bits) - 1, bias = all / 2;
    const int e = static_cast<int>(raw >> mantissa_bits) & all;
    const uint64_t m = raw & ((uint64_t{1} << mantissa_bits) - 1);
    const long double sign = raw >> (bits() - 1) & 1 ? -1.0L : 1.0L;
    if (e == all) return m ? static_cast<long double>(NAN) : sign * static_cast<long double>(HUGE_VAL);
    const long double fraction = static_cast<long double>(m) + (e ? std::ldexp(1.0L, mantissa_bits) : 0.0L);
    return sign * std::ldexp(fraction, std::max(e, 1) - bias - mantissa_bits);
  }
  // The value of the format nearest to x, ties to even. `mode`: rn, rz, rm or rp.
  long double rounded(long double x, const std::string& mode = "rn") const {
    if (!std::isfinite(x) || x == 0) return x;
    const int bias = (1 << (exponent_bits - 1)) - 1, unit = std::max(std::ilogb(x), 1 - bias) - mantissa_bits;
    const long double scaled = std::ldexp(x, -unit);
    long double r = mode == "rz"   ? std::trunc(scaled)
                    : mode == "rm" ? std::floor(scaled)
                    : mode == "rp" ? std::ceil(scaled)
                                   : std::nearbyint(scaled);
    r = std::copysign(std::ldexp(r, unit), x);
    const long double most = std::ldexp(2.0L - std::ldexp(1.0L, -mantissa_bits), bias);
    if (std::fabs(r) <= most) return r;
    const bool stays = mode == "rz" || (mode == "rm" && x > 0) || (mode == "rp" && x < 0);
    return std::copysign(stays ? most : static_cast<long double>(HUGE_VAL), x);
  }
  bool same(uint64_t raw, long double expected) const {
    const long double got = value(raw);
    if (std::isnan(expected)) return std::isnan(got);
    return got == expected && std::signbit(got) == std::signbit(expected);
  }
};
const FloatType kFloats[] = {
    {"f16", 5, 10, &kF16s}, {"bf16", 8, 7, &kBF16s}, {"f32", 8, 23, &kFloats32}, {"f64", 11, 52, &kFloats64}};

const std::vector<uint64_t>& values_of(const IntegerType& t) {
  return t.bits <= 16 ? kInts16 : t.bits == 32 ? kInts32 : kInts64;
}

// The results of a one-source instruction for all values of its source.
std::vector<uint64_t> results_of(const std::string& opcode, const std::string& to, const std::string& from,
                                 const std::vector<uint64_t>& values) {
  Cells cells;
  for (uint64_t v : values) cells.insert(cells.end(), {v, 0, 0, 0});
  return run_cells(instruction_kernel(opcode, to, {from}, false, ""), cells);
}

void expect_float(const std::string& opcode, const FloatType& to, const std::string& from,
                  const std::vector<uint64_t>& values, const std::function<long double(uint64_t)>& exact) {
  const std::vector<uint64_t> got = results_of(opcode, to.name, from, values);
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_TRUE(to.same(got[i], exact(values[i]))) << opcode << std::hex << " of 0x" << values[i] << ": 0x" << got[i];
}

TEST(Forms, IntegerToInteger) {
  for (const IntegerType& to : kIntegers) {
    for (const IntegerType& from : kIntegers) {
      const std::string types = std::string(to.name) + "." + from.name;
      expect_instruction("cvt." + types, to.name, {from.name}, {values_of(from)}, [&](uint64_t a, uint64_t, uint64_t) {
        return to.held(to.value(static_cast<uint64_t>(from.value(a))));
      });
      expect_instruction(
          "cvt.sat." + types, to.name, {from.name}, {values_of(from)},
          [&](uint64_t a, uint64_t, uint64_t) { return to.held(std::clamp(from.value(a), to.low(), to.high())); });
    }
  }
}

// Saturates; NaN gives zero, but the sign bit alone where 64 bits take part and the result has 32 or more.
TEST(Forms, FloatToInteger) {
  for (const IntegerType& to : kIntegers) {
    for (const FloatType& from : kFloats) {
      for (const std::string mode : {"rni", "rzi", "rmi", "rpi"}) {
        expect_instruction("cvt." + mode + "." + to.name + "." + from.name, to.name, {from.name}, {*from.values},
                           [&](uint64_t a, uint64_t, uint64_t) {
                             const long double x = from.value(a);
                             const bool wide = to.bits == 64 || (to.bits == 32 && from.bits() == 64);
                             if (std::isnan(x)) return to.held(wide ? Wide{1} << (to.bits - 1) : Wide{0});
                             const long double r = mode == "rni"   ? std::nearbyint(x)
                                                   : mode == "rzi" ? std::trunc(x)
                                                   : mode == "rmi" ? std::floor(x)
                                                                   : std::ceil(x);
                             if (r < static_cast<long double>(to.low())) return to.held(to.low());
                             if (r > static_cast<long double>(to.high())) return to.held(to.high());
                             return to.held(static_cast<Wide>(r));
                           });
      }
    }
  }
}

TEST(Forms, IntegerToFloat) {
  for (const FloatType& to : kFloats)
    for (const IntegerType& from : kIntegers)
      for (const std::string mode : {"rn", "rz", "rm", "rp"})
        expect_float("cvt." + mode + "." + to.name + "." + from.name, to, from.name, values_of(from),
                     [&](uint64_t v) { return to.rounded(static_cast<long double>(from.value(v)), mode); });
}

TEST(Forms, FloatToFloat) {
  for (const FloatType& to : kFloats)
    for (const FloatType& from : kFloats) {
      if (to.name == from.name) continue;
      if (to.bits() > from.bits())
        expect_float(std::string("cvt.") + to.name + "." + from.name, to, from.name, *from.values,
                     [&](uint64_t v) { return from.value(v); });
      else
        for (const std::string mode : {"rn", "rz", "rm", "rp"})
          expect_float("cvt." + mode + "." + to.name + "." + from.name, to, from.name, *from.values,
                       [&](uint64_t v) { return to.rounded(from.value(v), mode); });
    }
}

TEST(Forms, PackedIntegers) {
  for (const IntegerType& to : kIntegers) {
    if (to.bits > 16) continue;
    const auto field = [&](uint64_t raw) {
      return static_cast<uint64_t>(std::clamp<Wide>(static_cast<int32_t>(raw), to.low(), to.high())) &
             ((uint64_t{1} << to.bits) - 1);
    };
    const std::vector<std::string> sources =
        to.bits == 16 ? std::vector<std::string>{"s32", "s32"} : std::vector<std::string>{"s32", "s32", "b32"};
    expect_instruction(std::string("cvt.pack.sat.") + to.name + ".s32" + (to.bits == 8 ? ".b32" : ""), "b32", sources,
                       {kInts32}, [&](uint64_t a, uint64_t b, uint64_t c) {
                         return (to.bits == 8 ? c << 16 : 0) | field(a) << to.bits | field(b);
                       });
  }
}

// ---- 16-bit floats -------------------------------------------------------------------------------------------------

const std::array<std::pair<const char*, bool (*)(long double, long double)>, 14> kCompares = {{
    {"eq", [](long double a, long double b) { return a == b; }},
    {"ne", [](long double a, long double b) { return a < b || a > b; }},
    {"lt", [](long double a, long double b) { return a < b; }},
    {"le", [](long double a, long double b) { return a <= b; }},
    {"gt", [](long double a, long double b) { return a > b; }},
    {"ge", [](long double a, long double b) { return a >= b; }},
    {"equ", [](long double a, long double b) { return a == b || std::isunordered(a, b); }},
    {"neu", [](long double a, long double b) { return !(a == b); }},
    {"ltu", [](long double a, long double b) { return a < b || std::isunordered(a, b); }},
    {"leu", [](long double a, long double b) { return a <= b || std::isunordered(a, b); }},
    {"gtu", [](long double a, long double b) { return a > b || std::isunordered(a, b); }},
    {"geu", [](long double a, long double b) { return a >= b || std::isunordered(a, b); }},
    {"num", [](long double a, long double b) { return !std::isunordered(a, b); }},
    {"nan", [](long double a, long double b) { return std::isunordered(a, b); }},
}};

std::vector<uint64_t> pairs_of(const std::vector<uint64_t>& halves) {
  std::vector<uint64_t> out;
  out.reserve(halves.size());
  for (size_t i = 0; i < halves.size(); ++i) out.push_back(halves[i] << 16 | halves[(7 * i + 3) % halves.size()]);
  return out;
}

TEST(Forms, ComparisonsOfHalves) {
  for (const FloatType& f : {kFloats[0], kFloats[1]}) {
    const std::string t = f.name;
    for (const auto& [name, holds] : kCompares) {
      const auto is = [&](uint64_t a, uint64_t b) { return holds(f.value(a & 0xffff), f.value(b & 0xffff)); };
      expect_instruction("setp." + std::string(name) + "." + t, "pred", {t, t}, {*f.values},
                         [&](uint64_t a, uint64_t b, uint64_t) -> uint64_t { return is(a, b); });
      expect_instruction("set." + std::string(name) + ".u32." + t + "x2", "b32", {t + "x2", t + "x2"},
                         {pairs_of(*f.values)}, [&](uint64_t a, uint64_t b, uint64_t) -> uint64_t {
                           return (is(a, b) ? 0xffffu : 0) | (is(a >> 16, b >> 16) ? 0xffff0000u : 0);
                         });
      const uint64_t one = t == "f16" ? 0x3c00 : 0x3f80;
      expect_instruction("set." + std::string(name) + "." + t + "x2." + t + "x2", t + "x2", {t + "x2", t + "x2"},
                         {pairs_of(*f.values)}, [&](uint64_t a, uint64_t b, uint64_t) -> uint64_t {
                           return (is(a, b) ? one : 0) | (is(a >> 16, b >> 16) ? one << 16 : 0);
                         });
    }
  }
}

// Arithmetic with .sat, .relu and .ftz; each half of a pair by itself.
TEST(Forms, ArithmeticOfHalves) {
  for (const FloatType& f : {kFloats[0], kFloats[1]}) {
    const auto flushed = [&](long double x) {
      return std::fabs(x) < std::ldexp(1.0L, 2 - (1 << (f.exponent_bits - 1))) ? std::copysign(0.0L, x) : x;
    };
    for (const std::string op : {"add", "sub", "mul", "fma"}) {
      for (const std::string fix : {"", ".sat", ".relu", ".ftz", ".ftz.sat"}) {
        const bool ftz = fix.find("ftz") != std::string::npos;
        if (ftz && f.name == std::string("bf16")) continue;
        const auto expected = [&](uint64_t a, uint64_t b, uint64_t c) {
          const auto in = [&](uint64_t h) { return ftz ? flushed(f.value(h & 0xffff)) : f.value(h & 0xffff); };
          const long double x = in(a), y = in(b);
          long double r = f.rounded(op == "add" ? x + y : op == "sub" ? x - y : op == "mul" ? x * y : x * y + in(c));
          if (fix.find("sat") != std::string::npos) r = r > 0 ? std::min(r, 1.0L) : 0.0L;
          if (fix == ".relu" && (r < 0 || (r == 0 && std::signbit(r)))) r = 0;
          return ftz ? flushed(r) : r;
        };
        // Of fma only cases whose sum fits long double exactly: exponents close to 1.
        std::vector<uint64_t> some = *f.values;
        if (op == "fma")
          some = f.name == std::string("f16")
                     ? std::vector<uint64_t>{0, 0x8000, 0x3c00, 0xbc00, 0x3555, 0x4248, 0x7c00, 0x7e00, 0x0001, 0x03ff}
                     : std::vector<uint64_t>{0, 0x8000, 0x3f80, 0xbf80, 0x3eab, 0x4049, 0x7f80, 0x7fc0};
        for (const bool pair : {false, true}) {
          const std::string t = std::string(f.name) + (pair ? "x2" : ""),
                            opcode = op + (op == "fma" ? ".rn" : "") + fix + "." + t;
          const std::string ptx =
              instruction_kernel(opcode, t, std::vector<std::string>(op == "fma" ? 3 : 2, t), false, "");
          for (uint64_t c : op == "fma" ? some : std::vector<uint64_t>{0}) {
            Cells cells;
            for (uint64_t a : some)
              for (uint64_t b : some) cells.insert(cells.end(), {a << 16 | b, b << 16 | a, c << 16 | c, 0});
            const std::vector<uint64_t> out = run_cells(ptx, cells);
            for (size_t i = 0; i < out.size(); ++i) {
              const uint64_t a = cells[4 * i], b = cells[4 * i + 1];
              ASSERT_TRUE(f.same(out[i] & 0xffff, expected(a, b, c)))
                  << opcode << std::hex << " of " << (a & 0xffff) << ", " << (b & 0xffff) << ", " << c << ": "
                  << (out[i] & 0xffff);
              if (!pair) continue;
              ASSERT_TRUE(f.same(out[i] >> 16, expected(a >> 16, b >> 16, c))) << opcode << " above";
            }
          }
        }
      }
    }
  }
}

// ---- min and max ---------------------------------------------------------------------------------------------------

TEST(Forms, MinMax) {
  for (const FloatType& f : {kFloats[0], kFloats[1], kFloats[2]}) {
    const bool is_half = f.bits() == 16;
    for (const std::string op : {"min", "max"}) {
      for (const std::string form : {"", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs", ".ftz", ".ftz.NaN"}) {
        const bool ftz = form.find("ftz") != std::string::npos;
        if (ftz && f.name == std::string("bf16")) continue;
        const auto expected = [&](uint64_t a, uint64_t b) {
          long double x = f.value(a), y = f.value(b);
          const long double least = std::ldexp(1.0L, 2 - (1 << (f.exponent_bits - 1)));
          if (ftz && std::fabs(x) < least) x = std::copysign(0.0L, x);
          if (ftz && std::fabs(y) < least) y = std::copysign(0.0L, y);
          const bool negative = std::signbit(x) != std::signbit(y);
          const bool xors = form.find("xorsign") != std::string::npos;
          if (xors) x = std::fabs(x), y = std::fabs(y);
          if (std::isunordered(x, y)) {
            if (form.find("NaN") != std::string::npos || (std::isnan(x) && std::isnan(y)))
              return static_cast<long double>(NAN);
            x = std::isnan(x) ? y : x;
          } else if (x == y) {
            x = (op == "max") == std::signbit(x) ? y : x;  // -0 < +0
          } else {
            x = op == "max" ? std::max(x, y) : std::min(x, y);
          }
          return xors && negative ? -x : x;
        };
        const std::string opcode = op + form + "." + f.name;
        const std::string ptx = instruction_kernel(opcode, f.name, {f.name, f.name}, false, "");
        for (uint64_t a : *f.values) {
          Cells cells;
          for (uint64_t b : *f.values) cells.insert(cells.end(), {a, b, 0, 0});
          const std::vector<uint64_t> out = run_cells(ptx, cells);
          for (size_t i = 0; i < out.size(); ++i)
            ASSERT_TRUE(f.same(out[i], expected(a, cells[4 * i + 1])))
                << opcode << std::hex << " of " << a << ", " << cells[4 * i + 1] << ": " << out[i];
        }
        if (!is_half || ftz) continue;
        const std::string t = std::string(f.name) + "x2";
        const std::vector<uint64_t> pairs = pairs_of(*f.values);
        for (uint64_t a : pairs)
          for (uint64_t b : {pairs[1], pairs[4], pairs[9], pairs[10]}) {
            const uint64_t got =
                run_cells(instruction_kernel(op + form + "." + t, t, {t, t}, false, ""), {a, b, 0, 0})[0];
            ASSERT_TRUE(f.same(got & 0xffff, expected(a & 0xffff, b & 0xffff)) &&
                        f.same(got >> 16, expected(a >> 16, b >> 16)))
                << opcode << "x2";
          }
      }
    }
  }
  const auto s = [](uint64_t v) { return static_cast<int32_t>(v); };
  const auto part = [](uint64_t v, int k) { return static_cast<int32_t>(static_cast<int16_t>(v >> k)); };
  const auto both = [](int32_t low, int32_t high) {
    return (static_cast<uint64_t>(low) & 0xffff) | (static_cast<uint64_t>(high) & 0xffff) << 16;
  };
  expect_instruction("min.relu.s32", "s32", {"s32", "s32"}, {kInts32}, [&](uint64_t a, uint64_t b, uint64_t) {
    return static_cast<uint64_t>(std::max(std::min(s(a), s(b)), 0));
  });
  expect_instruction("max.relu.s32", "s32", {"s32", "s32"}, {kInts32}, [&](uint64_t a, uint64_t b, uint64_t) {
    return static_cast<uint64_t>(std::max({s(a), s(b), 0}));
  });
  expect_instruction("max.s16x2", "b32", {"b32", "b32"}, {kInts32}, [&](uint64_t a, uint64_t b, uint64_t) {
    return both(std::max(part(a, 0), part(b, 0)), std::max(part(a, 16), part(b, 16)));
  });
  expect_instruction("min.relu.s16x2", "b32", {"b32", "b32"}, {kInts32}, [&](uint64_t a, uint64_t b, uint64_t) {
    return both(std::max(std::min(part(a, 0), part(b, 0)), 0), std::max(std::min(part(a, 16), part(b, 16)), 0));
  });
  expect_instruction("min.u16x2", "b32", {"b32", "b32"}, {kInts32}, [&](uint64_t a, uint64_t b, uint64_t) {
    return std::min(a & 0xffff, b & 0xffff) | std::min(a >> 16, b >> 16) << 16;
  });
  expect_instruction("add.u16x2", "b32", {"b32", "b32"}, {kInts32}, [&](uint64_t a, uint64_t b, uint64_t) {
    return both(part(a, 0) + part(b, 0), part(a, 16) + part(b, 16));
  });
}

// ---- integers ------------------------------------------------------------------------------------------------------

TEST(Forms, HighAndWideProducts) {
  for (const IntegerType& t : kIntegers) {
    if (t.bits < 16) continue;
    const std::string n = t.name;
    const auto high = [&](uint64_t a, uint64_t b) {
      // The upper half of the product, from halves of the factors so that 64 bits suffice nowhere.
      const Wide x = t.value(a), y = t.value(b);
      if (t.bits < 64) return static_cast<uint64_t>((x * y) >> t.bits);
      const Wide xl = x & 0xffffffff, xh = x >> 32, yl = y & 0xffffffff, yh = y >> 32;
      return static_cast<uint64_t>(xh * yh + ((xh * yl + ((xl * yl) >> 32)) >> 32) +
                                   ((xl * yh + ((xh * yl + ((xl * yl) >> 32)) & 0xffffffff)) >> 32));
    };
    expect_instruction("mul.hi." + n, n, {n, n}, {values_of(t)},
                       [&](uint64_t a, uint64_t b, uint64_t) { return high(a, b); });
    expect_instruction("mad.hi." + n, n, {n, n, n}, {values_of(t)},
                       [&](uint64_t a, uint64_t b, uint64_t c) { return high(a, b) + c; });
    expect_instruction("sad." + n, n, {n, n, n}, {values_of(t)}, [&](uint64_t a, uint64_t b, uint64_t c) {
      const Wide x = t.value(a), y = t.value(b);
      return static_cast<uint64_t>(x > y ? x - y : y - x) + c;
    });
    if (t.bits > 32) continue;
    const std::string wide = std::string(1, n[0]) + std::to_string(2 * t.bits);
    expect_instruction("mad.wide." + n, wide, {n, n, wide}, {values_of(t)}, [&](uint64_t a, uint64_t b, uint64_t c) {
      return static_cast<uint64_t>(t.value(a) * t.value(b)) + c;
    });
  }
  const IntegerType s24{"s24", 24, true}, u24{"u24", 24, false};
  for (const auto& t : {s24, u24}) {
    const std::string n = t.is_signed ? "s32" : "u32";
    expect_instruction("mul24.lo." + n, n, {n, n}, {kInts32}, [&](uint64_t a, uint64_t b, uint64_t) {
      return static_cast<uint64_t>(t.value(a) * t.value(b));
    });
    expect_instruction("mul24.hi." + n, n, {n, n}, {kInts32}, [&](uint64_t a, uint64_t b, uint64_t) {
      return static_cast<uint64_t>((t.value(a) * t.value(b)) >> 16);
    });
    expect_instruction("mad24.lo." + n, n, {n, n, n}, {kInts32}, [&](uint64_t a, uint64_t b, uint64_t c) {
      return static_cast<uint64_t>(t.value(a) * t.value(b)) + c;
    });
  }
  expect_instruction(
      "mad.hi.sat.s32", "s32", {"s32", "s32", "s32"}, {kInts32}, [&](uint64_t a, uint64_t b, uint64_t c) {
        const int64_t p = int64_t{static_cast<int32_t>(a)} * static_cast<int32_t>(b);
        return static_cast<uint64_t>(std::clamp<int64_t>((p >> 32) + static_cast<int32_t>(c), INT32_MIN, INT32_MAX));
      });
}

TEST(Forms, FieldsAndSelections) {
  const auto bit_of = [](uint64_t v, int i) { return v >> i & 1; };
  expect_instruction("bmsk.clamp.b32", "b32", {"u32", "u32"}, {kInts32}, [&](uint64_t a, uint64_t b, uint64_t) {
    uint64_t r = 0;
    for (uint64_t i = 0; i < 32; ++i) r |= i >= a && i - a < b ? uint64_t{1} << i : 0;
    return r;
  });
  expect_instruction("bmsk.wrap.b32", "b32", {"u32", "u32"}, {kInts32}, [&](uint64_t a, uint64_t b, uint64_t) {
    uint64_t r = 0;
    for (uint64_t i = 0; i < 32; ++i) r |= i >= (a & 31) && i - (a & 31) < (b & 31) ? uint64_t{1} << i : 0;
    return r;
  });
  for (const std::string mode : {"clamp", "wrap"})
    for (const bool is_signed : {false, true})
      expect_instruction(
          "szext." + mode + (is_signed ? ".s32" : ".u32"), "b32", {"b32", "u32"}, {kInts32},
          [&](uint64_t a, uint64_t b, uint64_t) {
            const uint64_t n = mode == "wrap" ? b % 32 : std::min<uint64_t>(b, 32);
            uint64_t r = 0;
            for (uint64_t i = 0; i < 32 && n > 0; ++i)
              r |= (i < n ? bit_of(a, static_cast<int>(i)) : is_signed ? bit_of(a, static_cast<int>(n) - 1) : 0) << i;
            return r;
          });
  expect_instruction("bfind.s64", "u32", {"s64"}, {kInts64}, [&](uint64_t a, uint64_t, uint64_t) -> uint64_t {
    for (int i = 63; i >= 0; --i)
      if (bit_of(a, i) != bit_of(a, 63)) return static_cast<uint64_t>(i);
    return 0xffffffff;
  });
  expect_instruction("fns.b32", "b32", {"b32", "b32", "s32"},
                     {kInts32, {0, 1, 5, 31, 32}, {0, 1, 2, 3, 40, 0xffffffff, 0xfffffffe, 0xfffffff0}},
                     [&](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
                       const auto n = static_cast<int32_t>(c);
                       std::vector<uint64_t> set;  // in the direction of the search
                       if (n >= 0)
                         for (uint64_t i = b; i < 32; ++i) {
                           if (bit_of(a, static_cast<int>(i))) set.push_back(i);
                         }
                       else if (b < 32)
                         for (int64_t i = static_cast<int64_t>(b); i >= 0; --i) {
                           if (bit_of(a, static_cast<int>(i))) set.push_back(static_cast<uint64_t>(i));
                         }
                       if (n == 0) return b < 32 && bit_of(a, static_cast<int>(b)) ? b : 0xffffffff;
                       const size_t k = static_cast<size_t>(std::abs(n)) - 1;
                       return k < set.size() ? set[k] : 0xffffffff;
                     });
  for (const std::string type : {"b16", "b32", "b64", "f32"}) {
    expect_instruction("slct." + type + ".s32", type, {type, type, "s32"}, {kInts16, kInts16, kInts32},
                       [](uint64_t a, uint64_t b, uint64_t c) { return static_cast<int32_t>(c) >= 0 ? a : b; });
    expect_instruction("slct." + type + ".f32", type, {type, type, "f32"}, {kInts16, kInts16, kFloats32},
                       [](uint64_t a, uint64_t b, uint64_t c) { return f32(c) >= 0 ? a : b; });
  }
  for (const std::string combine : {"and", "or"}) {
    // d|p of lop3: x ^ y ^ z, and whether it is zero; the vote below counts lanes.
    const std::string ptx = cell_kernel(
        "  .reg .b32 %x<4>;\n  .reg .pred %p, %q;\n  cvt.u32.u64 %x0, %a;\n  cvt.u32.u64 %x1, %b;\n  setp.ne.u64 %q, "
        "%c, 0;\n  lop3." +
        combine + ".b32 %x2|%p, %x0, %x1, 0, 0x96, %q;\n  cvt.u64.u32 %d, %x2;\n  @%p add.u64 %d, %d, 0x100000000;\n");
    for (uint64_t a : {0, 5, 7})
      for (uint64_t b : {0, 5})
        for (uint64_t q : {0, 1}) {
          const bool p = combine == "and" ? (a ^ b) != 0 && q : (a ^ b) != 0 || q;
          EXPECT_EQ(run_cells(ptx, {a, b, q, 0})[0], (a ^ b) | static_cast<uint64_t>(p) << 32);
        }
  }
}

TEST(Forms, RegistersOfBytesAnd128Bits) {
  const std::string bytes = cell_kernel(
      "  .reg .b32 %x, %y;\n  .reg .b16 %h;\n  .reg .b8 %b<4>;\n  cvt.u32.u64 %x, %a;\n  mov.b32 {%b0, %b1, %b2, %b3}, "
      "%x;\n  mov.b32 %y, {%b3, %b2, %b1, %b0};\n  mov.b16 %h, {%b2, %b0};\n  cvt.u64.u32 %d, %y;\n  cvt.u64.u16 %a, "
      "%h;\n  shl.b64 %a, %a, 32;\n  or.b64 %d, %d, %a;\n");
  EXPECT_EQ(run_cells(bytes, {0x11223344, 0, 0, 0})[0], 0x0000442244332211u);
  const std::string wide = cell_kernel(
      "  .reg .b128 %q, %r;\n  mov.b128 %q, {%a, %b};\n  mov.b128 %r, %q;\n  mov.b128 {%b, %a}, %r;\n  sub.u64 %d, %a, "
      "%b;\n");
  EXPECT_EQ(run_cells(wide, {5, 12, 0, 0})[0], 7u);
}

// ---- approximations ------------------------------------------------------------------------------------------------

TEST(Forms, ApproximateDivision) {
  const auto same = [](uint64_t got, uint64_t expected) { return same_f32(got, expected); };
  expect_instruction(
      "div.approx.f32", "f32", {"f32", "f32"},
      {{bits(1.0f), bits(-3.0f), bits(INFINITY)}, {bits(0x1p127f), bits(-0x1.8p126f)}},
      [](uint64_t a, uint64_t b, uint64_t) {
        return std::isinf(f32(a)) ? bits(NAN) : bits(std::copysign(0.0f, f32(a) * f32(b)));
      },
      same);
  expect_instruction(
      "div.approx.f32", "f32", {"f32", "f32"},
      {{bits(1.0f), bits(-3.0f), bits(INFINITY), bits(0.0f)}, {bits(0x1p126f), bits(3.0f), bits(INFINITY), bits(0.0f)}},
      [](uint64_t a, uint64_t b, uint64_t) { return bits(f32(a) / f32(b)); },
      [](uint64_t got, uint64_t expected) {
        return same_f32(got, expected) || std::fabs(f32(got) - f32(expected)) <= std::fabs(f32(expected)) * 0x1p-22f;
      });
  // Of bf16 with .ftz subnormal results are zero.
  expect_instruction("ex2.approx.ftz.bf16", "bf16", {"bf16"}, {{0xc300, 0xc2fe, 0x3f80, 0xc2fc}},
                     [](uint64_t a, uint64_t, uint64_t) -> uint64_t {
                       return a == 0xc300 || a == 0xc2fe ? 0 : a == 0x3f80 ? 0x4000 : 0x0080;
                     });
}

// ---- atomics -------------------------------------------------------------------------------------------------------

// One thread: the old value comes back, the new one is stored. On global and on shared memory.
void expect_atomic(const std::string& op, const std::string& type, uint64_t old, uint64_t b, uint64_t c,
                   uint64_t expected) {
  const std::string r = register_type(type);
  for (const std::string space : {"global", "shared"}) {
    const std::string memory = space == "global" ? "%x" : "s";
    const std::string ptx =
        module_header() + ".visible .entry k(.param .u64 data) {\n  .reg .b64 %x;\n  .reg ." + r +
        " %v, %b, %c, %old;\n  .shared .align 8 .b8 s[8];\n  ld.param.u64 %x, [data];\n  ld.global.b" + r.substr(1) +
        " %v, [%x];\n  ld.global.b" + r.substr(1) + " %b, [%x+8];\n  ld.global.b" + r.substr(1) +
        " %c, [%x+16];\n  st.shared.b" + r.substr(1) + " [s], %v;\n  atom." + space + "." + op + "." + type +
        " %old, [" + memory + "], %b" + (op == "cas" ? ", %c" : "") + ";\n  ld." + space + ".b" + r.substr(1) +
        " %v, [" + memory + "];\n  st.global.b" + r.substr(1) + " [%x], %v;\n  st.global.b" + r.substr(1) +
        " [%x+8], %old;\n  ret;\n}\n";
    std::vector<uint64_t> data{old, b, c};
    call(*parse(ptx), "k", config_1d(1, 1), data);
    EXPECT_EQ(masked(type, data[0]), masked(type, expected))
        << "atom." << space << "." << op << "." << type << std::hex << " of " << old << ", " << b;
    EXPECT_EQ(masked(type, data[1]), masked(type, old));
  }
}

TEST(Forms, AtomicsOfIntegers) {
  for (const IntegerType& t : kIntegers) {
    if (t.bits < 32) continue;
    const std::vector<uint64_t> some = {0, 1, 7, t.held(t.high()), t.held(t.low()), 0xf0f0f0f0f0f0f0f0};
    for (uint64_t old : some)
      for (uint64_t b : some) {
        const Wide x = t.value(old), y = t.value(b);
        expect_atomic("min", t.name, old, b, 0, t.held(std::min(x, y)));
        expect_atomic("max", t.name, old, b, 0, t.held(std::max(x, y)));
        if (t.is_signed) continue;
        const std::string bits = "b" + std::to_string(t.bits);
        expect_atomic("add", t.name, old, b, 0, old + b);
        expect_atomic("and", bits, old, b, 0, old & b);
        expect_atomic("or", bits, old, b, 0, old | b);
        expect_atomic("xor", bits, old, b, 0, old ^ b);
        expect_atomic("exch", bits, old, b, 0, b);
        expect_atomic("cas", bits, old, b, 99, x == y ? 99 : old);
        if (t.bits == 64) continue;
        expect_atomic("inc", t.name, old, b, 0, x >= y ? 0 : old + 1);
        expect_atomic("dec", t.name, old, b, 0, x == 0 || x > y ? b : old - 1);
      }
  }
  expect_atomic("cas", "b16", 0x1234, 0x1234, 0x77, 0x77);
  expect_atomic("cas", "b16", 0x1234, 0x1235, 0x77, 0x1234);
}

TEST(Forms, AtomicsOfFloats) {
  expect_atomic("add", "f32", bits(1.5f), bits(2.25f), 0, bits(3.75f));
  expect_atomic("add", "f64", bits(1.5), bits(0x1p-60), 0, bits(1.5));
  for (const FloatType& f : {kFloats[0], kFloats[1]}) {
    const uint64_t one = f.name == std::string("f16") ? 0x3c00 : 0x3f80, two = 0x4000;
    expect_atomic("add.noftz", f.name, one, one, 0, two);
    const std::string pair = std::string(f.name) + "x2";
    expect_atomic("add.noftz", pair, one << 16, one << 16 | one, 0, two << 16 | one);
    expect_atomic("min.noftz", pair, one << 16 | two, two << 16 | one, 0, one << 16 | one);
    expect_atomic("max.noftz", pair, one << 16 | two, two << 16 | one, 0, two << 16 | two);
    expect_atomic("min.noftz", f.name, one, two, 0, one);
    expect_atomic("max.noftz", f.name, one, two, 0, two);
  }
}

TEST(Forms, AtomicsOf128Bits) {
  const std::string ptx = module_header() + R"(
.visible .entry k(.param .u64 data) {
  .reg .b64 %x, %l, %h;
  .reg .b128 %a, %b, %old;
  ld.param.u64 %x, [data];
  ld.global.v2.u64 {%l, %h}, [%x+16];
  mov.b128 %a, {%l, %h};
  ld.global.v2.u64 {%l, %h}, [%x+32];
  mov.b128 %b, {%l, %h};
  atom.global.cas.b128 %old, [%x], %a, %b;
  mov.b128 {%l, %h}, %old;
  st.global.v2.u64 [%x+16], {%l, %h};
  atom.global.exch.b128 %old, [%x+32], %a;
  ret;
})";
  const auto memory = [](std::vector<uint64_t> v) {
    auto* block = static_cast<uint64_t*>(std::aligned_alloc(16, 48));
    std::copy(v.begin(), v.end(), block);
    return std::unique_ptr<uint64_t, decltype(&std::free)>(block, &std::free);
  };
  for (const bool equal : {true, false}) {
    const auto data = memory({1, 2, 1, equal ? 2u : 3u, 8, 9});
    const auto base = reinterpret_cast<uint64_t>(data.get());
    launch(*parse(ptx), "k", config_1d(1, 1), std::vector<std::vector<std::byte>>{arg(base)},
           std::vector<Allocation>{{base, 48, "data", true}});
    const std::vector<uint64_t> now(data.get(), data.get() + 6);
    EXPECT_EQ(now, (std::vector<uint64_t>{equal ? 8u : 1u, equal ? 9u : 2u, 1, 2, 1, equal ? 2u : 3u}));
  }
}

// ---- addresses, hints, launches ------------------------------------------------------------------------------------

// Bit k of the result: whether the k-th address is one of the space that is asked for.
TEST(Forms, SpacesOfGenericAddresses) {
  const std::string spaces[] = {"global", "const", "param", "shared", "local"};
  std::string body =
      "  .shared .b8 s[4];\n  .local .b8 l[4];\n  .reg .b64 %x<5>;\n  .reg .pred %p;\n"
      "  mov.u64 %x0, %src;\n  mov.u64 %x1, table;\n  cvta.const.u64 %x1, %x1;\n  mov.u64 %x2, in;\n"
      "  cvta.param.u64 %x2, %x2;\n  mov.u64 %x3, s;\n  cvta.shared.u64 %x3, %x3;\n  mov.u64 %x4, l;\n"
      "  cvta.local.u64 %x4, %x4;\n";
  for (int asked = 0; asked < 5; ++asked)
    for (int k = 0; k < 5; ++k)
      body += "  isspacep." + spaces[asked] + " %p, %x" + std::to_string(k) + ";\n  @%p add.u64 %d, %d, " +
              std::to_string(1 << (5 * asked + k)) + ";\n";
  std::string ptx = cell_kernel(body);
  ptx.insert(module_header().size(), ".const .align 4 .b8 table[4] = {1, 2, 3, 4};\n");
  EXPECT_EQ(run_cells(ptx, {0, 0, 0, 0})[0], 1u | 1u << 6 | 1u << 12 | 1u << 18 | 1u << 24);
}

TEST(Forms, HintsChangeNothing) {
  const std::string ptx = cell_kernel(R"(
  .reg .b64 %policy;
  createpolicy.fractional.L2::evict_first.b64 %policy, 1.0;
  prefetch.global.L2 [%src];
  applypriority.global.L2::evict_normal [%src], 128;
  ld.global.nc.L1::no_allocate.L2::cache_hint.b64 %d, [%src], %policy;
  st.global.L2::cache_hint.b64 [%dst], %d, %policy;
)");
  EXPECT_EQ(run_cells(ptx, {1234, 0, 0, 0})[0], 1234u);
}

TEST(Forms, RequiredClusters) {
  const auto module = parse(module_header() +
                            ".visible .entry k(.param .u64 out)\n.explicitcluster\n.reqnctapercluster 2, 1, 1\n{\n"
                            "  .reg .b64 %o;\n  .reg .b32 %r;\n  ld.param.u64 %o, [out];\n"
                            "  mov.u32 %r, %ctaid.x;\n  mad.wide.u32 %o, %r, 4, %o;\n"
                            "  mov.u32 %r, %cluster_nctarank;\n  st.global.u32 [%o], %r;\n  ret;\n}\n");
  EXPECT_EQ(kernel_info(*module, "k").reqcluster, (std::array<uint32_t, 3>{2, 1, 1}));
  std::vector<uint32_t> out(4);
  call(*module, "k", config_1d(4, 1), out);
  EXPECT_EQ(out, std::vector<uint32_t>(4, 2));
  LaunchConfig other = config_1d(4, 1);
  other.cluster = {4, 1, 1};
  const std::string text = thrown<UserError>([&] { call(*module, "k", other, out); });
  EXPECT_NE(text.find("cluster (4, 1, 1), .reqnctapercluster asks for (2, 1, 1)"), std::string::npos) << text;
}

}  // namespace
}  // namespace tilewright::sim
