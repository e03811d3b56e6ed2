#include "passes/rule_emitter.h"

#include <algorithm>
#include <cmath>

#include "passes/promotion.h"

namespace tilewright {
namespace {

// Types of the constants that PyTorch's promotion sees in a Python number.
DType number_type(const RuleValue& v) {
  if (std::holds_alternative<double>(v.data)) return DType::kF32;
  return std::holds_alternative<bool>(v.data) ? DType::kBool : DType::kI64;
}

// Whether rounding a number to the type leaves it as it is.
bool exact_in(double value, DType type) {
  if (std::isnan(value) || std::isinf(value)) return true;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  const int digits = type == DType::kBF16 ? 8 : 11;
  const double scaled = std::ldexp(fraction, digits);
  const bool in_range = type == DType::kBF16 ? exponent > -125 && exponent < 128 : exponent > -13 && exponent < 16;
  return scaled == std::floor(scaled) && (in_range || value == 0);
}

bool is_identity(const std::vector<Expr>& dims) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!dims[i].is_constant(static_cast<int64_t>(i))) return false;
  }
  return true;
}

Attr to_attr(const RuleValue& value) {
  if (auto* b = std::get_if<bool>(&value.data)) return *b;
  if (auto* e = std::get_if<Expr>(&value.data)) return *e;
  if (auto* d = std::get_if<double>(&value.data)) return *d;
  if (auto* t = std::get_if<DType>(&value.data)) return *t;
  if (auto* s = std::get_if<std::string>(&value.data)) return *s;
  return rule_exprs(value);
}

}  // namespace

RuleEmitter::RuleEmitter(Graph& graph, Node* call, std::vector<int> origins, const Context& ctx)
    : graph_(graph), call_(call), origins_(std::move(origins)), ctx_(ctx) {}

bool RuleEmitter::holds(const DecomposeRule& rule, const std::vector<RuleValue>& arguments) {
  if (!rule.condition) return true;
  try {
    rule_ = &rule;
    scope_.clear();
    choose_types(rule, arguments);
    for (size_t i = 0; i < arguments.size(); ++i) scope_[rule.parameters[i].name] = arguments[i];
    return rule_truth(evaluate(*rule.condition));
  } catch (const Refused&) {
    return false;  // not known to hold
  }
}

std::vector<Value*> RuleEmitter::apply(const DecomposeRule& rule, const std::vector<RuleValue>& arguments) {
  rule_ = &rule;
  bind(rule, arguments);
  if (!run(rule.body)) fail(0, "the rule returns nothing");
  if (returned_.size() == 1 && std::holds_alternative<RuleList>(returned_[0].data)) {
    RuleList list = std::get<RuleList>(returned_[0].data);
    returned_ = std::move(list);
  }
  if (returned_.size() != call_->results.size()) {
    fail(0, "the rule returns " + std::to_string(returned_.size()) + " values, the call has " +
                std::to_string(call_->results.size()));
  }
  std::vector<Value*> values;
  for (size_t i = 0; i < returned_.size(); ++i) {
    const Type& recorded = call_->results[i]->type;
    Value* value = recorded.is_tensor() ? finish(returned_[i], recorded) : nullptr;
    const bool shared = value && (shows_operand(value) || std::count(values.begin(), values.end(), value) > 0);
    if (shared && rule.kind != RuleKind::kView) value = emit(Op::kCopy, {value}, {});
    // A view that leaves the graph is a tensor object of its own: `y` and `y.detach()` are two.
    if (value && rule.kind == RuleKind::kView && !made(value) && call_->results[i]->output_uses > 0) {
      value = emit(Op::kReshape, {value}, {{"shape", value->type.shape}});
    }
    values.push_back(value);
  }
  return values;
}

// Whether the value is an operand of the call or an index map of one, which would share its memory.
bool RuleEmitter::shows_operand(const Value* value) const {
  while (made(value)) {
    const Node& node = *value->node;
    const bool makes_memory =
        node.op == Op::kConcat || node.op == Op::kPad || node.op == Op::kFull || node.op == Op::kIota;
    if (node.category() != Category::kView || makes_memory) return false;
    value = node.operand(0);
  }
  return true;
}

