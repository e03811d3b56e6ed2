#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "symbolic/expr.h"

namespace tilewright {

enum class DType : uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kF8E4M3,
  kF8E5M2,
  kI64,
  kI32,
  kI16,
  kI8,
  kU8,
  kBool,
  // Carried by calls only; no kernel is made for them.
  kC32,
  kC64,
  kC128,
  kU16,
  kU32,
  kU64,
  kOpaque,
};

const char* name(DType t);  // as in text: "bf16"
std::optional<DType> dtype_from_name(std::string_view text);
int64_t bytes(DType t);    // 0 for kOpaque
bool is_float(DType t);    // f64 f32 f16 bf16 f8*
bool is_integer(DType t);  // signed and unsigned, not bool
bool is_signed(DType t);
bool has_kernels(DType t);  // false for what only calls carry
// The type in which one operator computes: f32 for f16, bf16, f8; else the type itself.
DType compute_type(DType t);
// The nearest value of a float type, ties to even; other types leave it as it is.
double round_to(DType t, double value);
std::ostream& operator<<(std::ostream& out, DType t);

enum class TypeKind : uint8_t { kTensor, kInt, kFloat, kBool, kStr, kNone, kOpaque, kList };

struct Type {
  TypeKind kind = TypeKind::kNone;

  // kTensor
  DType dtype = DType::kF32;
  std::vector<Expr> shape;
  std::optional<std::vector<Expr>> strides;  // eager's, in elements
  std::optional<Expr> offset;                // eager's storage offset, for views
  std::string device;                        // "": the graph's target; "host": CPU memory; else as PyTorch spells it

  // kInt: its value, where known.
  std::optional<Expr> value;
  // kList
  std::vector<Type> elements;

  static Type tensor(DType dtype, std::vector<Expr> shape, std::optional<std::vector<Expr>> strides = std::nullopt);
  static Type integer(std::optional<Expr> value = std::nullopt);
  static Type of(TypeKind kind);

  bool is_tensor() const { return kind == TypeKind::kTensor; }
  int rank() const { return static_cast<int>(shape.size()); }
  Expr numel() const { return product(shape); }
  // Strides of a dense row-major tensor of this shape.
  std::vector<Expr> contiguous_strides() const;

  friend bool operator==(const Type&, const Type&) = default;
};
// Appends the text form; strides and offset may be left out.
void write(std::string& out, const Type& t, bool strides = true);
std::ostream& operator<<(std::ostream& out, const Type& t);
// Reads the text form where the reader stands; graphs and plans share it.
class Reader;
Type read_type(Reader& reader);

}  // namespace tilewright
