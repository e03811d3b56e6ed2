#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

// Generated PTX programs. Each comes with its inputs and, where the host can tell, with the right results, computed
// here by formulas that share nothing with the simulator. The same programs run on a GPU.
namespace tilewright::sim::generated {

struct Program {
  const char* kind = "";
  std::string ptx;
  std::string entry = "k";
  uint32_t threads = 32;
  std::vector<uint64_t> in;
  std::vector<uint64_t> out;       // its contents before the launch
  std::vector<uint64_t> expected;  // empty: the host does not know
  double tolerance = 0;            // relative, of float32 results in the words of `out`; 0: bits are compared
  std::set<std::string> opcodes;
};

using Random = std::mt19937_64;

inline std::string header() { return ".version 8.5\n.target sm_90a\n.address_size 64\n"; }

inline float f32(uint64_t b) { return std::bit_cast<float>(static_cast<uint32_t>(b)); }
inline double f64(uint64_t b) { return std::bit_cast<double>(b); }
inline uint64_t bits(float x) { return std::isnan(x) ? 0x7fffffffu : std::bit_cast<uint32_t>(x); }
inline uint64_t bits(double x) { return std::isnan(x) ? 0x7ff8000000000000u : std::bit_cast<uint64_t>(x); }

// ---- scalar programs: straight code over 32- and 64-bit integers, floats, doubles and predicates -------------------

// types: of the result and the sources: r, d: 32 and 64 bits; f, g: f32 and f64; p: predicate.
struct ScalarOp {
  const char* opcode;
  const char* types;
  uint64_t (*value)(const uint64_t* a);
};

inline int32_t s32(uint64_t a) { return static_cast<int32_t>(a); }
inline int64_t s64(uint64_t a) { return static_cast<int64_t>(a); }
inline uint64_t u32(uint64_t a) { return a & 0xffffffffu; }

// Float to integer: saturates; `nan` is what NaN gives.
template <typename T, typename F>
uint64_t saturated(F x, uint64_t nan) {
  if (std::isnan(x)) return nan;
  const F low = static_cast<F>(std::numeric_limits<T>::min()), high = std::ldexp(F{1}, std::numeric_limits<T>::digits);
  const T v = x < low ? std::numeric_limits<T>::min() : x >= high ? std::numeric_limits<T>::max() : static_cast<T>(x);
  return sizeof(T) == 4 ? u32(static_cast<uint64_t>(v)) : static_cast<uint64_t>(v);
}
template <typename F>
F least(F a, F b) {  // minNum, -0 < +0
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  return a == b ? (std::signbit(a) ? a : b) : a < b ? a : b;
}

#define TW_OP(opcode, types, ...)                                            \
  ScalarOp {                                                                 \
    opcode, types, [](const uint64_t* a) -> uint64_t { return __VA_ARGS__; } \
  }

inline const std::vector<ScalarOp>& scalar_ops() {
  static const std::vector<ScalarOp> ops = {
      TW_OP("add.s32", "rrr", u32(a[0] + a[1])),
      TW_OP("sub.u32", "rrr", u32(a[0] - a[1])),
      TW_OP("mul.lo.s32", "rrr", u32(a[0] * a[1])),
      TW_OP("mul.hi.u32", "rrr", (u32(a[0]) * u32(a[1])) >> 32),
      TW_OP("mul.hi.s32", "rrr", u32(static_cast<uint64_t>((int64_t{s32(a[0])} * s32(a[1])) >> 32))),
      TW_OP("mul.wide.u32", "drr", u32(a[0]) * u32(a[1])),
      TW_OP("mul.wide.s32", "drr", static_cast<uint64_t>(int64_t{s32(a[0])} * s32(a[1]))),
      TW_OP("mad.lo.s32", "rrrr", u32(a[0] * a[1] + a[2])),
      TW_OP("mad.wide.s32", "drrd", static_cast<uint64_t>(int64_t{s32(a[0])} * s32(a[1])) + a[2]),
      TW_OP("min.s32", "rrr", u32(static_cast<uint64_t>(std::min(s32(a[0]), s32(a[1]))))),
      TW_OP("max.u32", "rrr", std::max(u32(a[0]), u32(a[1]))),
      TW_OP("abs.s32", "rr", s32(a[0]) < 0 ? u32(0 - a[0]) : a[0]),
      TW_OP("neg.s32", "rr", u32(0 - a[0])),
      TW_OP("and.b32", "rrr", a[0] & a[1]),
      TW_OP("or.b32", "rrr", a[0] | a[1]),
      TW_OP("xor.b32", "rrr", a[0] ^ a[1]),
      TW_OP("not.b32", "rr", u32(~a[0])),
      TW_OP("shl.b32", "rrr", u32(a[1]) > 31 ? 0 : u32(a[0] << u32(a[1]))),
      TW_OP("shr.u32", "rrr", u32(a[1]) > 31 ? 0 : a[0] >> u32(a[1])),
      TW_OP("shr.s32", "rrr", u32(static_cast<uint64_t>(s32(a[0]) >> std::min<uint64_t>(u32(a[1]), 31)))),
      TW_OP("shf.l.wrap.b32", "rrrr", u32(((a[1] << 32 | a[0]) << (a[2] & 31)) >> 32)),
      TW_OP("shf.r.clamp.b32", "rrrr", u32((a[1] << 32 | a[0]) >> std::min<uint64_t>(a[2], 32))),
      TW_OP("popc.b32", "rr", static_cast<uint64_t>(__builtin_popcountll(a[0]))),
      TW_OP("clz.b32", "rr", a[0] == 0 ? 32u : static_cast<uint64_t>(__builtin_clz(static_cast<uint32_t>(a[0])))),
      TW_OP("bfind.u32", "rr",
            a[0] == 0 ? 0xffffffffu : 31u - static_cast<uint64_t>(__builtin_clz(static_cast<uint32_t>(a[0])))),
      TW_OP("dp4a.s32.s32", "rrrr",
            [](const uint64_t* v) {
              uint32_t sum = static_cast<uint32_t>(v[2]);
              for (int k = 0; k < 32; k += 8)
                sum += static_cast<uint32_t>(static_cast<int8_t>(v[0] >> k) * static_cast<int8_t>(v[1] >> k));
              return uint64_t{sum};
            }(a)),
      TW_OP("sad.u32", "rrrr", u32((a[0] > a[1] ? a[0] - a[1] : a[1] - a[0]) + a[2])),
      TW_OP("prmt.b32", "rrrr",
            [](const uint64_t* v) {
              const uint64_t pool = v[1] << 32 | v[0];
              uint64_t out = 0;
              for (int k = 0; k < 4; ++k) {
                const uint64_t n = v[2] >> (4 * k) & 15, byte = pool >> (8 * (n & 7)) & 255;
                out |= (n & 8 ? (byte & 128 ? 255u : 0u) : byte) << (8 * k);
              }
              return out;
            }(a)),
      TW_OP("lop3.b32 0x96", "rrrr", a[0] ^ a[1] ^ a[2]),
      TW_OP("lop3.b32 0xe8", "rrrr", (a[0] & a[1]) | (a[0] & a[2]) | (a[1] & a[2])),
      TW_OP("div.u32", "rrr nonzero", a[0] / a[1]),
      TW_OP("rem.u32", "rrr nonzero", a[0] % a[1]),
      TW_OP("selp.b32", "rrrp", a[2] ? a[0] : a[1]),
      TW_OP("add.s64", "ddd", a[0] + a[1]),
      TW_OP("sub.s64", "ddd", a[0] - a[1]),
      TW_OP("mul.lo.s64", "ddd", a[0] * a[1]),
      TW_OP("mul.hi.u64", "ddd", static_cast<uint64_t>((static_cast<unsigned __int128>(a[0]) * a[1]) >> 64)),
      TW_OP("min.u64", "ddd", std::min(a[0], a[1])),
      TW_OP("max.s64", "ddd", static_cast<uint64_t>(std::max(s64(a[0]), s64(a[1])))),
      TW_OP("xor.b64", "ddd", a[0] ^ a[1]),
      TW_OP("shl.b64", "ddr", u32(a[1]) > 63 ? 0 : a[0] << u32(a[1])),
      TW_OP("shr.s64", "ddr", static_cast<uint64_t>(s64(a[0]) >> std::min<uint64_t>(u32(a[1]), 63))),
      TW_OP("popc.b64", "rd", static_cast<uint64_t>(__builtin_popcountll(a[0]))),
      TW_OP("cvt.s64.s32", "dr", static_cast<uint64_t>(int64_t{s32(a[0])})),
      TW_OP("cvt.u64.u32", "dr", u32(a[0])),
      TW_OP("cvt.u32.u64", "rd", u32(a[0])),
      TW_OP("cvt.s32.s8", "rr", u32(static_cast<uint64_t>(int64_t{static_cast<int8_t>(a[0])}))),
      TW_OP("cvt.u32.u16", "rr", a[0] & 0xffff),
      TW_OP("add.rn.f32", "fff", bits(f32(a[0]) + f32(a[1]))),
      TW_OP("sub.rn.f32", "fff", bits(f32(a[0]) - f32(a[1]))),
      TW_OP("mul.rn.f32", "fff", bits(f32(a[0]) * f32(a[1]))),
      TW_OP("fma.rn.f32", "ffff", bits(std::fma(f32(a[0]), f32(a[1]), f32(a[2])))),
      TW_OP("div.rn.f32", "fff", bits(f32(a[0]) / f32(a[1]))),
      TW_OP("sqrt.rn.f32", "ff", bits(std::sqrt(f32(a[0])))),
      TW_OP("min.f32", "fff", bits(least(f32(a[0]), f32(a[1])))),
      TW_OP("max.f32", "fff", bits(-least(-f32(a[0]), -f32(a[1])))),
      TW_OP("selp.f32", "fffp", a[2] ? a[0] : a[1]),
      TW_OP("cvt.rn.f32.s32", "fr", bits(static_cast<float>(s32(a[0])))),
      TW_OP("cvt.rn.f32.u64", "fd", bits(static_cast<float>(a[0]))),
      TW_OP("cvt.rn.f32.f64", "fg", bits(static_cast<float>(f64(a[0])))),
      TW_OP("cvt.f64.f32", "gf", bits(static_cast<double>(f32(a[0])))),
      TW_OP("cvt.rzi.s32.f32", "rf", (saturated<int32_t, float>(std::trunc(f32(a[0])), 0))),
      TW_OP("cvt.rni.u32.f32", "rf", (saturated<uint32_t, float>(std::nearbyint(f32(a[0])), 0))),
      TW_OP("cvt.rmi.s64.f32", "df", (saturated<int64_t, float>(std::floor(f32(a[0])), uint64_t{1} << 63))),
      TW_OP("cvt.rpi.s32.f64", "rg", (saturated<int32_t, double>(std::ceil(f64(a[0])), 0x80000000u))),
      TW_OP("cvt.rzi.u64.f64", "dg", (saturated<uint64_t, double>(std::trunc(f64(a[0])), uint64_t{1} << 63))),
      TW_OP("cvt.rni.f32.f32", "ff", bits(std::nearbyint(f32(a[0])))),
      TW_OP("mov.b32 r<f", "rf", a[0]),
      TW_OP("mov.b32 f<r", "fr", a[0]),
      TW_OP("add.rn.f64", "ggg", bits(f64(a[0]) + f64(a[1]))),
      TW_OP("mul.rn.f64", "ggg", bits(f64(a[0]) * f64(a[1]))),
      TW_OP("fma.rn.f64", "gggg", bits(std::fma(f64(a[0]), f64(a[1]), f64(a[2])))),
      TW_OP("div.rn.f64", "ggg", bits(f64(a[0]) / f64(a[1]))),
      TW_OP("sqrt.rn.f64", "gg", bits(std::sqrt(f64(a[0])))),
      TW_OP("min.f64", "ggg", bits(least(f64(a[0]), f64(a[1])))),
      TW_OP("cvt.rn.f64.s64", "gd", bits(static_cast<double>(s64(a[0])))),
      TW_OP("setp.lt.s32", "prr", s32(a[0]) < s32(a[1])),
      TW_OP("setp.eq.b32", "prr", a[0] == a[1]),
      TW_OP("setp.gt.u64", "pdd", a[0] > a[1]),
      TW_OP("setp.lt.f32", "pff", f32(a[0]) < f32(a[1])),
      TW_OP("setp.geu.f32", "pff", !(f32(a[0]) < f32(a[1]))),
      TW_OP("setp.nan.f32", "pff", std::isunordered(f32(a[0]), f32(a[1]))),
      TW_OP("setp.neu.f64", "pgg", f64(a[0]) != f64(a[1])),
      TW_OP("and.pred", "ppp", a[0] & a[1]),
      TW_OP("xor.pred", "ppp", a[0] ^ a[1]),
      TW_OP("not.pred", "pp", !a[0]),
  };
  return ops;
}
#undef TW_OP

inline uint64_t special_or_random(char type, Random& random) {
  static constexpr uint64_t kInts[] = {
      0, 1, 2, 31, 32, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff, 0x8000000000000000, ~uint64_t{0}};
  static constexpr uint32_t kFloats[] = {0,          0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
                                         0x7fffffff, 0x7f7fffff, 0x00800000, 0x007fffff, 0x00000001, 0x80000001,
                                         0x4effffff, 0x4f000000, 0xcf000000, 0x5f000000};
  const bool special = random() % 3 == 0;
  switch (type) {
    case 'p':
      return random() & 1;
    case 'r':
      return u32(special ? kInts[random() % std::size(kInts)] : random() >> random() % 64);
    case 'd':
      return special ? kInts[random() % std::size(kInts)] : random() >> random() % 64;
    case 'f': {
      if (special) return kFloats[random() % std::size(kFloats)];
      const uint64_t b =
          random() % 2 ? u32(random())
                       : bits(std::ldexp(static_cast<float>(s32(random())), -31 + static_cast<int>(random() % 12)));
      return bits(f32(b));
    }
    default: {
      if (special) return bits(static_cast<double>(f32(kFloats[random() % std::size(kFloats)])));
      const uint64_t b =
          random() % 2 ? random()
                       : bits(std::ldexp(static_cast<double>(s64(random())), -63 + static_cast<int>(random() % 12)));
      return bits(f64(b));
    }
  }
}

inline Program scalar_program(Random& random) {
  Program p;
  p.kind = "scalar";
  const std::string types = "rdfgp";
  const char* prefix[] = {"%r", "%d", "%f", "%g", "%p"};
  constexpr uint32_t kStart = 3;  // registers of each type that hold inputs
  const auto index_of = [&](char t) { return types.find(t); };
  std::array<std::vector<std::vector<uint64_t>>, 5> values;  // [type][register][thread]
  std::string body;
  const uint32_t words = 5 * kStart;
  p.in.resize(size_t{p.threads} * words);
  for (size_t t = 0; t < 5; ++t) {
    for (uint32_t i = 0; i < kStart; ++i) {
      values[t].emplace_back(p.threads);
      const uint32_t word = static_cast<uint32_t>(t) * kStart + i;
      for (uint32_t thread = 0; thread < p.threads; ++thread)
        p.in[thread * words + word] = values[t][i][thread] = special_or_random(types[t], random);
      const std::string reg = prefix[t] + std::to_string(i), at = "[%src+" + std::to_string(8 * word) + "]";
      if (types[t] == 'p')
        body += "  ld.global.u64 %d9, " + at + ";\n  setp.ne.u64 " + reg + ", %d9, 0;\n";
      else
        body += std::string("  ld.global.") +
                (types[t] == 'r'   ? "b32 "
                 : types[t] == 'f' ? "f32 "
                 : types[t] == 'g' ? "f64 "
                                   : "b64 ") +
                reg + ", " + at + ";\n";
    }
  }
  constexpr uint32_t kRegisters = 9;
  for (uint32_t n = 6 + random() % 20; n > 0; --n) {
    const ScalarOp& op = scalar_ops()[random() % scalar_ops().size()];
    const std::string all = op.types, kinds = all.substr(0, all.find(' '));
    const size_t d = index_of(kinds[0]);
    std::string opcode = op.opcode, last;
    if (const size_t space = opcode.find(' '); space != std::string::npos) {
      last = opcode[space + 1] == '0' ? ", " + opcode.substr(space + 1) : "";
      opcode.resize(space);
    }
    p.opcodes.insert(opcode);
    std::vector<const std::vector<uint64_t>*> sources;
    std::string operands;
    // ptxas 13.0 gets lop3 with one register twice wrong where it merges it with another: or(lop3(a, b, b, 0x96), a)
    // becomes or(a, b). It takes max(a, a) for a, so that a NaN keeps its payload.
    const bool distinct = opcode.starts_with("lop3") || opcode == "min.f32" || opcode == "max.f32";
    for (size_t i = 1; i < kinds.size(); ++i) {
      const size_t t = index_of(kinds[i]);
      size_t reg = random() % values[t].size();
      while (distinct && std::find(sources.begin(), sources.end(), &values[t][reg]) != sources.end())
        reg = (reg + 1) % values[t].size();
      sources.push_back(&values[t][reg]);
      operands += ", " + (prefix[t] + std::to_string(reg));
    }
    std::vector<uint64_t> result(p.threads);
    const bool nonzero = all.size() > kinds.size();
    for (uint32_t thread = 0; thread < p.threads; ++thread) {
      uint64_t a[3] = {};
      for (size_t i = 0; i < sources.size(); ++i) a[i] = (*sources[i])[thread];
      if (nonzero) a[1] |= 1;
      result[thread] = op.value(a);
    }
    if (nonzero) {
      const size_t comma = operands.rfind(", ");
      body += "  or.b32 %r9, " + operands.substr(comma + 2) + ", 1;\n";
      operands = operands.substr(0, comma) + ", %r9";
    }
    // A new register, or the last one again; sometimes only in some lanes.
    const bool fresh = values[d].size() < kRegisters;
    const size_t reg = fresh ? values[d].size() : kRegisters - 1;
    std::string guard;
    if (!fresh && random() % 2) {
      const size_t g = random() % values[4].size();
      const bool negated = random() % 2;
      guard = std::string(negated ? "@!" : "@") + prefix[4] + std::to_string(g) + " ";
      for (uint32_t thread = 0; thread < p.threads; ++thread)
        if ((values[4][g][thread] != 0) == negated) result[thread] = values[d][reg][thread];
    }
    const std::string target = prefix[d] + std::to_string(reg);
    body += "  " + guard + opcode + " " + target + operands + last + ";\n";
    // Of an f64 NaN, which is not defined, the conversion keeps sign and payload.
    if (kinds == "fg")
      body += "  setp.nan.f32 %p9, " + target + ", " + target + ";\n  @%p9 mov.b32 " + target + ", 0x7fffffff;\n";
    if (fresh)
      values[d].push_back(std::move(result));
    else
      values[d][reg] = std::move(result);
  }
  // The newest register of each type is the result.
  p.out.assign(size_t{p.threads} * 5, 0);
  p.expected.resize(p.out.size());
  for (size_t t = 0; t < 5; ++t) {
    const size_t reg = values[t].size() - 1;
    const std::string name = prefix[t] + std::to_string(reg), at = "[%dst+" + std::to_string(8 * t) + "]";
    switch (types[t]) {
      case 'p':
        body += "  selp.u64 %d9, 1, 0, " + name + ";\n  st.global.u64 " + at + ", %d9;\n";
        break;
      case 'r':
        body += "  st.global.b32 " + at + ", " + name + ";\n";
        break;
      case 'f':
        body += "  st.global.f32 " + at + ", " + name + ";\n";
        break;
      case 'g':  // which NaN it is, is not defined
        body += "  setp.nan.f64 %p9, " + name + ", " + name + ";\n  selp.f64 %g9, 0d7FF8000000000000, " + name +
                ", %p9;\n  st.global.f64 " + at + ", %g9;\n";
        break;
      default:
        body += "  st.global.b64 " + at + ", " + name + ";\n";
    }
    for (uint32_t thread = 0; thread < p.threads; ++thread) p.expected[thread * 5 + t] = values[t][reg][thread];
  }
  p.ptx = header() +
          ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n  .reg .b64 %src, %dst, %d<10>;\n  .reg .b32 %t, "
          "%r<10>;\n  .reg .f32 %f<10>;\n  .reg .f64 %g<10>;\n  .reg .pred %p<10>;\n  ld.param.u64 %src, [in];\n  "
          "ld.param.u64 %dst, [out];\n  mov.u32 %t, %tid.x;\n  mad.wide.u32 %src, %t, " +
          std::to_string(8 * words) + ", %src;\n  mad.wide.u32 %dst, %t, 40, %dst;\n" + body + "  ret;\n}\n";
  return p;
}

// ---- collectives: shuffles, votes, matches and reductions of the lanes of a mask --------------------------------

inline Program collective_program(Random& random) {
  Program p;
  p.kind = "collective";
  const uint32_t mask = random() % 4 == 0 ? ~0u : static_cast<uint32_t>(random() | 1u << random() % 32);
  std::vector<uint32_t> x(32);
  for (uint32_t& v : x) v = static_cast<uint32_t>(random() % 3 ? random() % 4 : random());
  for (uint32_t v : x) p.in.push_back(v);
  p.out.assign(64, 77);
  p.expected = p.out;
  const auto in_mask = [&](uint32_t lane) { return mask >> lane & 1; };
  const auto each = [&](auto f) {
    for (uint32_t lane = 0; lane < 32; ++lane)
      if (in_mask(lane)) f(lane);
  };
  const std::string m = std::to_string(mask);
  std::string body;
  const uint32_t which = random() % 4;
  if (which == 0) {
    const char* modes[] = {"up", "down", "bfly", "idx"};
    const uint32_t mode = random() % 4, b = random() % 32, width = 1u << random() % 6,
                   c = (32 - width) << 8 | (mode == 0 ? 0 : 31);
    p.opcodes.insert(std::string("shfl.sync.") + modes[mode] + ".b32");
    body = std::string("  shfl.sync.") + modes[mode] + ".b32 %r1|%p1, %r0, " + std::to_string(b) + ", " +
           std::to_string(c) + ", " + m + ";\n  selp.u32 %r2, 1, 0, %p1;\n";
    // A lane outside of the mask gives no defined value: such a result is overwritten.
    std::string undefined;
    each([&](uint32_t lane) {
      const uint32_t base = lane / width * width;
      const int64_t from = mode == 0   ? int64_t{lane} - b
                           : mode == 1 ? int64_t{lane} + b
                           : mode == 2 ? int64_t{lane ^ b}
                                       : int64_t{base + b % width};
      const bool ok = mode == 0 ? from >= base : from < base + width;
      const auto j = static_cast<uint32_t>(ok ? from : lane);
      p.expected[2 * lane] = in_mask(j) ? x[j] : 5;
      p.expected[2 * lane + 1] = ok;
      if (!in_mask(j)) undefined += "  setp.eq.u32 %p2, %t, " + std::to_string(lane) + ";\n  @%p2 mov.u32 %r1, 5;\n";
    });
    body += undefined;
  } else if (which == 1) {
    const char* modes[] = {"all.pred", "any.pred", "uni.pred", "ballot.b32"};
    const uint32_t mode = random() % 4;
    p.opcodes.insert(std::string("vote.sync.") + modes[mode]);
    body = "  setp.gt.u32 %p1, %r0, 1;\n";
    body += mode == 3
                ? "  vote.sync.ballot.b32 %r1, %p1, " + m + ";\n"
                : std::string("  vote.sync.") + modes[mode] + " %p2, %p1, " + m + ";\n  selp.u32 %r1, 1, 0, %p2;\n";
    body += "  mov.u32 %r2, 0;\n";
    uint32_t ballot = 0;
    each([&](uint32_t lane) { ballot |= static_cast<uint32_t>(x[lane] > 1) << lane; });
    const uint32_t r = mode == 0   ? ballot == mask
                       : mode == 1 ? ballot != 0
                       : mode == 2 ? ballot == 0 || ballot == mask
                                   : ballot;
    each([&](uint32_t lane) {
      p.expected[2 * lane] = r;
      p.expected[2 * lane + 1] = 0;
    });
  } else if (which == 2) {
    const bool all = random() % 2;
    p.opcodes.insert(all ? "match.all.sync.b32" : "match.any.sync.b32");
    body = all ? "  match.all.sync.b32 %r1|%p1, %r0, " + m + ";\n  selp.u32 %r2, 1, 0, %p1;\n"
               : "  match.any.sync.b32 %r1, %r0, " + m + ";\n  mov.u32 %r2, 0;\n";
    each([&](uint32_t lane) {
      uint32_t same = 0;
      each([&](uint32_t j) { same |= static_cast<uint32_t>(x[j] == x[lane]) << j; });
      p.expected[2 * lane] = all ? (same == mask ? mask : 0) : same;
      p.expected[2 * lane + 1] = all && same == mask;
    });
  } else {
    const char* ops[] = {"add.u32", "min.u32", "max.u32", "min.s32", "max.s32", "and.b32", "or.b32", "xor.b32"};
    const uint32_t op = random() % 8;
    p.opcodes.insert(std::string("redux.sync.") + ops[op]);
    body = std::string("  redux.sync.") + ops[op] + " %r1, %r0, " + m + ";\n  mov.u32 %r2, 0;\n";
    bool first = true;
    uint32_t r = 0;
    each([&](uint32_t lane) {
      const uint32_t v = x[lane];
      const uint32_t results[] = {r + v,
                                  std::min(r, v),
                                  std::max(r, v),
                                  static_cast<uint32_t>(std::min(s32(r), s32(v))),
                                  static_cast<uint32_t>(std::max(s32(r), s32(v))),
                                  r & v,
                                  r | v,
                                  r ^ v};
      r = first ? v : results[op];
      first = false;
    });
    each([&](uint32_t lane) {
      p.expected[2 * lane] = r;
      p.expected[2 * lane + 1] = 0;
    });
  }
  p.ptx =
      header() +
      ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n  .reg .b64 %src, %dst;\n  .reg .b32 %t, %r<4>;\n  .reg "
      ".pred %p<4>;\n  ld.param.u64 %src, [in];\n  ld.param.u64 %dst, [out];\n  mov.u32 %t, %tid.x;\n  mad.wide.u32 "
      "%src, %t, 8, %src;\n  mad.wide.u32 %dst, %t, 16, %dst;\n  ld.global.u32 %r0, [%src];\n  shr.u32 %r3, " +
      m + ", %t;\n  and.b32 %r3, %r3, 1;\n  setp.eq.u32 %p0, %r3, 0;\n  @%p0 bra DONE;\n" + body +
      "  st.global.u32 [%dst], %r1;\n  st.global.u32 [%dst+8], %r2;\nDONE:\n  ret;\n}\n";
  return p;
}

// ---- atomics: 64 threads on 8 words, with operations whose order does not matter ----------------------------------

inline Program atomic_program(Random& random) {
  Program p;
  p.kind = "atomic";
  p.threads = 64;
  struct Op {
    const char* name;
    bool wide;
    uint64_t (*next)(uint64_t, uint64_t);
  };
  static const Op ops[] = {
      {"add.u32", false, [](uint64_t o, uint64_t v) { return u32(o + v); }},
      {"min.s32", false, [](uint64_t o, uint64_t v) { return s32(o) < s32(v) ? u32(o) : u32(v); }},
      {"max.u32", false, [](uint64_t o, uint64_t v) { return std::max(u32(o), u32(v)); }},
      {"and.b32", false, [](uint64_t o, uint64_t v) { return u32(o & v); }},
      {"or.b32", false, [](uint64_t o, uint64_t v) { return u32(o | v); }},
      {"xor.b32", false, [](uint64_t o, uint64_t v) { return u32(o ^ v); }},
      {"add.u64", true, [](uint64_t o, uint64_t v) { return o + v; }},
      {"max.s64", true, [](uint64_t o, uint64_t v) { return s64(o) > s64(v) ? o : v; }},
      {"min.u64", true, [](uint64_t o, uint64_t v) { return std::min(o, v); }},
      {"xor.b64", true, [](uint64_t o, uint64_t v) { return o ^ v; }},
      {"inc.u32", false, [](uint64_t o, uint64_t) { return o >= 100 ? 0 : o + 1; }},
      {"add.f32", false, [](uint64_t o, uint64_t v) { return bits(f32(o) + static_cast<float>(s32(v) >> 16)); }},
      {"add.f64", true, [](uint64_t o, uint64_t v) { return bits(f64(o) + static_cast<double>(s32(v) >> 16)); }},
  };
  const Op& op = ops[random() % std::size(ops)];
  const std::string name = op.name;
  const bool shared = random() % 2, is_float = name.find(".f") != std::string::npos;
  const std::string space = shared ? "shared" : "global", width = op.wide ? "b64" : "b32",
                    value = op.wide ? "%d1" : "%r1";
  p.opcodes.insert("atom." + space + "." + name);
  p.out.assign(8, 0);
  for (uint64_t& v : p.out) v = is_float ? bits(0.0f) : op.wide ? random() : u32(random());
  p.expected = p.out;
  for (uint32_t t = 0; t < p.threads; ++t) {
    const uint64_t v = random(), at = random() % 8;
    p.in.push_back(op.wide && !is_float ? v : u32(v));
    p.in.push_back(at);
    p.expected[at] = op.next(p.expected[at], p.in[2 * t]);
  }
  std::string body;
  if (is_float)
    body =
        name == "add.f32"
            ? "  ld.global.u32 %r2, [%src];\n  shr.s32 %r2, %r2, 16;\n  cvt.rn.f32.s32 %f1, %r2;\n  mov.b32 %r1, %f1;\n"
            : "  ld.global.u32 %r2, [%src];\n  shr.s32 %r2, %r2, 16;\n  cvt.rn.f64.s32 %g1, %r2;\n  mov.b64 %d1, "
              "%g1;\n";
  else
    body = name == "inc.u32" ? "  mov.u32 %r1, 100;\n" : "  ld.global." + width + " " + value + ", [%src];\n";
  const std::string operand = name == "add.f32" ? "%f1" : name == "add.f64" ? "%g1" : value;
  const std::string result = name == "add.f32" ? "%f2" : name == "add.f64" ? "%g2" : op.wide ? "%d2" : "%r2";
  if (name.find(".f") != std::string::npos && name == "add.f32") body += "  mov.b32 %f1, %r1;\n";
  const std::string act = "  atom." + space + "." + name + " " + result + ", [%at], " + operand + ";\n";
  std::string code = "  ld.global.u64 %at, [%src+8];\n  shl.b64 %at, %at, 3;\n" + body;
  if (shared)
    code =
        "  setp.lt.u32 %p1, %t, 8;\n  mad.wide.u32 %d3, %t, 8, %dst;\n  mad.wide.u32 %d4, %t, 8, %base;\n  @%p1 "
        "ld.global.b64 %d5, [%d3];\n  @%p1 st.shared.b64 [%d4], %d5;\n  bar.sync 0;\n" +
        code + "  add.s64 %at, %at, %base;\n" + act +
        "  bar.sync 0;\n  @%p1 ld.shared.b64 %d5, [%d4];\n  @%p1 st.global.b64 [%d3], %d5;\n";
  else
    code += "  add.s64 %at, %at, %dst;\n" + act;
  p.ptx = header() +
          ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n  .shared .align 8 .b8 s[64];\n  .reg .b64 %src, "
          "%dst, %at, %base, %d<6>;\n  .reg .b32 %t, %r<3>;\n  .reg .f32 %f<3>;\n  .reg .f64 %g<3>;\n  .reg .pred "
          "%p<2>;\n  ld.param.u64 %src, [in];\n  ld.param.u64 %dst, [out];\n  mov.u64 %base, s;\n  mov.u32 %t, "
          "%tid.x;\n  mad.wide.u32 %src, %t, 16, %src;\n" +
          code + "  ret;\n}\n";
  return p;
}

// ---- conversions between small floats ------------------------------------------------------------------------------

// The value of the format (mantissa bits, least exponent, greatest value) nearest to x, ties to even.
inline double nearest(double x, int mantissa, int least_exponent, double most, bool saturates) {
  if (!std::isfinite(x) && !saturates) return x;
  const double magnitude = std::fabs(x);
  const int unit =
      std::max(magnitude > 0 && std::isfinite(x) ? std::ilogb(magnitude) : least_exponent, least_exponent) - mantissa;
  double r = std::isfinite(x) ? std::ldexp(std::nearbyint(std::ldexp(magnitude, -unit)), unit) : magnitude;
  if (r > most) r = saturates ? most : HUGE_VAL;
  return std::copysign(r, x);
}

inline Program conversion_program(Random& random) {
  Program p;
  p.kind = "conversion";
  struct Format {
    const char* name;
    const char* there;
    const char* back;
    int mantissa, least;
    double most;
    bool saturates;
  };
  static const Format formats[] = {
      {"f16", "  cvt.rn.f16.f32 %h1, %f1;\n", "  cvt.f32.f16 %f2, %h1;\n", 10, -14, 65504, false},
      {"bf16", "  cvt.rn.bf16.f32 %h1, %f1;\n", "  cvt.f32.bf16 %f2, %h1;\n", 7, -126, 0x1.fep127, false},
      {"e4m3", "  cvt.rn.satfinite.e4m3x2.f32 %h1, %f3, %f1;\n",
       "  cvt.rn.f16x2.e4m3x2 %r1, %h1;\n  mov.b32 {%h2, %h3}, %r1;\n  cvt.f32.f16 %f2, %h2;\n", 3, -6, 448, true},
      {"e5m2", "  cvt.rn.satfinite.e5m2x2.f32 %h1, %f3, %f1;\n",
       "  cvt.rn.f16x2.e5m2x2 %r1, %h1;\n  mov.b32 {%h2, %h3}, %r1;\n  cvt.f32.f16 %f2, %h2;\n", 2, -14, 57344, true},
      {"f16x2", "  cvt.rn.f16x2.f32 %r1, %f3, %f1;\n  mov.b32 {%h1, %h2}, %r1;\n", "  cvt.f32.f16 %f2, %h1;\n", 10, -14,
       65504, false},
      {"tf32", "  cvt.rna.tf32.f32 %r1, %f1;\n", "  mov.b32 %f2, %r1;\n", 10, -126, 0x1.ffcp127, false},
  };
  const Format& f = formats[random() % std::size(formats)];
  const bool away = f.name == std::string("tf32");
  p.opcodes.insert(std::string("cvt ") + f.name + " and f32");
  p.out.assign(p.threads, 0);
  for (uint32_t t = 0; t < p.threads; ++t) {
    uint64_t v = special_or_random('f', random);
    if (random() % 2) v = bits(std::ldexp(static_cast<float>(s32(random())), static_cast<int>(random() % 50) - 60));
    if (std::isnan(f32(v))) v = bits(1.0f);
    p.in.push_back(v);
    const double x = f32(v);
    double r = nearest(x, f.mantissa, f.least, f.most, f.saturates);
    if (away && std::isfinite(x)) {
      const int unit = std::max(x != 0 ? std::ilogb(x) : -126, -126) - 10;
      r = std::copysign(std::ldexp(std::round(std::ldexp(std::fabs(x), -unit)), unit), x);
    }
    p.expected.push_back(bits(static_cast<float>(r)));
  }
  p.ptx = header() +
          ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n  .reg .b64 %src, %dst;\n  .reg .b32 %t, %r<2>;\n  "
          ".reg .b16 %h<4>;\n  .reg .f32 %f<4>;\n  ld.param.u64 %src, [in];\n  ld.param.u64 %dst, [out];\n  mov.u32 "
          "%t, %tid.x;\n  mad.wide.u32 %src, %t, 8, %src;\n  mad.wide.u32 %dst, %t, 8, %dst;\n  ld.global.f32 %f1, "
          "[%src];\n  mov.f32 %f3, 0f3FC00000;\n" +
          f.there + f.back + "  st.global.f32 [%dst], %f2;\n  ret;\n}\n";
  return p;
}

// ---- mma.sync ------------------------------------------------------------------------------------------------------

// Integers in bf16 or f16, whose products and sums are exact, or any numbers with a tolerance.
inline Program mma_program(Random& random) {
  Program p;
  p.kind = "mma.sync";
  const bool bf16 = random() % 2, exact = random() % 2;
  const std::string t = bf16 ? "bf16" : "f16", opcode = "mma.sync.aligned.m16n8k16.row.col.f32." + t + "." + t + ".f32";
  p.opcodes.insert(opcode);
  double a[16][16], b[16][8], c[16][8], size = 0;
  const auto number = [&] {
    const double x = exact ? static_cast<double>(static_cast<int64_t>(random() % 33) - 16)
                           : std::ldexp(static_cast<double>(s32(random())), -33);
    return nearest(x, bf16 ? 7 : 10, bf16 ? -126 : -14, bf16 ? 0x1.fep127 : 65504, false);
  };
  const auto half = [&](double x) -> uint64_t {
    const uint64_t w = bits(static_cast<float>(x));
    if (bf16) return w >> 16;
    if (x == 0) return std::signbit(x) ? 0x8000 : 0;
    const int e = std::ilogb(x);
    const double m = std::fabs(x);
    const uint64_t magnitude =
        e < -14 ? static_cast<uint64_t>(std::ldexp(m, 24))
                : static_cast<uint64_t>((e + 15) << 10) + (static_cast<uint64_t>(std::ldexp(m, 10 - e)) - 1024);
    return magnitude | (x < 0 ? 0x8000u : 0u);
  };
  for (auto& row : a)
    for (double& x : row) x = number();
  for (auto& row : b)
    for (double& x : row) x = number();
  for (auto& row : c)
    for (double& x : row) x = exact ? number() : f32(bits(static_cast<float>(number())));
  p.in.assign(32 * 10, 0);
  p.out.assign(32 * 4, 0);
  p.expected.assign(32 * 4, 0);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t g = lane / 4, q = lane % 4;
    for (uint32_t i = 0; i < 8; ++i)
      p.in[lane * 10 + i / 2] |= half(a[g + 8 * (i >> 1 & 1)][2 * q + (i & 1) + 8 * (i >> 2)]) << (16 * (i & 1));
    for (uint32_t i = 0; i < 4; ++i)
      p.in[lane * 10 + 4 + i / 2] |= half(b[2 * q + (i & 1) + 8 * (i >> 1)][g]) << (16 * (i & 1));
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t row = g + 8 * (i >> 1), column = 2 * q + (i & 1);
      p.in[lane * 10 + 6 + i] = bits(static_cast<float>(c[row][column]));
      double sum = c[row][column];
      for (int k = 0; k < 16; ++k) sum += a[row][k] * b[k][column];
      p.expected[lane * 4 + i] = bits(static_cast<float>(sum));
      size = std::max(size, std::fabs(sum));
    }
  }
  if (!exact) p.tolerance = 1e-5;  // of the largest result: hardware truncates where it aligns the products
  std::string loads, stores;
  for (int i = 0; i < 10; ++i)
    loads += "  ld.global." + std::string(i < 6 ? "b32 %r" : "f32 %f") + std::to_string(i) + ", [%src+" +
             std::to_string(8 * i) + "];\n";
  for (int i = 0; i < 4; ++i)
    stores += "  st.global.f32 [%dst+" + std::to_string(8 * i) + "], %f" + std::to_string(i) + ";\n";
  p.ptx = header() +
          ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n  .reg .b64 %src, %dst;\n  .reg .b32 %t, %r<6>;\n  "
          ".reg .f32 %f<10>;\n  ld.param.u64 %src, [in];\n  ld.param.u64 %dst, [out];\n  mov.u32 %t, %tid.x;\n  "
          "mad.wide.u32 %src, %t, 80, %src;\n  mad.wide.u32 %dst, %t, 32, %dst;\n" +
          loads + "  " + opcode + " {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f6, %f7, %f8, %f9};\n" +
          stores + "  ret;\n}\n";
  return p;
}

