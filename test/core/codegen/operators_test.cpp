// Every pointwise operator of the table, with special values, against the interpreter.

#include <limits>

#include "kernel_runner.h"

namespace tilewright {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Numbers that each operator meets with every other.
std::vector<double> special_floats() {
  return {0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 7.25, -100.0, 1e-3, kInf, -kInf, kNan, 2.0, 0.75, -0.125};
}
std::vector<int64_t> special_integers(DType t) {
  if (t == DType::kBool) return {0, 1};
  const int64_t most = t == DType::kI64   ? INT64_MAX
                       : t == DType::kI32 ? INT32_MAX
                       : t == DType::kI16 ? INT16_MAX
                       : t == DType::kI8  ? INT8_MAX
                                          : UINT8_MAX;
  if (!is_signed(t)) return {0, 1, 2, 3, 7, 8, 100, most};
  return {0, 1, -1, 2, 3, -7, 8, 31, -100, most, -most - 1};
}

HostTensor values_of(DType t, size_t count, size_t stride) {
  HostTensor tensor(t, {static_cast<int64_t>(count)});
  for (size_t i = 0; i < count; ++i) {
    if (is_float(t)) {
      const std::vector<double> all = special_floats();
      tensor.floats[i] = float_of_bits(t, element_bits(t, all[i / stride % all.size()]));
    } else {
      const std::vector<int64_t> all = special_integers(t);
      tensor.ints[i] = all[i / stride % all.size()];
    }
  }
  return tensor;
}

size_t variety(DType t) { return is_float(t) ? special_floats().size() : special_integers(t).size(); }

constexpr DType kAll[] = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI64,
                          DType::kI32, DType::kI16, DType::kI8,  DType::kU8,   DType::kBool};

// A body of one operator over dense vectors; nothing where the table does not give it this element type.
std::optional<Graph> body_of(Op op, DType t, const std::vector<std::pair<std::string, Attr>>& attrs = {}) {
  Graph g("k");
  g.symbols().add({.name = "s0", .hint = 1024, .lower = 0});
  std::vector<Value*> operands;
  const int count = info(op).operands;
  for (int i = 0; i < count; ++i) {
    const DType own = op == Op::kWhere && i == 0 ? DType::kBool : t;
    operands.push_back(g.add_parameter(std::to_string(i), Type::tensor(own, {Expr::symbol("s0")})));
  }
  try {
    Node* node = g.add(op, operands, attrs);
    g.set_outputs({{{node->result()}, nullptr}});
  } catch (const UserError&) {
    return std::nullopt;
  }
  if (!verify(g).empty()) return std::nullopt;
  return g;
}

// Whether the operator takes this type; if so, its kernel is checked.
bool check(Op op, DType t, const std::vector<std::pair<std::string, Attr>>& attrs = {}) {
  std::optional<Graph> body = body_of(op, t, attrs);
  if (!body) return false;
  SCOPED_TRACE(std::string(info(op).text) + " " + name(t));
  const int count = info(op).operands;
  size_t total = 1;
  std::vector<InterpValue> inputs;
  std::vector<size_t> strides;
  inputs.reserve(count);
  strides.reserve(count);
  for (int i = 0; i < count; ++i) {
    strides.push_back(total);
    total *= variety(op == Op::kWhere && i == 0 ? DType::kBool : t);
  }
  for (int i = 0; i < count; ++i)
    inputs.push_back(InterpValue::tensor(values_of(op == Op::kWhere && i == 0 ? DType::kBool : t, total, strides[i])));
  // libdevice's functions and the host's are each a few units in the last place off.
  const bool library = is_float(t) && info(op).cost != CostClass::kAlu && info(op).cost != CostClass::kMul &&
                       info(op).cost != CostClass::kMove;
  const Tolerance extra =
      library ? Tolerance{t == DType::kF64 ? 1e-13 : 2e-6, t == DType::kF64 ? 1e-14 : 1e-7} : Tolerance{};
  KernelRunner runner(std::move(*body));
  runner.proposal.candidates.resize(1);  // operators do not depend on the schedule
  runner.check({{"s0", static_cast<int64_t>(total)}}, inputs, extra);
  return true;
}

// Division by zero and the like have no defined result in the interpreter.
bool is_integer_division(Op op) { return op == Op::kDiv || op == Op::kFloorDiv || op == Op::kMod || op == Op::kFmod; }

TEST(Operators, PointwiseWithSpecialValues) {
  int checked = 0;
#define TW_OP(id, ...)                                                                                  \
  if (Op::id != Op::kCast && Op::id != Op::kBitcast && info(Op::id).category == Category::kPointwise) { \
    for (DType t : kAll) {                                                                              \
      if (is_float(t) || !is_integer_division(Op::id)) checked += check(Op::id, t);                     \
    }                                                                                                   \
  }
#include "ir/ops.def"
#undef TW_OP
  EXPECT_GT(checked, 300);
}

TEST(Operators, IntegerDivision) {
  for (Op op : {Op::kDiv, Op::kFloorDiv, Op::kMod, Op::kFmod}) {
    for (DType t : {DType::kI64, DType::kI32, DType::kI16, DType::kI8, DType::kU8}) {
      std::optional<Graph> body = body_of(op, t);
      ASSERT_TRUE(body);
      HostTensor a(t, {64}), b(t, {64});
      const std::vector<int64_t> all = is_signed(t) ? std::vector<int64_t>{7, -7, 1, -1, 3, -3, 100, -128}
                                                    : std::vector<int64_t>{1, 2, 3, 7, 100, 200, 254, 255};
      for (int i = 0; i < 64; ++i) a.ints[i] = all[i / 8], b.ints[i] = all[i % 8];
      SCOPED_TRACE(std::string(info(op).text) + " " + name(t));
      KernelRunner(std::move(*body)).check({{"s0", 64}}, {InterpValue::tensor(a), InterpValue::tensor(b)});
    }
  }
}

TEST(Operators, CastsBetweenAllTypes) {
  for (DType from : kAll) {
    for (DType to : kAll) {
      std::optional<Graph> body = body_of(Op::kCast, from, {{"to", to}});
      ASSERT_TRUE(body);
      // In range for every type: what lies beyond is the machine's choice.
      HostTensor x(from, {9});
      for (int i = 0; i < 9; ++i) {
        const double v[] = {0, 1, 2, 3.75, 100.5, 0.25, 7, 12, 127};
        if (is_float(from)) {
          x.floats[i] = float_of_bits(from, element_bits(from, v[i]));
        } else {
          x.ints[i] = from == DType::kBool ? i % 2 : static_cast<int64_t>(v[i]);
        }
      }
      SCOPED_TRACE(std::string(name(from)) + " to " + name(to));
      KernelRunner(std::move(*body)).check({{"s0", 9}}, {InterpValue::tensor(x)});
    }
  }
}

}  // namespace
}  // namespace tilewright