void RuleEmitter::undo() {
  for (auto it = made_.rbegin(); it != made_.rend(); ++it) graph_.erase(*it);
  made_.clear();
}

bool RuleEmitter::made(const Value* value) const {
  return std::find(made_.begin(), made_.end(), value->node) != made_.end();
}

// ---- Parameters.

void RuleEmitter::choose_types(const DecomposeRule& rule, const std::vector<RuleValue>& arguments) {
  const Type& result = call_->results[0]->type;
  operand_type_ = result.dtype;
  if (rule.kind == RuleKind::kCompare) {
    Promotion promotion;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const RuleParameter& p = rule.parameters[i];
      if (!p.tensor || p.conversion != RuleConversion::kDefault || arguments[i].is_none()) continue;
      Value* v = arguments[i].tensor();
      if (v && v->type.is_tensor()) {
        promotion.add_tensor(v->type.dtype, v->type.rank() > 0);
      } else if (v) {
        promotion.add_number(v->type.kind == TypeKind::kFloat ? DType::kF32
                             : v->type.kind == TypeKind::kInt ? DType::kI64
                                                              : DType::kBool);
      } else if (arguments[i].is_number()) {
        promotion.add_number(number_type(arguments[i]));
      }
    }
    const std::optional<DType> type = promotion.result();
    if (!type) throw Refused{"the operands' types have no common type"};
    operand_type_ = *type;
  }
  compute_type_ = rule.kind == RuleKind::kArithmetic ? compute_type(operand_type_) : operand_type_;
  scope_["R"] = {result.dtype};
  scope_["T"] = {operand_type_};
  scope_["C"] = {compute_type_};
  RuleList shape;
  for (const Expr& e : result.shape) shape.push_back({e});
  scope_["shape"] = {std::move(shape)};
  scope_["results"] = {Expr(static_cast<int64_t>(call_->results.size()))};
}

// One operator alone computes in the compute type and rounds once by itself; its numbers must survive the narrow type.
bool RuleEmitter::stays_narrow(const DecomposeRule& rule) const {
  if (rule.kind != RuleKind::kArithmetic || !rule.one_operator) return false;
  for (const RuleTerm& a : rule.body[0].terms[0].args) {
    const RuleValue* v = &a.literal;
    if (a.kind == RuleTerm::Kind::kVariable) {
      auto it = scope_.find(a.text);
      if (it == scope_.end()) return false;
      v = &it->second;
    }
    if (Value* t = v->tensor()) {
      // Read at launch, never rounded to T.
      if (!t->type.is_tensor() || (!t->type.device.empty() && t->type.dtype != operand_type_)) return false;
      continue;
    }
    if (auto* e = std::get_if<Expr>(&v->data); e && !e->constant()) return false;
    if (v->is_number() && !exact_in(rule_double(*v), operand_type_)) return false;
  }
  return true;
}

void RuleEmitter::bind(const DecomposeRule& rule, const std::vector<RuleValue>& arguments) {
  scope_.clear();
  choose_types(rule, arguments);
  for (size_t i = 0; i < arguments.size(); ++i) scope_[rule.parameters[i].name] = arguments[i];
  if (compute_type_ != operand_type_ && stays_narrow(rule)) {
    compute_type_ = operand_type_;
    scope_["C"] = {compute_type_};
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (rule.parameters[i].tensor) scope_[rule.parameters[i].name] = prepare(rule, rule.parameters[i], arguments[i]);
  }
}

RuleValue RuleEmitter::prepare(const DecomposeRule& rule, const RuleParameter& parameter, const RuleValue& value) {
  if (auto* list = std::get_if<RuleList>(&value.data)) {
    RuleList prepared;
    for (const RuleValue& v : *list) prepared.push_back(prepare(rule, parameter, v));
    return {std::move(prepared)};
  }
  if (parameter.conversion == RuleConversion::kKeep) return value;
  Value* tensor = value.tensor();
  if (parameter.conversion == RuleConversion::kCast) {
    if (tensor) return {cast(tensor, parameter.to)};
    return parameter.to == DType::kBool && value.is_number() ? RuleValue{rule_double(value) != 0} : value;
  }
  if (rule.kind == RuleKind::kPlain || rule.kind == RuleKind::kView || !tensor) return value;
  if (!tensor->type.is_tensor()) return {cast(tensor, compute_type_)};  // a Python number of run time
  // A tensor in CPU memory is a number read at launch: eager reads it in the compute type.
  if (tensor->type.device.empty()) tensor = cast(tensor, operand_type_);
  return {cast(tensor, compute_type_)};
}

