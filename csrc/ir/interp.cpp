#include "ir/interp.h"

#include <algorithm>
#include <sstream>
#include <unordered_map>

#include "ir/interp_ops.h"

namespace tilewright {
namespace {

using Symbols = std::map<std::string, int64_t>;

std::string sizes_text(const Sizes& sizes) {
  std::string out = "[";
  for (size_t i = 0; i < sizes.size(); ++i) out += (i ? ", " : "") + std::to_string(sizes[i]);
  return out + "]";
}

// Learns symbols from `size == value` where the size is coefficient * symbol + constant.
void learn(const Expr& size, int64_t value, Symbols& symbols) {
  const std::vector<std::string> names = size.symbols();
  if (names.size() != 1 || symbols.count(names[0])) return;
  const Expr symbol = Expr::symbol(names[0]);
  const Expr constant = size.substitute({{names[0], 0}});
  const Expr slope = size.substitute({{names[0], 1}}) - constant;
  if (size != slope * symbol + constant) return;  // not linear
  const int64_t rest = value - *constant.constant();
  if (rest % *slope.constant() == 0) symbols[names[0]] = rest / *slope.constant();
}

bool is_known(const Expr& e, const Symbols& symbols) {
  const std::vector<std::string> names = e.symbols();
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) { return symbols.count(name) > 0; });
}

const HostTensor* tensor_in(const InterpValue& value) {
  const auto* tensor = std::get_if<InterpValue::Tensor>(&value.data);
  return tensor ? tensor->get() : nullptr;
}

void learn_value(const Type& type, const InterpValue& value, Symbols& symbols) {
  if (const HostTensor* tensor = tensor_in(value); tensor && type.is_tensor()) {
    for (size_t d = 0; d < type.shape.size() && d < tensor->shape.size(); ++d)
      learn(type.shape[d], tensor->shape[d], symbols);
  } else if (const auto* number = std::get_if<int64_t>(&value.data); number && type.value) {
    learn(*type.value, *number, symbols);
  }
}

void check_value(const Value& defined, const InterpValue& value, const Symbols& symbols) {
  const Type& type = defined.type;
  if (!type.is_tensor()) return;
  const HostTensor* tensor = tensor_in(value);
  std::ostringstream message;
  message << '%' << defined.name << " is " << type << ", ";
  if (!tensor) {
    message << "given is no tensor";
    throw UserError(message.str());
  }
  bool fits = tensor->dtype == type.dtype && tensor->shape.size() == type.shape.size();
  for (size_t d = 0; fits && d < type.shape.size(); ++d) {
    fits = !is_known(type.shape[d], symbols) || type.shape[d].evaluate(symbols) == tensor->shape[d];
  }
  if (fits) return;
  message << "given is " << tensor->dtype << sizes_text(tensor->shape);
  for (const auto& [name, number] : symbols) message << ' ' << name << '=' << number;
  throw UserError(message.str());
}

class Interpreter {
 public:
  Interpreter(const Graph& graph, const InterpOptions& options) : graph_(graph), options_(options) {}

