#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>

#include "simulator/floats.h"

// What atom, red and their asynchronous forms compute (PTX ISA 9.7.13.5): f(old, operand, second operand, global).
namespace tilewright::sim::atomics {

// add.f32 on global memory flushes subnormals.
inline uint32_t add_f32(uint32_t o, uint32_t x, uint32_t, bool global) {
  float a = std::bit_cast<float>(o), b = std::bit_cast<float>(x);
  if (global) a = flush(a), b = flush(b);
  const float r = a + b;
  return std::bit_cast<uint32_t>(canonical(global ? flush(r) : r));
}
inline uint64_t add_f64(uint64_t o, uint64_t x, uint64_t, bool) {
  return std::bit_cast<uint64_t>(std::bit_cast<double>(o) + std::bit_cast<double>(x));
}
inline uint16_t add_f16(uint16_t o, uint16_t x, uint16_t, bool) {
  return float_to_f16(f16_to_float(o) + f16_to_float(x));
}
inline uint16_t add_bf16(uint16_t o, uint16_t x, uint16_t, bool) {
  return float_to_bf16(bf16_to_float(o) + bf16_to_float(x));
}

// minNum / maxNum of the 16-bit formats.
template <float (*Widen)(uint16_t), bool Max>
uint16_t select_16(uint16_t o, uint16_t x, uint16_t, bool) {
  const float a = Widen(o), b = Widen(x);
  if (a != a) return b != b ? kNaN16 : x;
  if (b != b) return o;
  if (a == b) return Max ? o & x : o | x;
  return (Max ? a > b : a < b) ? o : x;
}
inline float widen_f16(uint16_t h) { return f16_to_float(h); }
inline float widen_bf16(uint16_t h) { return bf16_to_float(h); }

template <auto F>
uint32_t both_halves(uint32_t o, uint32_t x, uint32_t, bool global) {
  const uint16_t lo = F(static_cast<uint16_t>(o), static_cast<uint16_t>(x), 0, global);
  const uint16_t hi = F(static_cast<uint16_t>(o >> 16), static_cast<uint16_t>(x >> 16), 0, global);
  return static_cast<uint32_t>(hi) << 16 | lo;
}

template <typename T, typename Add>
void each_integer(Add add) {
  using S = std::make_signed_t<T>;
  const std::string n = std::to_string(sizeof(T) * 8), b = ".b" + n;
  add.template operator()<T, [](T o, T x, T, bool) { return static_cast<T>(o + x); }>("add" + b);
  add.template operator()<T, [](T o, T x, T, bool) { return o < x ? o : x; }>("min.u" + n);
  add.template operator()<T, [](T o, T x, T, bool) { return o < x ? x : o; }>("max.u" + n);
  add.template operator()<T, [](T o, T x, T, bool) { return static_cast<S>(o) < static_cast<S>(x) ? o : x; }>("min.s" +
                                                                                                              n);
  add.template operator()<T, [](T o, T x, T, bool) { return static_cast<S>(o) < static_cast<S>(x) ? x : o; }>("max.s" +
                                                                                                              n);
  add.template operator()<T, [](T o, T x, T, bool) { return static_cast<T>(o & x); }>("and" + b);
  add.template operator()<T, [](T o, T x, T, bool) { return static_cast<T>(o | x); }>("or" + b);
  add.template operator()<T, [](T o, T x, T, bool) { return static_cast<T>(o ^ x); }>("xor" + b);
  add.template operator()<T, [](T o, T x, T, bool) { return static_cast<T>(o >= x ? 0 : o + 1); }>("inc.u" + n);
  add.template operator()<T, [](T o, T x, T, bool) { return static_cast<T>(o == 0 || x < o ? x : o - 1); }>("dec.u" +
                                                                                                            n);
}

template <typename T, typename Add>
void each_exchange(Add add) {
  const std::string b = ".b" + std::to_string(sizeof(T) * 8);
  add.template operator()<T, [](T, T x, T, bool) { return x; }>("exch" + b);
  add.template operator()<T, [](T o, T x, T y, bool) { return o == x ? y : o; }>("cas" + b);
}

template <auto F, typename Add>
void each_half(Add add, const std::string& op, const std::string& type) {
  add.template operator()<uint16_t, F>(op + "." + type);
  add.template operator()<uint32_t, both_halves<F>>(op + "." + type + "x2");
}

// Calls add<T, f>(name) for every operation but the exchanges, "add.b32" and its like.
template <typename Add>
void each_reduction(Add add) {
  each_integer<uint32_t>(add);
  each_integer<uint64_t>(add);
  add.template operator()<uint32_t, add_f32>("add.f32");
  add.template operator()<uint64_t, add_f64>("add.f64");
  each_half<add_f16>(add, "add", "f16");
  each_half<add_bf16>(add, "add", "bf16");
  each_half<select_16<widen_f16, false>>(add, "min", "f16");
  each_half<select_16<widen_f16, true>>(add, "max", "f16");
  each_half<select_16<widen_bf16, false>>(add, "min", "bf16");
  each_half<select_16<widen_bf16, true>>(add, "max", "bf16");
}

// On memory that other host threads change too.
template <typename T, auto F>
T update_global(T* p, T b, T c) {
  T old = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(p, &old, F(old, b, c, /*global=*/true), /*weak=*/false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_RELAXED)) {
  }
  return old;
}

}  // namespace tilewright::sim::atomics