// ---- Statements and expressions.

bool RuleEmitter::run(const std::vector<RuleStatement>& body) {
  for (const RuleStatement& s : body) {
    if (run(s)) return true;
  }
  return false;
}

bool RuleEmitter::run(const RuleStatement& s) {
  switch (s.kind) {
    case RuleStatement::Kind::kReturn: {
      std::vector<RuleValue> values;
      values.reserve(s.terms.size());
      for (const RuleTerm& t : s.terms) values.push_back(evaluate(t));
      returned_ = std::move(values);
      return true;
    }
    case RuleStatement::Kind::kRequire:
      if (!rule_truth(evaluate(s.terms[0]))) throw Refused{s.text};
      return false;
    case RuleStatement::Kind::kIf:
      return run(rule_truth(evaluate(s.terms[0])) ? s.body : s.otherwise);
    case RuleStatement::Kind::kFor: {
      RuleValue items = evaluate(s.terms[0]);
      for (RuleValue& item : std::get<RuleList>(items.data)) {
        scope_[s.names[0]] = item;
        if (run(s.body)) return true;
      }
      return false;
    }
    case RuleStatement::Kind::kAssign: {
      RuleValue value = evaluate(s.terms[0]);
      if (s.names.size() == 1) {
        scope_[s.names[0]] = std::move(value);
        return false;
      }
      auto* list = std::get_if<RuleList>(&value.data);
      if (!list || list->size() != s.names.size()) fail(s.line, "expected as many values as names");
      for (size_t i = 0; i < s.names.size(); ++i) scope_[s.names[i]] = (*list)[i];
      return false;
    }
  }
  return false;
}

RuleValue RuleEmitter::evaluate(const RuleTerm& term) {
  switch (term.kind) {
    case RuleTerm::Kind::kLiteral:
      return term.literal;
    case RuleTerm::Kind::kVariable: {
      auto it = scope_.find(term.text);
      if (it == scope_.end()) fail(term.line, "'" + term.text + "' is not defined");
      return it->second;
    }
    case RuleTerm::Kind::kOperator:
      return evaluate_operator(term);
    case RuleTerm::Kind::kMacro:
      return evaluate_macro(term);
    case RuleTerm::Kind::kBinary:
      return evaluate_binary(term);
    case RuleTerm::Kind::kComprehension:
      return evaluate_comprehension(term);
    case RuleTerm::Kind::kConditional:
      return evaluate(term.args[rule_truth(evaluate(term.args[0])) ? 1 : 2]);
    case RuleTerm::Kind::kFunction: {
      std::vector<RuleValue> args;
      args.reserve(term.args.size());
      for (const RuleTerm& a : term.args) args.push_back(evaluate(a));
      return call_rule_function({graph_, *call_, ctx_}, term.text, args);
    }
    case RuleTerm::Kind::kUnary: {
      RuleValue v = evaluate(term.args[0]);
      if (term.text == "not") return {!rule_truth(v)};
      if (auto* e = std::get_if<Expr>(&v.data)) return {Expr(0) - *e};
      return {-rule_double(v)};
    }
    case RuleTerm::Kind::kList: {
      RuleList list;
      for (const RuleTerm& a : term.args) list.push_back(evaluate(a));
      return {std::move(list)};
    }
    case RuleTerm::Kind::kIndex: {
      RuleValue base = evaluate(term.args[0]);
      auto* list = std::get_if<RuleList>(&base.data);
      const std::optional<int64_t> i = rule_expr(evaluate(term.args[1])).constant();
      if (!list || !i) fail(term.line, "expected a list and an integer");
      const int64_t index = *i < 0 ? *i + static_cast<int64_t>(list->size()) : *i;
      if (index < 0 || index >= static_cast<int64_t>(list->size())) fail(term.line, "index out of range");
      return (*list)[index];
    }
  }
  fail(term.line, "unknown expression");
}