  std::vector<InterpValue> run(const std::vector<InterpValue>& inputs) {
    symbols_ = bind_symbols(graph_, inputs, options_.symbols);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Value* parameter = graph_.parameters()[i];
      check_value(*parameter, inputs[i], symbols_);
      define(parameter, inputs[i]);
    }
    for (const Node* node : graph_.nodes()) {
      execute(*node);
      for (const Value* operand : node->operands) release(operand);
    }
    std::vector<InterpValue> outputs;
    for (const Output& output : graph_.outputs()) outputs.push_back(value_of(output.value));
    return outputs;
  }

 private:
  void define(const Value* value, InterpValue computed) {
    if (value->has_uses()) values_[value] = {std::move(computed), value->users.size()};
  }

  // Called once a slot: drops a value after its last use.
  void release(const Value* value) {
    const auto it = values_.find(value);
    if (--it->second.uses == 0 && value->output_uses == 0) values_.erase(it);
  }

  InterpValue value_of(const Arg& arg) const {
    if (auto* value = std::get_if<Value*>(&arg.data)) return values_.at(*value).value;
    if (auto* size = std::get_if<Expr>(&arg.data)) return {size->evaluate(symbols_)};
    if (auto* number = std::get_if<double>(&arg.data)) return {*number};
    if (auto* flag = std::get_if<bool>(&arg.data)) return {*flag};
    if (auto* text = std::get_if<std::string>(&arg.data)) return {*text};
    if (auto* tagged = std::get_if<Arg::Tagged>(&arg.data)) return {*tagged};
    if (auto* complex = std::get_if<Arg::Complex>(&arg.data)) return {*complex};
    auto* list = std::get_if<Arg::List>(&arg.data);
    if (!list) return {Arg::None{}};
    InterpValue::List out;
    for (const Arg& element : *list) out.push_back(value_of(element));
    return {std::move(out)};
  }

  Sizes sizes(const std::vector<Expr>& list) const {
    Sizes out;
    for (const Expr& e : list) out.push_back(e.evaluate(symbols_));
    return out;
  }

  void execute(const Node& node) {
    if (node.category() == Category::kCall || node.category() == Category::kHost) return call(node);
    std::vector<HostTensor> scalars;  // numbers that `cast` takes, as tensors
    std::vector<const HostTensor*> operands;
    scalars.reserve(node.operands.size());
    for (const Value* operand : node.operands) {
      const InterpValue& value = values_.at(operand).value;
      if (!tensor_in(value)) scalars.push_back(scalar(value));
      operands.push_back(tensor_in(value) ? tensor_in(value) : &scalars.back());
    }
    std::vector<HostTensor> results = compute(node, operands);
    for (size_t i = 0; i < results.size(); ++i)
      define(node.results[i].get(), InterpValue::tensor(std::move(results[i])));
  }

  static HostTensor scalar(const InterpValue& value) {
    if (auto* number = std::get_if<double>(&value.data)) {
      HostTensor out(DType::kF64, {});
      out.floats[0] = *number;
      return out;
    }
    const auto* flag = std::get_if<bool>(&value.data);
    HostTensor out(flag ? DType::kBool : DType::kI64, {});
    out.ints[0] = flag ? *flag : std::get<int64_t>(value.data);
    return out;
  }

  std::vector<HostTensor> compute(const Node& node, const std::vector<const HostTensor*>& operands) const {
    const Sizes shape = sizes(node.type().shape);
    switch (node.category()) {
      case Category::kConstant:
        return {constant(node)};
      case Category::kPointwise:
        return {interp_pointwise(node, operands, shape, options_.mode)};
      case Category::kReduction:
        return interp_reduction(node, *operands[0], shape, options_.mode);
      case Category::kContraction:
        return {interp_matmul(node, *operands[0], *operands[1], shape, options_.mode)};
      case Category::kView:
        return {interp_view(node, operands, view_sizes(node, shape))};
      default:
        break;
    }
    throw InternalError(std::string("interpreter: no case for ") + node.info().text);
  }

  HostTensor constant(const Node& node) const {
    HostTensor out(node.attr_dtype("dtype"), {});
    const Attr& value = *node.find_attr("value");
    if (auto* number = std::get_if<double>(&value))
      out.floats[0] = *number;
    else if (auto* flag = std::get_if<bool>(&value))
      out.ints[0] = *flag;
    else if (out.is_float())
      out.floats[0] = static_cast<double>(std::get<Expr>(value).evaluate(symbols_));
    else
      out.ints[0] = wrapped(out.dtype, std::get<Expr>(value).evaluate(symbols_));
    return out;
  }

  ViewSizes view_sizes(const Node& node, const Sizes& shape) const {
    ViewSizes out;
    out.shape = shape;
    if (node.op == Op::kSlice) {
      out.start = node.attr_expr("start").evaluate(symbols_);
      out.step = node.attr_expr("step").evaluate(symbols_);
    }
    if (node.op == Op::kSelect) out.index = node.attr_expr("index").evaluate(symbols_);
    if (node.op == Op::kPad) out.low = sizes(node.attr_exprs("low"));
    return out;
  }

  void call(const Node& node) {
    if (!options_.call) {
      throw UserError("no way to run '" + print(node) + "' here: the interpreter runs no calls by itself");
    }
    std::vector<InterpValue> args;
    std::vector<std::pair<std::string, InterpValue>> kwargs;
    args.reserve(node.args.size());
    kwargs.reserve(node.kwargs.size());
    for (const Arg& arg : node.args) args.push_back(value_of(arg));
    for (const auto& [name, arg] : node.kwargs) kwargs.emplace_back(name, value_of(arg));
    std::vector<InterpValue> results = options_.call(node, args, kwargs);
    TW_CHECK(results.size() == node.results.size())
        << node.callee << " gave " << results.size() << " values, expected " << node.results.size();
    for (size_t i = 0; i < results.size(); ++i) {
      learn_value(node.results[i]->type, results[i], symbols_);
      check_value(*node.results[i], results[i], symbols_);
      define(node.results[i].get(), std::move(results[i]));
    }
  }

  struct Live {
    InterpValue value;
    size_t uses;  // slots that have yet to read it
  };

  const Graph& graph_;
  const InterpOptions& options_;
  Symbols symbols_;
  std::unordered_map<const Value*, Live> values_;
};

