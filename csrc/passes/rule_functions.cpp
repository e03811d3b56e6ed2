#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "passes/promotion.h"
#include "passes/rule_emitter.h"

namespace tilewright {
namespace {

using Args = std::vector<RuleValue>;

const Type& tensor_type(const RuleValue& v) {
  Value* t = v.tensor();
  if (!t || !t->type.is_tensor()) throw Refused{"expected a tensor where the call has a number"};
  return t->type;
}

int64_t rule_int(const RuleValue& v) {
  const std::optional<int64_t> i = rule_expr(v).constant();
  if (!i) throw Refused{"expected a constant, found the size " + rule_expr(v).str()};
  return *i;
}

RuleValue from_exprs(const std::vector<Expr>& exprs) {
  RuleList list;
  for (const Expr& e : exprs) list.push_back({e});
  return {std::move(list)};
}

RuleValue from_ints(const std::vector<int64_t>& ints) { return from_exprs({ints.begin(), ints.end()}); }

DType rule_dtype(const RuleValue& v) {
  if (auto* t = std::get_if<DType>(&v.data)) return *t;
  return tensor_type(v).dtype;
}

const RuleList& rule_list(const RuleValue& v) {
  auto* list = std::get_if<RuleList>(&v.data);
  if (!list) throw Refused{"expected a list"};
  return *list;
}

int64_t wrap_dim(int64_t dim, int64_t rank) {
  const int64_t wrapped = dim < 0 ? dim + std::max<int64_t>(rank, 1) : dim;
  if (wrapped < 0 || wrapped >= std::max<int64_t>(rank, 1)) throw Refused{"dimension out of range"};
  return wrapped;
}

std::vector<int64_t> iota(int64_t n) {
  std::vector<int64_t> result(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) result[static_cast<size_t>(i)] = i;
  return result;
}

// dims(d, rank): sorted dimensions that a reduction takes; none and [] mean all of them. A tensor of rank 0 has none.
RuleValue reduced_dims(const RuleValue& dims, int64_t rank, bool empty_is_all) {
  if (rank == 0) return {RuleList{}};
  std::vector<int64_t> result;
  if (auto* list = std::get_if<RuleList>(&dims.data)) {
    for (const RuleValue& d : *list) result.push_back(wrap_dim(rule_int(d), rank));
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    if (result.empty() && empty_is_all) result = iota(rank);
  } else if (dims.is_none()) {
    result = iota(rank);
  } else {
    result = {wrap_dim(rule_int(dims), rank)};
  }
  return from_ints(result);
}

// clamp_index(i, size): where a slice bound falls, counted from the end when negative.
Expr clamp_index(const RuleFunctionContext& c, const Expr& i, const Expr& size) {
  const SymbolTable& symbols = c.graph.symbols();
  Expr index = i;
  const std::optional<bool> negative = symbols.known_less(i, 0);
  if (!negative) throw Refused{"sizes do not decide the sign of a slice bound"};
  if (*negative) {
    index = i + size;
    if (symbols.known_less(index, 0).value_or(true)) index = max(index, Expr(0));
  }
  const std::optional<bool> beyond = symbols.known_less(size, index);
  if (beyond && !*beyond) return index;
  return beyond ? size : min(index, size);
}

double largest_finite(DType t) {
  switch (t) {
    case DType::kF64:
      return std::numeric_limits<double>::max();
    case DType::kF32:
      return std::numeric_limits<float>::max();
    case DType::kF16:
      return 65504.0;
    case DType::kBF16:
      return std::ldexp(255.0, 120);
    default:
      throw Refused{"expected a floating-point type"};
  }
}

double epsilon(DType t) {
  switch (t) {
    case DType::kF64:
      return std::ldexp(1.0, -52);
    case DType::kF32:
      return std::ldexp(1.0, -23);
    case DType::kF16:
      return std::ldexp(1.0, -10);
    case DType::kBF16:
      return std::ldexp(1.0, -7);
    default:
      throw Refused{"expected a floating-point type"};
  }
}

struct Function {
  const char* name;
  int arguments;
  RuleValue (*call)(const RuleFunctionContext&, Args&);
};

const Type& recorded(const RuleFunctionContext& c, const RuleValue& i) {
  return c.call.results.at(static_cast<size_t>(rule_int(i)))->type;
}

// Sorted by topic; docs/decompose-rules.md lists them.
const Function kFunctions[] = {
    // Tensors.
    {"rank", 1,
     [](const RuleFunctionContext&, Args& a) {
       return RuleValue{Expr(a[0].tensor() ? a[0].tensor()->type.rank() : 0)};
     }},
    {"shape_of", 1,
     [](const RuleFunctionContext&, Args& a) {
       return a[0].tensor() ? from_exprs(tensor_type(a[0]).shape) : RuleValue{RuleList{}};
     }},
    {"size", 2,
     [](const RuleFunctionContext&, Args& a) {
       const Type& t = tensor_type(a[0]);
       return t.rank() == 0 ? RuleValue{Expr(1)}
                            : RuleValue{t.shape[static_cast<size_t>(wrap_dim(rule_int(a[1]), t.rank()))]};
     }},
    {"numel", 1, [](const RuleFunctionContext&, Args& a) { return RuleValue{tensor_type(a[0]).numel()}; }},
    {"dtype_of", 1, [](const RuleFunctionContext&, Args& a) { return RuleValue{rule_dtype(a[0])}; }},
    {"is_tensor", 1, [](const RuleFunctionContext&, Args& a) { return RuleValue{a[0].tensor() != nullptr}; }},
    // A truth value, as a tensor or a number.
    {"is_bool", 1,
     [](const RuleFunctionContext&, Args& a) {
       Value* t = a[0].tensor();
       const bool of_tensor = t && t->type.is_tensor() && t->type.dtype == DType::kBool;
       return RuleValue{of_tensor || std::holds_alternative<bool>(a[0].data)};
     }},
    // A number, perhaps of run time, or a tensor of rank 0 in CPU memory, which eager's kernels read as one.
    {"is_host_number", 1,
     [](const RuleFunctionContext&, Args& a) {
       Value* t = a[0].tensor();
       return RuleValue{a[0].is_number() || (t && (!t->type.is_tensor() || t->type.device == "host"))};
     }},
    {"result_shape", 1, [](const RuleFunctionContext& c, Args& a) { return from_exprs(recorded(c, a[0]).shape); }},
    {"result_dtype", 1, [](const RuleFunctionContext& c, Args& a) { return RuleValue{recorded(c, a[0]).dtype}; }},
    // Types.
    {"compute", 1, [](const RuleFunctionContext&, Args& a) { return RuleValue{compute_type(rule_dtype(a[0]))}; }},
    {"is_float", 1, [](const RuleFunctionContext&, Args& a) { return RuleValue{is_float(rule_dtype(a[0]))}; }},
    {"is_half", 1,
     [](const RuleFunctionContext&, Args& a) {
       return RuleValue{rule_dtype(a[0]) == DType::kF16 || rule_dtype(a[0]) == DType::kBF16};
     }},
    {"largest_finite", 1,
     [](const RuleFunctionContext&, Args& a) { return RuleValue{largest_finite(rule_dtype(a[0]))}; }},
    {"epsilon", 1, [](const RuleFunctionContext&, Args& a) { return RuleValue{epsilon(rule_dtype(a[0]))}; }},
    // Whether products of matrices may become kernels.
    {"generates_products", 0,
     [](const RuleFunctionContext& c, Args&) { return RuleValue{product_choice(c.ctx.options) != "call"}; }},
    // In which precision products of such elements are taken.
    {"matmul_precision", 1,
     [](const RuleFunctionContext& c, Args& a) {
       const bool tf32 = rule_dtype(a[0]) == DType::kF32 && c.ctx.options.float32_matmul == "tf32";
       return RuleValue{std::string(tf32 ? "tf32" : "ieee")};
     }},
    // Dimensions.
    {"dims", 2,
     [](const RuleFunctionContext&, Args& a) { return reduced_dims(a[0], rule_int(a[1]), /*empty_is_all=*/true); }},
    {"exact_dims", 2,
     [](const RuleFunctionContext&, Args& a) { return reduced_dims(a[0], rule_int(a[1]), /*empty_is_all=*/false); }},
    {"dim", 2,
     [](const RuleFunctionContext&, Args& a) { return RuleValue{Expr(wrap_dim(rule_int(a[0]), rule_int(a[1])))}; }},
    {"clamp_index", 2,
     [](const RuleFunctionContext& c, Args& a) { return RuleValue{clamp_index(c, rule_expr(a[0]), rule_expr(a[1]))}; }},
    {"wrap_index", 2,
     [](const RuleFunctionContext& c, Args& a) {
       const std::optional<bool> negative = c.graph.symbols().known_less(rule_expr(a[0]), 0);
       if (!negative) throw Refused{"sizes do not decide the sign of an index"};
       return RuleValue{*negative ? rule_expr(a[0]) + rule_expr(a[1]) : rule_expr(a[0])};
     }},
    // Whether two sizes are known to be equal; `==` refuses where that is not decided.
    {"same", 2,
     [](const RuleFunctionContext& c, Args& a) {
       return RuleValue{c.graph.symbols().known_equal(rule_expr(a[0]), rule_expr(a[1])).value_or(false)};
     }},
    // Lists.
    {"len", 1,
     [](const RuleFunctionContext&, Args& a) { return RuleValue{Expr(static_cast<int64_t>(rule_list(a[0]).size()))}; }},
    {"range", 2,
     [](const RuleFunctionContext&, Args& a) {
       std::vector<Expr> list;
       for (int64_t i = rule_int(a[0]); i < rule_int(a[1]); ++i) list.emplace_back(i);
       return from_exprs(list);
     }},
    {"filled", 2,
     [](const RuleFunctionContext&, Args& a) {
       return RuleValue{RuleList(static_cast<size_t>(rule_int(a[0])), a[1])};
     }},
    {"swapped", 3,
     [](const RuleFunctionContext&, Args& a) {
       RuleList list = rule_list(a[0]);
       if (!list.empty())
         std::swap(list.at(static_cast<size_t>(rule_int(a[1]))), list.at(static_cast<size_t>(rule_int(a[2]))));
       return RuleValue{std::move(list)};
     }},
    {"replaced", 3,
     [](const RuleFunctionContext&, Args& a) {
       RuleList list = rule_list(a[0]);
       list.at(static_cast<size_t>(rule_int(a[1]))) = a[2];
       return RuleValue{std::move(list)};
     }},
    {"interleaved", 2,
     [](const RuleFunctionContext&, Args& a) {
       RuleList list;
       for (size_t i = 0; i < rule_list(a[0]).size(); ++i) {
         list.push_back(rule_list(a[0])[i]);
         list.push_back(rule_list(a[1]).at(i));
       }
       return RuleValue{std::move(list)};
     }},
    {"product", 1, [](const RuleFunctionContext&, Args& a) { return RuleValue{product(rule_exprs(a[0]))}; }},
    // Numbers.
    {"quotient", 2,
     [](const RuleFunctionContext&, Args& a) { return RuleValue{floordiv(rule_expr(a[0]), rule_expr(a[1]))}; }},
    {"modulo", 2, [](const RuleFunctionContext&, Args& a) { return RuleValue{mod(rule_expr(a[0]), rule_expr(a[1]))}; }},
    {"to_int", 1,
     [](const RuleFunctionContext&, Args& a) { return RuleValue{Expr(static_cast<int64_t>(rule_double(a[0])))}; }},
    {"is_integral", 1,
     [](const RuleFunctionContext&, Args& a) { return RuleValue{rule_double(a[0]) == std::floor(rule_double(a[0]))}; }},
    {"power", 2,
     [](const RuleFunctionContext&, Args& a) { return RuleValue{std::pow(rule_double(a[0]), rule_double(a[1]))}; }},
};

}  // namespace

RuleValue call_rule_function(const RuleFunctionContext& context, const std::string& name,
                             std::vector<RuleValue>& args) {
  for (const Function& f : kFunctions) {
    if (name != f.name) continue;
    if (static_cast<int>(args.size()) != f.arguments) throw Refused{"wrong number of arguments for " + name};
    return f.call(context, args);
  }
  throw Refused{"no function is named '" + name + "'"};
}

bool rule_truth(const RuleValue& value) {
  if (auto* b = std::get_if<bool>(&value.data)) return *b;
  if (value.is_number()) return rule_double(value) != 0;
  throw Refused{"expected a truth value"};
}

double rule_double(const RuleValue& value) {
  if (auto* d = std::get_if<double>(&value.data)) return *d;
  if (auto* b = std::get_if<bool>(&value.data)) return *b ? 1 : 0;
  if (auto* e = std::get_if<Expr>(&value.data)) {
    if (const std::optional<int64_t> i = e->constant()) return static_cast<double>(*i);
    throw Refused{"expected a constant, found the size " + e->str()};
  }
  throw Refused{"expected a number"};
}

Expr rule_expr(const RuleValue& value) {
  if (auto* e = std::get_if<Expr>(&value.data)) return *e;
  if (auto* b = std::get_if<bool>(&value.data)) return Expr(*b ? 1 : 0);
  throw Refused{"expected an integer"};
}

std::vector<Expr> rule_exprs(const RuleValue& value) {
  std::vector<Expr> result;
  for (const RuleValue& v : rule_list(value)) result.push_back(rule_expr(v));
  return result;
}

bool rule_equal(const SymbolTable& symbols, const RuleValue& a, const RuleValue& b) {
  auto* x = std::get_if<Expr>(&a.data);
  auto* y = std::get_if<Expr>(&b.data);
  if (x && y) {
    const std::optional<bool> equal = symbols.known_equal(*x, *y);
    if (!equal) throw Refused{"sizes do not decide whether " + x->str() + " is " + y->str()};
    return *equal;
  }
  if (a.is_number() && b.is_number()) {
    if ((x && !x->constant()) || (y && !y->constant())) return false;
    return rule_double(a) == rule_double(b);
  }
  if (a.data.index() != b.data.index()) return false;
  auto* list = std::get_if<RuleList>(&a.data);
  if (!list) return a.data == b.data;
  const RuleList& other = std::get<RuleList>(b.data);
  if (list->size() != other.size()) return false;
  for (size_t i = 0; i < list->size(); ++i) {
    if (!rule_equal(symbols, (*list)[i], other[i])) return false;
  }
  return true;
}

}  // namespace tilewright