RuleValue RuleEmitter::evaluate_binary(const RuleTerm& term) {
  RuleValue a = evaluate(term.args[0]);
  const std::string& op = term.text;
  if (op == "and") return rule_truth(a) ? RuleValue{rule_truth(evaluate(term.args[1]))} : RuleValue{false};
  if (op == "or") return rule_truth(a) ? RuleValue{true} : RuleValue{rule_truth(evaluate(term.args[1]))};
  RuleValue b = evaluate(term.args[1]);
  if (op == "==") return {rule_equal(graph_.symbols(), a, b)};
  if (op == "!=") return {!rule_equal(graph_.symbols(), a, b)};
  if (auto* list = std::get_if<RuleList>(&a.data); list && op == "+") {
    for (RuleValue& v : std::get<RuleList>(b.data)) list->push_back(std::move(v));
    return a;
  }
  auto* x = std::get_if<Expr>(&a.data);
  auto* y = std::get_if<Expr>(&b.data);
  if (x && y) {
    if (op == "+") return {*x + *y};
    if (op == "-") return {*x - *y};
    if (op == "*") return {*x * *y};
    if (op == "/") return {floordiv(*x, *y)};
    const bool swapped = op == ">" || op == "<=";  // a > b is b < a, a <= b is not b < a
    const std::optional<bool> less =
        swapped ? graph_.symbols().known_less(*y, *x) : graph_.symbols().known_less(*x, *y);
    if (!less) throw Refused{"sizes do not decide whether " + x->str() + " " + op + " " + y->str()};
    return {op == "<" || op == ">" ? *less : !*less};
  }
  const double l = rule_double(a), r = rule_double(b);
  if (op == "+") return {l + r};
  if (op == "-") return {l - r};
  if (op == "*") return {l * r};
  if (op == "/") return {l / r};
  return {op == "<" ? l < r : op == ">" ? l > r : op == "<=" ? l <= r : l >= r};
}

RuleValue RuleEmitter::evaluate_comprehension(const RuleTerm& term) {
  RuleValue items = evaluate(term.args[1]);
  auto* list = std::get_if<RuleList>(&items.data);
  if (!list) fail(term.line, "expected a list");
  RuleList result;
  for (RuleValue& item : *list) {
    scope_[term.text] = item;
    result.push_back(evaluate(term.args[0]));
  }
  return {std::move(result)};
}

RuleValue RuleEmitter::evaluate_macro(const RuleTerm& term) {
  Scope inner;
  for (const char* name : {"R", "T", "C", "shape", "results"}) inner[name] = scope_[name];
  const std::vector<RuleParameter>& parameters = term.macro->parameters;
  if (term.args.size() > parameters.size()) fail(term.line, "too many operands for " + term.text);
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (i >= term.args.size() && !parameters[i].initial) fail(term.line, "too few operands for " + term.text);
    inner[parameters[i].name] = i < term.args.size() ? evaluate(term.args[i]) : *parameters[i].initial;
  }
  std::swap(inner, scope_);
  if (!run(term.macro->body)) fail(term.line, term.text + " returns nothing");
  std::swap(inner, scope_);
  std::vector<RuleValue> values = std::move(returned_);
  if (values.size() == 1) return values[0];
  return {RuleList(std::move(values))};
}

// ---- Operators.

RuleValue RuleEmitter::evaluate_operator(const RuleTerm& term) {
  std::vector<RuleValue> operands;
  for (const RuleTerm& a : term.args) {
    RuleValue v = evaluate(a);
    if (auto* list = std::get_if<RuleList>(&v.data)) {
      operands.insert(operands.end(), list->begin(), list->end());
    } else {
      operands.push_back(std::move(v));
    }
  }
  std::vector<std::pair<std::string, Attr>> attrs;
  attrs.reserve(term.attrs.size());
  for (const auto& [name, value] : term.attrs) attrs.emplace_back(name, to_attr(evaluate(value)));
  try {
    if (info(term.op).category == Category::kPointwise)
      return emit_pointwise(term, std::move(operands), std::move(attrs));
    return emit_other(term, std::move(operands), std::move(attrs));
  } catch (const UserError& e) {
    fail(term.line, std::string(e.what()));
  }
}

