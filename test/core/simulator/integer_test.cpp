// Integer instructions against formulas over 64- or 128-bit host integers.
#include "instruction.h"

namespace tilewright::sim {
namespace {

using S128 = __int128;
using U128 = unsigned __int128;

int64_t sx(uint64_t v, int n) { return static_cast<int64_t>(v << (64 - n)) >> (64 - n); }
uint64_t zx(uint64_t v, int n) { return n == 64 ? v : v & ((uint64_t{1} << n) - 1); }
const std::vector<uint64_t>& ints(int n) { return n == 16 ? kInts16 : n == 32 ? kInts32 : kInts64; }
std::string ty(char sign, int n) { return std::string(1, sign) + std::to_string(n); }

class Widths : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Bits, Widths, testing::Values(16, 32, 64));

TEST_P(Widths, AddSubMul) {
  const int n = GetParam();
  for (const std::string& t : {ty('s', n), ty('u', n)}) {
    expect_instruction("add." + t, t, {t, t}, {ints(n)}, [](uint64_t a, uint64_t b, uint64_t) { return a + b; });
    expect_instruction("sub." + t, t, {t, t}, {ints(n)}, [](uint64_t a, uint64_t b, uint64_t) { return a - b; });
    expect_instruction("mul.lo." + t, t, {t, t}, {ints(n)}, [](uint64_t a, uint64_t b, uint64_t) { return a * b; });
    expect_instruction("mad.lo." + t, t, {t, t, t}, {ints(n)},
                       [](uint64_t a, uint64_t b, uint64_t c) { return a * b + c; });
  }
  const std::string s = ty('s', n), u = ty('u', n);
  expect_instruction("mul.hi." + s, s, {s, s}, {ints(n)}, [=](uint64_t a, uint64_t b, uint64_t) {
    return static_cast<uint64_t>((S128{sx(a, n)} * sx(b, n)) >> n);
  });
  expect_instruction("mul.hi." + u, u, {u, u}, {ints(n)}, [=](uint64_t a, uint64_t b, uint64_t) {
    return static_cast<uint64_t>((U128{zx(a, n)} * zx(b, n)) >> n);
  });
  expect_instruction("mad.hi." + u, u, {u, u, u}, {ints(n)}, [=](uint64_t a, uint64_t b, uint64_t c) {
    return static_cast<uint64_t>((U128{zx(a, n)} * zx(b, n)) >> n) + c;
  });
}

TEST_P(Widths, DivRem) {
  const int n = GetParam();
  const std::string s = ty('s', n), u = ty('u', n);
  std::vector<uint64_t> divisors = ints(n);
  divisors.erase(divisors.begin());  // zero has no defined quotient
  expect_instruction("div." + u, u, {u, u}, {ints(n), divisors},
                     [=](uint64_t a, uint64_t b, uint64_t) { return zx(a, n) / zx(b, n); });
  expect_instruction("rem." + u, u, {u, u}, {ints(n), divisors},
                     [=](uint64_t a, uint64_t b, uint64_t) { return zx(a, n) % zx(b, n); });
  expect_instruction("div." + s, s, {s, s}, {ints(n), divisors}, [=](uint64_t a, uint64_t b, uint64_t) {
    return static_cast<uint64_t>(S128{sx(a, n)} / sx(b, n));
  });
  expect_instruction("rem." + s, s, {s, s}, {ints(n), divisors}, [=](uint64_t a, uint64_t b, uint64_t) {
    return static_cast<uint64_t>(S128{sx(a, n)} % sx(b, n));
  });
  expect_instruction("div." + u, u, {u, u}, {{1, 5}, {0}},
                     [](uint64_t, uint64_t, uint64_t) { return ~uint64_t{0}; });  // no host fault
}

TEST_P(Widths, MinMaxAbsNeg) {
  const int n = GetParam();
  const std::string s = ty('s', n), u = ty('u', n);
  expect_instruction("min." + s, s, {s, s}, {ints(n)},
                     [=](uint64_t a, uint64_t b, uint64_t) { return sx(a, n) < sx(b, n) ? a : b; });
  expect_instruction("max." + s, s, {s, s}, {ints(n)},
                     [=](uint64_t a, uint64_t b, uint64_t) { return sx(a, n) < sx(b, n) ? b : a; });
  expect_instruction("min." + u, u, {u, u}, {ints(n)},
                     [=](uint64_t a, uint64_t b, uint64_t) { return std::min(zx(a, n), zx(b, n)); });
  expect_instruction("max." + u, u, {u, u}, {ints(n)},
                     [=](uint64_t a, uint64_t b, uint64_t) { return std::max(zx(a, n), zx(b, n)); });
  expect_instruction("abs." + s, s, {s}, {ints(n)},
                     [=](uint64_t a, uint64_t, uint64_t) { return sx(a, n) < 0 ? 0 - a : a; });
  expect_instruction("neg." + s, s, {s}, {ints(n)}, [](uint64_t a, uint64_t, uint64_t) { return 0 - a; });
  expect_instruction("sad." + u, u, {u, u, u}, {ints(n)},
                     [=](uint64_t a, uint64_t b, uint64_t c) { return c + (zx(a, n) > zx(b, n) ? a - b : b - a); });
}

TEST_P(Widths, LogicAndShifts) {
  const int n = GetParam();
  const std::string b = ty('b', n), s = ty('s', n), u = ty('u', n);
  expect_instruction("and." + b, b, {b, b}, {ints(n)}, [](uint64_t x, uint64_t y, uint64_t) { return x & y; });
  expect_instruction("or." + b, b, {b, b}, {ints(n)}, [](uint64_t x, uint64_t y, uint64_t) { return x | y; });
  expect_instruction("xor." + b, b, {b, b}, {ints(n)}, [](uint64_t x, uint64_t y, uint64_t) { return x ^ y; });
  expect_instruction("not." + b, b, {b}, {ints(n)}, [](uint64_t x, uint64_t, uint64_t) { return ~x; });
  expect_instruction("cnot." + b, b, {b}, {ints(n)},
                     [=](uint64_t x, uint64_t, uint64_t) { return static_cast<uint64_t>(zx(x, n) == 0); });
  const uint64_t width = static_cast<uint64_t>(n);
  expect_instruction("shl." + b, b, {b, "u32"}, {ints(n), kInts32},
                     [=](uint64_t x, uint64_t k, uint64_t) { return k >= width ? 0 : x << k; });
  expect_instruction("shr." + u, u, {u, "u32"}, {ints(n), kInts32},
                     [=](uint64_t x, uint64_t k, uint64_t) { return k >= width ? 0 : zx(x, n) >> k; });
  expect_instruction("shr." + s, s, {s, "u32"}, {ints(n), kInts32}, [=](uint64_t x, uint64_t k, uint64_t) {
    return static_cast<uint64_t>(sx(x, n) >> std::min<uint64_t>(k, width - 1));
  });
}

TEST_P(Widths, Comparisons) {
  const int n = GetParam();
  const std::string s = ty('s', n), u = ty('u', n), b = ty('b', n);
  const auto expect = [&](const std::string& op, const std::string& t, auto f) {
    expect_instruction("setp." + op + "." + t, "pred", {t, t}, {ints(n)},
                       [=](uint64_t x, uint64_t y, uint64_t) { return static_cast<uint64_t>(f(x, y)); });
  };
  expect("eq", b, [=](uint64_t x, uint64_t y) { return zx(x, n) == zx(y, n); });
  expect("ne", s, [=](uint64_t x, uint64_t y) { return zx(x, n) != zx(y, n); });
  expect("lt", s, [=](uint64_t x, uint64_t y) { return sx(x, n) < sx(y, n); });
  expect("le", s, [=](uint64_t x, uint64_t y) { return sx(x, n) <= sx(y, n); });
  expect("gt", s, [=](uint64_t x, uint64_t y) { return sx(x, n) > sx(y, n); });
  expect("ge", s, [=](uint64_t x, uint64_t y) { return sx(x, n) >= sx(y, n); });
  expect("lt", u, [=](uint64_t x, uint64_t y) { return zx(x, n) < zx(y, n); });
  expect("ge", u, [=](uint64_t x, uint64_t y) { return zx(x, n) >= zx(y, n); });
  expect("lo", u, [=](uint64_t x, uint64_t y) { return zx(x, n) < zx(y, n); });
  expect("ls", u, [=](uint64_t x, uint64_t y) { return zx(x, n) <= zx(y, n); });
  expect("hi", u, [=](uint64_t x, uint64_t y) { return zx(x, n) > zx(y, n); });
  expect("hs", u, [=](uint64_t x, uint64_t y) { return zx(x, n) >= zx(y, n); });
}

TEST_P(Widths, Select) {
  const int n = GetParam();
  const std::string b = ty('b', n);
  expect_instruction("selp." + b, b, {b, b, "pred"}, {ints(n), ints(n), {0, 1}},
                     [](uint64_t x, uint64_t y, uint64_t p) { return p ? x : y; });
}

TEST(Integer, WideProducts) {
  expect_instruction("mul.wide.u16", "u32", {"u16", "u16"}, {kInts16},
                     [](uint64_t a, uint64_t b, uint64_t) { return a * b; });
  expect_instruction("mul.wide.s16", "s32", {"s16", "s16"}, {kInts16},
                     [](uint64_t a, uint64_t b, uint64_t) { return static_cast<uint64_t>(sx(a, 16) * sx(b, 16)); });
  expect_instruction("mul.wide.u32", "u64", {"u32", "u32"}, {kInts32},
                     [](uint64_t a, uint64_t b, uint64_t) { return a * b; });
  expect_instruction("mul.wide.s32", "s64", {"s32", "s32"}, {kInts32},
                     [](uint64_t a, uint64_t b, uint64_t) { return static_cast<uint64_t>(sx(a, 32) * sx(b, 32)); });
  expect_instruction(
      "mad.wide.s32", "s64", {"s32", "s32", "s64"}, {kInts32, kInts32, kInts64},
      [](uint64_t a, uint64_t b, uint64_t c) { return static_cast<uint64_t>(sx(a, 32) * sx(b, 32)) + c; });
  expect_instruction("mul24.lo.u32", "u32", {"u32", "u32"}, {kInts32},
                     [](uint64_t a, uint64_t b, uint64_t) { return (a & 0xffffff) * (b & 0xffffff); });
}

TEST(Integer, Saturating) {
  const auto clamp = [](int64_t v) {
    return static_cast<uint64_t>(std::min<int64_t>(std::max<int64_t>(v, INT32_MIN), INT32_MAX));
  };
  expect_instruction("add.sat.s32", "s32", {"s32", "s32"}, {kInts32},
                     [=](uint64_t a, uint64_t b, uint64_t) { return clamp(sx(a, 32) + sx(b, 32)); });
  expect_instruction("sub.sat.s32", "s32", {"s32", "s32"}, {kInts32},
                     [=](uint64_t a, uint64_t b, uint64_t) { return clamp(sx(a, 32) - sx(b, 32)); });
}

TEST(Integer, BitCounts) {
  expect_instruction("popc.b32", "u32", {"b32"}, {kInts32}, [](uint64_t a, uint64_t, uint64_t) {
    return static_cast<uint64_t>(std::popcount(static_cast<uint32_t>(a)));
  });
  expect_instruction("popc.b64", "u32", {"b64"}, {kInts64},
                     [](uint64_t a, uint64_t, uint64_t) { return static_cast<uint64_t>(std::popcount(a)); });
  expect_instruction("clz.b32", "u32", {"b32"}, {kInts32}, [](uint64_t a, uint64_t, uint64_t) {
    return static_cast<uint64_t>(std::countl_zero(static_cast<uint32_t>(a)));
  });
  expect_instruction("clz.b64", "u32", {"b64"}, {kInts64},
                     [](uint64_t a, uint64_t, uint64_t) { return static_cast<uint64_t>(std::countl_zero(a)); });
  const auto reverse = [](uint64_t a, int n) {
    uint64_t r = 0;
    for (int i = 0; i < n; ++i) r |= (a >> i & 1) << (n - 1 - i);
    return r;
  };
  expect_instruction("brev.b32", "b32", {"b32"}, {kInts32},
                     [=](uint64_t a, uint64_t, uint64_t) { return reverse(a, 32); });
  expect_instruction("brev.b64", "b64", {"b64"}, {kInts64},
                     [=](uint64_t a, uint64_t, uint64_t) { return reverse(a, 64); });
  const auto top = [](uint64_t a) {
    return a == 0 ? 0xffffffffull : 63ull - static_cast<uint64_t>(std::countl_zero(a));
  };
  expect_instruction("bfind.u32", "u32", {"u32"}, {kInts32}, [=](uint64_t a, uint64_t, uint64_t) { return top(a); });
  expect_instruction("bfind.s32", "u32", {"s32"}, {kInts32},
                     [=](uint64_t a, uint64_t, uint64_t) { return top(a >> 31 & 1 ? ~a & 0xffffffffu : a); });
  expect_instruction("bfind.shiftamt.u64", "u32", {"u64"}, {kInts64},
                     [=](uint64_t a, uint64_t, uint64_t) { return a == 0 ? 0xffffffffull : 63 - top(a); });
}

// bfe and bfi bit by bit, as the PTX ISA's pseudo code has them, but that a GPU takes the positions and lengths of 64
// bits as they are.
uint64_t bfe(uint64_t a, uint64_t b, uint64_t c, int n, bool is_signed) {
  const int64_t pos = n == 64 ? b : b & 255, len = n == 64 ? c : c & 255, msb = n - 1;
  const uint64_t sign = !is_signed || len == 0 ? 0 : a >> std::min(pos + len - 1, msb) & 1;
  uint64_t d = 0;
  for (int64_t i = 0; i <= msb; ++i) d |= (i < len && pos + i <= msb ? a >> (pos + i) & 1 : sign) << i;
  return d;
}

TEST(Integer, BitFields) {
  const std::vector<uint64_t> at = {0, 1, 5, 16, 31, 32, 40, 63, 64, 200, 255, 256, 261};
  for (const int n : {32, 64}) {
    const std::string s = ty('s', n), u = ty('u', n), b = ty('b', n);
    expect_instruction("bfe." + u, u, {u, "u32", "u32"}, {ints(n), at},
                       [=](uint64_t a, uint64_t p, uint64_t l) { return bfe(a, p, l, n, false); });
    expect_instruction("bfe." + s, s, {s, "u32", "u32"}, {ints(n), at},
                       [=](uint64_t a, uint64_t p, uint64_t l) { return bfe(a, p, l, n, true); });
    for (const int len : {0, 1, 8, 31, 64}) {
      expect_instruction(
          "bfi." + b, b, {b, b, "u32"}, {ints(n), ints(n), at},
          [=](uint64_t a, uint64_t f, uint64_t c) {
            const int pos = c & 255;
            for (int i = 0; i < len && pos + i < n; ++i)
              f = (f & ~(uint64_t{1} << (pos + i))) | (a >> i & 1) << (pos + i);
            return f;
          },
          std::equal_to<uint64_t>(), ", " + std::to_string(len));
    }
  }
}

TEST(Integer, FunnelShifts) {
  const std::vector<uint64_t> by = {0, 1, 8, 31, 32, 33, 64, 0xffffffff};
  const auto shift = [](uint64_t lo, uint64_t hi, uint64_t n, bool left) {
    const U128 pair = U128{hi} << 32 | lo;
    return static_cast<uint64_t>(left ? (pair << n) >> 32 : pair >> n);
  };
  expect_instruction("shf.l.wrap.b32", "b32", {"b32", "b32", "u32"}, {kInts32, kInts32, by},
                     [=](uint64_t a, uint64_t b, uint64_t c) { return shift(a, b, c & 31, true); });
  expect_instruction("shf.r.wrap.b32", "b32", {"b32", "b32", "u32"}, {kInts32, kInts32, by},
                     [=](uint64_t a, uint64_t b, uint64_t c) { return shift(a, b, c & 31, false); });
  expect_instruction("shf.l.clamp.b32", "b32", {"b32", "b32", "u32"}, {kInts32, kInts32, by},
                     [=](uint64_t a, uint64_t b, uint64_t c) { return shift(a, b, std::min<uint64_t>(c, 32), true); });
  expect_instruction("shf.r.clamp.b32", "b32", {"b32", "b32", "u32"}, {kInts32, kInts32, by},
                     [=](uint64_t a, uint64_t b, uint64_t c) { return shift(a, b, std::min<uint64_t>(c, 32), false); });
}

TEST(Integer, PermuteBytes) {
  const std::vector<uint64_t> selectors = {0x3210, 0x7654, 0x0123, 0x4444, 0x80ff, 0x5410, 0xfedc, 0x0000, 0x9a31};
  expect_instruction("prmt.b32", "b32", {"b32", "b32", "b32"}, {kInts32, kInts32, selectors},
                     [](uint64_t a, uint64_t b, uint64_t c) {
                       uint64_t d = 0;
                       for (int i = 0; i < 4; ++i) {
                         const int nibble = c >> (4 * i) & 15;
                         uint64_t byte = (b << 32 | a) >> (8 * (nibble & 7)) & 255;
                         if (nibble & 8) byte = byte & 128 ? 255 : 0;
                         d |= byte << (8 * i);
                       }
                       return d;
                     });
  // The table of the modes, as byte numbers from the highest of d to the lowest, for selectors 0 to 3.
  const std::pair<const char*, std::array<uint32_t, 4>> modes[] = {
      {"f4e", {0x3210, 0x4321, 0x5432, 0x6543}}, {"b4e", {0x5670, 0x6701, 0x7012, 0x0123}},
      {"rc8", {0x0000, 0x1111, 0x2222, 0x3333}}, {"ecl", {0x3210, 0x3211, 0x3222, 0x3333}},
      {"ecr", {0x0000, 0x1110, 0x2210, 0x3210}}, {"rc16", {0x1010, 0x3232, 0x1010, 0x3232}}};
  for (const auto& [mode, table] : modes) {
    const auto picks = table;
    expect_instruction(std::string("prmt.b32.") + mode, "b32", {"b32", "b32", "b32"},
                       {{0x33221100}, {0x77665544}, {0, 1, 2, 3}}, [=](uint64_t, uint64_t, uint64_t c) {
                         uint64_t d = 0;
                         for (int i = 0; i < 4; ++i) d |= uint64_t{(picks[c] >> (4 * i) & 7) * 0x11} << (8 * i);
                         return d;
                       });
  }
}

TEST(Integer, ThreeInputLogic) {
  for (const int table : {0x00, 0x80, 0x96, 0xe8, 0xca, 0xfe, 0x1b}) {
    expect_instruction(
        "lop3.b32", "b32", {"b32", "b32", "b32"}, {kInts32},
        [=](uint64_t a, uint64_t b, uint64_t c) {
          uint64_t d = 0;
          for (int i = 0; i < 32; ++i) {
            const int index = static_cast<int>((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1));
            d |= static_cast<uint64_t>(table >> index & 1) << i;
          }
          return d;
        },
        std::equal_to<uint64_t>(), ", " + std::to_string(table));
  }
}

TEST(Integer, DotProducts) {
  const auto byte = [](uint64_t v, int i, bool s) {
    return s ? static_cast<int64_t>(static_cast<int8_t>(v >> (8 * i))) : static_cast<int64_t>(v >> (8 * i) & 255);
  };
  for (const bool sa : {false, true})
    for (const bool sb : {false, true})
      expect_instruction(std::string("dp4a.") + (sa ? "s32" : "u32") + (sb ? ".s32" : ".u32"), "b32",
                         {"b32", "b32", "b32"}, {kInts32}, [=](uint64_t a, uint64_t b, uint64_t c) {
                           int64_t sum = static_cast<int64_t>(c);
                           for (int i = 0; i < 4; ++i) sum += byte(a, i, sa) * byte(b, i, sb);
                           return static_cast<uint64_t>(sum);
                         });
  expect_instruction(
      "dp2a.hi.s32.u32", "b32", {"b32", "b32", "b32"}, {kInts32}, [=](uint64_t a, uint64_t b, uint64_t c) {
        return c + static_cast<uint64_t>(sx(a, 16) * byte(b, 2, false) + sx(a >> 16, 16) * byte(b, 3, false));
      });
}

TEST(Integer, CombinedComparison) {
  const std::string ptx = cell_kernel(R"(
  .reg .pred %p, %q, %r;
  .reg .u64 %x, %y;
  setp.ne.u64 %r, %c, 0;
  setp.lt.and.s64 %p|%q, %a, %b, !%r;
  selp.u64 %x, 1, 0, %p;
  selp.u64 %y, 2, 0, %q;
  or.b64 %d, %x, %y;
)");
  const Cells in = {1, 2, 0, 0, 1, 2, 1, 0, 2, 1, 0, 0, 2, 1, 1, 0};
  EXPECT_EQ(run_cells(ptx, in), (std::vector<uint64_t>{1, 0, 2, 0}));
}

TEST(Integer, PredicateLogic) {
  const std::string ptx = cell_kernel(R"(
  .reg .pred %p, %q, %r;
  setp.ne.u64 %p, %a, 0;
  setp.ne.u64 %q, %b, 0;
  and.pred %r, %p, %q;
  @%r add.u64 %d, %d, 1;
  or.pred %r, %p, %q;
  @%r add.u64 %d, %d, 2;
  xor.pred %r, %p, %q;
  @%r add.u64 %d, %d, 4;
  not.pred %r, %p;
  @%r add.u64 %d, %d, 8;
  mov.pred %r, %q;
  @!%r add.u64 %d, %d, 16;
)");
  const Cells in = {0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0};
  EXPECT_EQ(run_cells(ptx, in), (std::vector<uint64_t>{8 + 16, 2 + 4 + 8, 2 + 4 + 16, 1 + 2}));
}

// a * b + c over 128 bits by carries, as compilers print it.
TEST(Integer, ExtendedPrecision) {
  const std::string ptx = cell_kernel(R"(
  .reg .u32 %al, %ah, %bl, %bh, %sl, %sh, %t;
  mov.b64 {%al, %ah}, %a;
  mov.b64 {%bl, %bh}, %b;
  add.cc.u32 %sl, %al, %bl;
  addc.u32 %sh, %ah, %bh;
  mov.b64 %c, {%sl, %sh};
  sub.cc.u32 %sl, %al, %bl;
  subc.u32 %sh, %ah, %bh;
  mov.b64 %e, {%sl, %sh};
  mad.lo.cc.u32 %sl, %al, %bl, %ah;
  madc.hi.u32 %sh, %al, %bl, %bh;
  mov.b64 %d, {%sl, %sh};
  xor.b64 %d, %d, %c;
  xor.b64 %d, %d, %e;
)");
  Cells in;
  std::vector<uint64_t> expected;
  for (uint64_t a : kInts64)
    for (uint64_t b : kInts64) {
      in.insert(in.end(), {a, b, 0, 0});
      const uint64_t product = (a & 0xffffffff) * (b & 0xffffffff);
      expected.push_back((a + b) ^ (a - b) ^ (product + (a >> 32) + (b >> 32 << 32)));
    }
  EXPECT_EQ(run_cells(ptx, in), expected);
}

TEST(Integer, PackAndUnpack) {
  const std::string ptx = cell_kernel(R"(
  .reg .b16 %h0, %h1, %h2, %h3;
  .reg .b32 %w0, %w1;
  mov.b64 {%h0, %h1, %h2, %h3}, %a;
  mov.b32 %w0, {%h3, %h2};
  mov.b32 %w1, {%h1, %h0};
  mov.b64 %d, {%w0, %w1};
  mov.b64 {_, %w1}, %d;
  mov.b32 {%h0, _}, %w1;
  mov.b64 %c, {%h0, %h0, %h0, %h0};
  xor.b64 %d, %d, %c;
)");
  // The halves reversed, then the third of those spread over all four.
  EXPECT_EQ(run_cells(ptx, {0x4444333322221111, 0, 0, 0}),
            (std::vector<uint64_t>{0x1111222233334444 ^ 0x2222222222222222}));
}

}  // namespace
}  // namespace tilewright::sim
