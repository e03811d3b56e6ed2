#pragma once

#include <optional>

#include "ir/type.h"

namespace tilewright {

// PyTorch's type promotion: tensors with dimensions decide; a tensor without, then a Python number, only adds to them
// where it is of a higher kind (bool < integer < float).

// Nothing where PyTorch has none (fp8 with another type) or no kernel is made for the types.
std::optional<DType> promote(DType a, DType b);

class Promotion {
 public:
  void add_tensor(DType type, bool has_dimensions) {
    has_dimensions ? join(dimensioned_, type) : join(zero_dim_, type);
  }
  void add_number(DType type) { join(number_, type); }  // i64, f32 (PyTorch's default type) or bool
  std::optional<DType> result() const;

 private:
  void join(std::optional<DType>& into, DType type);
  std::optional<DType> dimensioned_, zero_dim_, number_;
  bool impossible_ = false;
};

}  // namespace tilewright