RuleValue RuleEmitter::emit_pointwise(const RuleTerm& term, std::vector<RuleValue> operands,
                                      std::vector<std::pair<std::string, Attr>> attrs) {
  if (term.op == Op::kCast) {
    const DType to = std::get<DType>(attrs.at(0).second);
    return {cast(as_tensor(operands[0], to), to)};
  }
  DType type = compute_type_;
  const size_t first = term.op == Op::kWhere ? 1 : 0;
  for (size_t i = operands.size(); i-- > first;) {
    if (Value* v = operands[i].tensor(); v && v->type.is_tensor()) type = v->type.dtype;
  }
  std::vector<Value*> values;
  values.reserve(operands.size());
  for (size_t i = 0; i < operands.size(); ++i)
    values.push_back(as_tensor(operands[i], i < first ? DType::kBool : type));
  for (size_t i = first; i < values.size(); ++i) {
    if (values[i]->type.dtype != type) fail(term.line, std::string("operands of ") + term.text + " differ in type");
  }
  const std::vector<Expr> shape = common_shape(values);
  for (Value*& v : values) {
    if (v->type.rank() > 0) v = expand(v, shape);
  }
  if (term.op == Op::kFma && !is_float(type))
    return {emit(Op::kAdd, {emit(Op::kMul, {values[0], values[1]}, {}), values[2]}, {})};
  return {emit(term.op, std::move(values), std::move(attrs))};
}

RuleValue RuleEmitter::emit_other(const RuleTerm& term, std::vector<RuleValue> operands,
                                  std::vector<std::pair<std::string, Attr>> attrs) {
  DType type = compute_type_;
  for (size_t i = operands.size(); i-- > 0;) {
    if (Value* v = operands[i].tensor()) type = v->type.dtype;
  }
  std::vector<Value*> values;
  values.reserve(operands.size());
  for (const RuleValue& v : operands) values.push_back(as_tensor(v, type));
  const OpInfo& row = info(term.op);
  auto list = [&](std::string_view name) -> const std::vector<Expr>* {
    for (const auto& [n, a] : attrs) {
      if (n == name) return std::get_if<std::vector<Expr>>(&a);
    }
    return nullptr;
  };
  if (row.category == Category::kReduction && list("dims") && list("dims")->empty()) {  // of a tensor of rank 0
    if (term.op == Op::kArgmax || term.op == Op::kArgmin) return {as_tensor({Expr(0)}, DType::kI64)};
    if (term.op != Op::kWelford) return {values[0]};
    Value* wide = cast(values[0], compute_type(type));
    return {RuleList{{wide}, {as_tensor({0.0}, wide->type.dtype)}}};
  }
  const bool whole =
      (term.op == Op::kPermute && is_identity(*list("dims"))) ||
      ((term.op == Op::kReshape || term.op == Op::kExpand) && same_shape(*list("shape"), values[0]->type.shape)) ||
      ((term.op == Op::kSqueeze || term.op == Op::kUnsqueeze || term.op == Op::kFlip) && list("dims")->empty()) ||
      (term.op == Op::kFull && list("shape")->empty());
  if (whole) return {values[0]};
  Node* node = insert(term.op, std::move(values), std::move(attrs));
  if (node->results.size() == 1) return {node->result()};
  RuleList results;
  for (const auto& r : node->results) results.emplace_back(r.get());
  return {std::move(results)};
}

Node* RuleEmitter::insert(Op op, std::vector<Value*> operands, std::vector<std::pair<std::string, Attr>> attrs) {
  Node* node = graph_.add(op, std::move(operands), std::move(attrs), call_->loc, call_);
  node->origins = origins_;
  made_.push_back(node);
  return node;
}

