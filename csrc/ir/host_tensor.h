#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/type.h"
#include "support/error.h"

namespace tilewright {

// A tensor of the interpreter and of tests: every element widened, in row-major order.
struct HostTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<double> floats;  // float types
  std::vector<int64_t> ints;   // integers and bool

  HostTensor() = default;
  HostTensor(DType dtype, std::vector<int64_t> shape);  // zeros
  bool is_float() const { return tilewright::is_float(dtype); }
  int64_t numel() const;
  // The element as a number, whatever the type.
  double number(int64_t i) const {
    return is_float() ? floats[static_cast<size_t>(i)] : static_cast<double>(ints[static_cast<size_t>(i)]);
  }
};

// Row-major strides in elements, as PyTorch gives them (a size 0 counts as 1).
std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape);
// Elements from the first to the last that the strides reach, 0 for an empty tensor: what memory must hold.
int64_t reach(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides);

// Writes the elements to memory in the format of the type, at the strides (in elements), and reads them back.
void store(const HostTensor& tensor, const std::vector<int64_t>& strides, void* memory);
HostTensor load(DType dtype, const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                const void* memory);

// The bits of one element, and the element of bits; floats must be representable.
uint64_t element_bits(DType dtype, double value);
uint64_t element_bits(DType dtype, int64_t value);
double float_of_bits(DType dtype, uint64_t bits);
int64_t int_of_bits(DType dtype, uint64_t bits);
// The value of the type that is congruent: what integer arithmetic leaves.
int64_t wrapped(DType dtype, int64_t value);

// Values from a seed, the same on every machine: floats from -3 to 3 with a few zeros, integers from -8 to 8 (0 to 16
// unsigned), both truth values.
HostTensor random_tensor(DType dtype, std::vector<int64_t> shape, uint64_t seed);

// Whether |found - expected| <= absolute + relative * |expected| everywhere, NaN matching NaN and infinities their
// equal; the reason names the worst element and how many differ. Tensors of other types or sizes differ.
struct Tolerance {
  double relative = 0;
  double absolute = 0;
};
Verdict all_close(const HostTensor& found, const HostTensor& expected, Tolerance tolerance);
// What one operator that rounds to the type may be off: two units in the last place.
Tolerance rounding_tolerance(DType dtype);

}  // namespace tilewright