// ---- bulk copies ---------------------------------------------------------------------------------------------------

// In through an mbarrier, and out from another place of shared memory.
inline Program bulk_program(Random& random) {
  Program p;
  p.kind = "bulk copy";
  const uint32_t words = 2 * (1 + random() % 32), from = 2 * (random() % 8), to = 2 * (random() % 8),
                 skip = 2 * (random() % (words / 2));
  p.opcodes = {"cp.async.bulk.shared::cluster.global", "cp.async.bulk.global.shared::cta", "mbarrier"};
  for (int i = 0; i < 96; ++i) p.in.push_back(random());
  p.out.assign(96, 3);
  p.expected = p.out;
  for (uint32_t i = skip; i < words; ++i) p.expected[to + i - skip] = p.in[from + i];
  const auto n = [](uint32_t w) { return std::to_string(8 * w); };
  p.ptx = header() +
          ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n  .shared .align 128 .b8 s[1024];\n  .shared .align "
          "8 .b64 bar;\n  .reg .b64 %src, %dst;\n  .reg .b32 %t, %a;\n  .reg .pred %p, %lead;\n  ld.param.u64 %src, "
          "[in];\n  ld.param.u64 %dst, [out];\n  mov.u32 %t, %tid.x;\n  mov.u32 %a, s;\n  setp.eq.u32 %lead, %t, 0;\n  "
          "@%lead mbarrier.init.shared::cta.b64 [bar], 1;\n  fence.mbarrier_init.release.cluster;\n  bar.sync 0;\n  "
          "@%lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], " +
          n(words) + ";\n  @%lead cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%a], [%src+" +
          n(from) + "], " + n(words) +
          ", [bar];\nWAIT:\n  mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;\n  @!%p bra WAIT;\n  @%lead "
          "cp.async.bulk.global.shared::cta.bulk_group [%dst+" +
          n(to) + "], [%a+" + n(skip) + "], " + n(words - skip) +
          ";\n  @%lead cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group 0;\n  ret;\n}\n";
  return p;
}

// Program number `index` of a seed.
inline Program make_program(uint64_t seed, uint64_t index) {
  Random random(seed * 1000003 + index);
  const uint64_t which = random() % 100;
  if (which < 50) return scalar_program(random);
  if (which < 68) return collective_program(random);
  if (which < 78) return atomic_program(random);
  if (which < 90) return conversion_program(random);
  if (which < 97) return mma_program(random);
  return bulk_program(random);
}

}  // namespace tilewright::sim::generated