// Elements that share memory by their strides (a broadcast parameter) are equal.
HostTensor random_input(const Type& type, const Symbols& symbols, uint64_t seed) {
  Sizes shape, strides;
  for (const Expr& size : type.shape) shape.push_back(size.evaluate(symbols));
  HostTensor tensor = random_tensor(type.dtype, shape, seed);
  if (!type.strides) return tensor;
  for (const Expr& stride : *type.strides) strides.push_back(stride.evaluate(symbols));
  std::vector<char> memory(static_cast<size_t>(reach(shape, strides) * bytes(type.dtype)));
  store(tensor, strides, memory.data());
  return load(type.dtype, shape, strides, memory.data());
}

}  // namespace

const HostTensor& InterpValue::tensor() const {
  const HostTensor* found = tensor_in(*this);
  TW_CHECK(found) << "a value that is no tensor";
  return *found;
}

std::vector<InterpValue> interpret(const Graph& graph, const std::vector<InterpValue>& inputs,
                                   const InterpOptions& options) {
  return Interpreter(graph, options).run(inputs);
}

Symbols bind_symbols(const Graph& graph, const std::vector<InterpValue>& inputs, Symbols known) {
  const std::vector<Value*>& parameters = graph.parameters();
  if (inputs.size() != parameters.size()) {
    throw UserError("@" + graph.name() + " takes " + std::to_string(parameters.size()) + " inputs, given are " +
                    std::to_string(inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) learn_value(parameters[i]->type, inputs[i], known);
  return known;
}

std::vector<InterpValue> random_inputs(const Graph& graph, const Symbols& symbols, uint64_t seed) {
  std::vector<InterpValue> inputs;
  for (const Value* parameter : graph.parameters()) {
    const Type& type = parameter->type;
    const uint64_t own_seed = seed + inputs.size();
    switch (type.kind) {
      case TypeKind::kTensor:
        inputs.push_back(InterpValue::tensor(random_input(type, symbols, own_seed)));
        break;
      case TypeKind::kInt:
        inputs.push_back({type.value ? type.value->evaluate(symbols) : int64_t{3}});
        break;
      case TypeKind::kFloat:
        inputs.push_back({random_tensor(DType::kF64, {}, own_seed).floats[0]});
        break;
      case TypeKind::kBool:
        inputs.push_back({own_seed % 2 == 0});
        break;
      default:
        throw UserError("no random value for parameter %" + parameter->name);
    }
  }
  return inputs;
}

}  // namespace tilewright
