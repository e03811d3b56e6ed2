#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/element_program.h"

namespace tilewright {

// How an operator's element of the compute type float is computed.
enum class Form : uint8_t {
  kLibrary,
  // Few instructions, and errors that only a rounding to 16 bits hides. div, by 1 or more, without branches and almost
  // always correctly rounded; reciprocal: one unit in the last place; erf, tanh: 2^-24 absolutely, and of NaN a number.
  kShort,
  // div by the value of a row, at least 1 and below 2^100, of a dividend from 0 to 1: by the reciprocal that the row's
  // elements share. Correctly rounded but where the quotient is within 2^-22 of its spacing from the middle of two
  // numbers, or below 2^-100.
  kShared,
};

// A function of one 16-bit value whose result is rounded to the same type, as the steps of a program compute it:
//
//   %x: bf16 -> cast f32 -> ... -> cast bf16        text, without the casts: "div(x,add(1,exp(neg(x))))"
//
// All 65,536 values can be tried. Where a shorter form of some of its operators gives the same bits for
// every one of them, the function stands in the table with these operators; a test holds each row.
struct NarrowFunction {
  const char* name;
  const char* text;
  DType dtype;
  std::vector<Op> shortened;
};
const std::vector<NarrowFunction>& narrow_functions();

// The form that each step takes: the short one in functions of the table whose steps nothing else uses, the shared one
// for softmax's quotients that are rounded to 16 bits. (Their divisor, a sum of floats in whatever order, is not more
// exact than the reciprocal.)
std::vector<Form> forms_of(const ElementProgram& program);

// The text of the function that a step rounds to its type; empty where it is none of one 16-bit value.
std::string narrow_text(const ElementProgram& program, int step);

}  // namespace tilewright