Value* RuleEmitter::emit(Op op, std::vector<Value*> operands, std::vector<std::pair<std::string, Attr>> attrs,
                         int result) {
  return insert(op, std::move(operands), std::move(attrs))->result(result);
}

namespace {

// Eager's conversion of a negative number to an unsigned type.
Expr wrapped(const Expr& e, DType type) {
  const int64_t range = type == DType::kU8 ? 256 : 0;
  const int64_t value = *e.constant();
  return value < 0 && value > -range ? Expr(value + range) : e;
}

}  // namespace

Value* RuleEmitter::as_tensor(const RuleValue& value, DType type) {
  if (Value* v = value.tensor()) return v->type.is_tensor() ? v : cast(v, type);
  if (!value.is_number()) fail(0, "expected a tensor or a number");
  auto* e = std::get_if<Expr>(&value.data);
  if (e && !e->constant()) return cast(emit(Op::kSymInt, {}, {{"dtype", DType::kI64}, {"value", *e}}), type);
  Attr attr;
  if (is_float(type)) {
    attr = round_to(type, rule_double(value));
  } else if (type == DType::kBool) {
    attr = rule_double(value) != 0;
  } else {
    attr = e ? wrapped(*e, type) : Expr(static_cast<int64_t>(rule_double(value)));
  }
  return emit(Op::kConstant, {}, {{"dtype", type}, {"value", std::move(attr)}});
}

Value* RuleEmitter::cast(Value* value, DType to) {
  return value->type.is_tensor() && value->type.dtype == to ? value : emit(Op::kCast, {value}, {{"to", to}});
}

bool RuleEmitter::same_shape(const std::vector<Expr>& a, const std::vector<Expr>& b) const {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!graph_.symbols().known_equal(a[i], b[i]).value_or(false)) return false;
  }
  return true;
}

// Sizes of 1 repeat. Others are the same, if only because eager checked it: then they are spelled as the shape has
// them.
Value* RuleEmitter::expand(Value* value, const std::vector<Expr>& shape) {
  if (value->type.rank() == 0 && !shape.empty()) return emit(Op::kFull, {value}, {{"shape", shape}});
  std::vector<Expr> spelled = value->type.shape;
  const size_t added = shape.size() - spelled.size();
  for (size_t i = 0; i < spelled.size(); ++i) {
    if (!spelled[i].is_constant(1)) spelled[i] = shape[added + i];
  }
  if (spelled != value->type.shape) value = emit(Op::kReshape, {value}, {{"shape", spelled}});
  return spelled == shape ? value : emit(Op::kExpand, {value}, {{"shape", shape}});
}

std::vector<Expr> RuleEmitter::common_shape(const std::vector<Value*>& values) {
  std::vector<Expr> shape;
  for (Value* v : values) {
    const std::vector<Expr>& s = v->type.shape;
    if (s.size() > shape.size()) shape.insert(shape.begin(), s.size() - shape.size(), Expr(1));
    for (size_t i = 0; i < s.size(); ++i) {
      Expr& e = shape[shape.size() - s.size() + i];
      if (e.is_constant(1)) e = s[i];
    }
  }
  return shape;
}

Value* RuleEmitter::finish(const RuleValue& value, const Type& recorded) {
  if (value.is_none()) fail(0, "the rule gives none for a tensor");
  Value* v = cast(as_tensor(value, recorded.dtype), recorded.dtype);
  bool fits = v->type.rank() <= recorded.rank();
  const size_t missing = fits ? recorded.shape.size() - v->type.shape.size() : 0;
  for (size_t i = 0; fits && i < v->type.shape.size(); ++i) {
    fits = v->type.shape[i].is_constant(1) || same_shape({v->type.shape[i]}, {recorded.shape[i + missing]});
  }
  if (!fits) fail(0, "the rule gives a shape other than the one recorded");
  if (v->type.device != recorded.device) throw Refused{"the result lies on another device than the operands"};
  return expand(v, recorded.shape);
}

void RuleEmitter::fail(int line, const std::string& what) const {
  std::string where = rule_->where;
  if (line > 0) where = where.substr(0, where.find(':') + 1) + std::to_string(line);
  throw Refused{"rule at " + where + ": " + what};
}

}  // namespace tilewright
