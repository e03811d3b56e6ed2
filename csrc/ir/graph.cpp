#include "ir/graph.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <unordered_map>

#include "ir/shape_rules.h"
#include "support/reader.h"

namespace tilewright {
namespace {

struct NameHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
template <typename T>
using NameMap = std::unordered_map<std::string, T, NameHash, std::equal_to<>>;

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

// The nearest name that the text form can spell.
std::string spelled(std::string name) {
  if (name.empty() || is_word(name) || is_number(name)) return name;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') c = '_';
  }
  return is_word(name) ? name : "_" + name;
}

std::unique_ptr<Value> make_value(Node* node, int index, Type type) {
  auto value = std::make_unique<Value>();
  value->node = node;
  value->index = index;
  value->type = std::move(type);
  return value;
}

std::vector<Value*> values_of(const std::vector<Arg>& args, const std::vector<std::pair<std::string, Arg>>& kwargs) {
  std::vector<Value*> out;
  const auto collect = [&](Value* value) { out.push_back(value); };
  for (const Arg& arg : args) for_each_value(arg, collect);
  for (const auto& [name, arg] : kwargs) for_each_value(arg, collect);
  return out;
}

// Puts attributes into the table's order; what the table lacks stays at the end, for check_attrs to refuse.
void sort_attrs(const OpInfo& info, std::vector<std::pair<std::string, Attr>>& attrs) {
  const auto position = [&](const std::string& name) {
    return std::find_if(info.attrs.begin(), info.attrs.end(), [&](const AttrInfo& a) { return a.name == name; });
  };
  std::stable_sort(attrs.begin(), attrs.end(),
                   [&](const auto& a, const auto& b) { return position(a.first) < position(b.first); });
}

void remove_one_user(Value* value, Node* user) {
  const auto it = std::find(value->users.begin(), value->users.end(), user);
  TW_CHECK(it != value->users.end()) << "%" << value->name << " does not know its user";
  value->users.erase(it);
}

}  // namespace

struct Graph::Impl {
  std::vector<std::unique_ptr<Node>> parameter_nodes;
  NameMap<Value*> names;
  NameMap<int> next_suffix;  // for names that were taken
  int next_number = 0;       // for values without a name
  mutable bool indexed = false;

  std::string unique(std::string wanted) {
    wanted = spelled(std::move(wanted));
    if (!wanted.empty() && names.find(wanted) == names.end()) return wanted;
    if (wanted.empty() || is_number(wanted)) {
      while (names.count(std::to_string(next_number))) ++next_number;
      return std::to_string(next_number++);
    }
    int& suffix = next_suffix[wanted];
    std::string name;
    do {
      name = wanted + "_" + std::to_string(++suffix);
    } while (names.count(name));
    return name;
  }

  void name(Value* value, std::string wanted) {
    value->name = unique(std::move(wanted));
    names.emplace(value->name, value);
  }
};

Graph::Graph(std::string name) : name_(std::move(name)), impl_(std::make_unique<Impl>()) {}
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&& other) noexcept {
  // Nodes go in reverse order of the members they are kept in: none is asked for its operands again.
  name_ = std::move(other.name_);
  symbols_ = std::move(other.symbols_);
  parameters_ = std::move(other.parameters_);
  outputs_ = std::move(other.outputs_);
  nodes_ = std::move(other.nodes_);
  impl_ = std::move(other.impl_);
  return *this;
}
Graph::~Graph() = default;

Graph Graph::clone() const {
  Graph out(name_);
  out.symbols_ = symbols_;
  std::unordered_map<const Value*, Value*> copies;
  for (const Value* parameter : parameters_) {
    copies[parameter] = out.add_parameter(parameter->name, parameter->type);
    copies[parameter]->node->loc = parameter->node->loc;
  }
  const auto to_copy = [&](Value*& value) { value = copies.at(value); };
  for (const auto& node : nodes_) {
    auto copy = std::make_unique<Node>();
    copy->op = node->op;
    copy->operands = node->operands;
    copy->attrs = node->attrs;
    copy->loc = node->loc;
    copy->callee = node->callee;
    copy->args = node->args;
    copy->kwargs = node->kwargs;
    copy->origins = node->origins;
    for (Value*& operand : copy->operands) to_copy(operand);
    for (Arg& arg : copy->args) for_each_value(arg, to_copy);
    for (auto& [name, arg] : copy->kwargs) for_each_value(arg, to_copy);
    std::vector<std::string> names;
    for (const auto& result : node->results) {
      copy->results.push_back(make_value(copy.get(), result->index, result->type));
      copies[result.get()] = copy->results.back().get();
      names.push_back(result->name);
    }
    out.link(std::move(copy), nullptr, std::move(names));
  }
  std::vector<Output> outputs = outputs_;
  for (Output& output : outputs) {
    for_each_value(output.value, to_copy);
    if (output.into) to_copy(output.into);
  }
  out.set_outputs(std::move(outputs));
  out.impl_->next_suffix = impl_->next_suffix;
  out.impl_->next_number = impl_->next_number;
  return out;
}

std::vector<Node*> Graph::nodes() const {
  std::vector<Node*> out;
  out.reserve(nodes_.size());
  for (const auto& node : nodes_) out.push_back(node.get());
  return out;
}

Value* Graph::find(std::string_view name) const {
  const auto it = impl_->names.find(name);
  return it == impl_->names.end() ? nullptr : it->second;
}

Value* Graph::add_parameter(std::string name, Type type) {
  auto node = std::make_unique<Node>();
  node->op = Op::kParameter;
  node->results.push_back(make_value(node.get(), 0, std::move(type)));
  Value* value = node->result();
  impl_->name(value, std::move(name));
  impl_->parameter_nodes.push_back(std::move(node));
  parameters_.push_back(value);
  return value;
}

void Graph::set_outputs(std::vector<Output> outputs) {
  const auto count = [](const std::vector<Output>& list, int by) {
    for (const Output& output : list) {
      for_each_value(output.value, [&](Value* value) { value->output_uses += by; });
      if (output.into) output.into->output_uses += by;
    }
  };
  count(outputs_, -1);
  outputs_ = std::move(outputs);
  count(outputs_, 1);
}

Node* Graph::link(std::unique_ptr<Node> node, Node* before, std::vector<std::string> names) {
  Node* raw = node.get();
  const auto at = before ? before->position_ : nodes_.end();
  raw->position_ = nodes_.insert(at, std::move(node));
  if (before || nodes_.size() == 1) {
    impl_->indexed = false;
  } else if (impl_->indexed) {
    raw->index_ = static_cast<int>(nodes_.size()) - 1;
  }
  for (Value* operand : raw->operands) operand->users.push_back(raw);
  names.resize(raw->results.size());
  for (size_t i = 0; i < names.size(); ++i) impl_->name(raw->results[i].get(), std::move(names[i]));
  return raw;
}

Node* Graph::add(Op op, std::vector<Value*> operands, std::vector<std::pair<std::string, Attr>> attrs, LocPtr loc,
                 Node* before, std::string result_name) {
  auto node = std::make_unique<Node>();
  node->op = op;
  node->operands = std::move(operands);
  sort_attrs(node->info(), attrs);
  node->attrs = std::move(attrs);
  node->loc = std::move(loc);
  std::vector<Type> types = infer_types(*node, symbols_);
  std::vector<std::string> names;
  for (size_t i = 0; i < types.size(); ++i) {
    node->results.push_back(make_value(node.get(), static_cast<int>(i), std::move(types[i])));
    names.push_back(i == 0 || result_name.empty() ? result_name : result_name + "_" + std::to_string(i));
  }
  return link(std::move(node), before, std::move(names));
}

Node* Graph::add_typed(Op op, std::vector<Value*> operands, std::vector<std::pair<std::string, Attr>> attrs,
                       std::vector<Type> results, LocPtr loc, Node* before, std::vector<std::string> names) {
  auto node = std::make_unique<Node>();
  node->op = op;
  node->operands = std::move(operands);
  node->attrs = std::move(attrs);
  node->loc = std::move(loc);
  for (size_t i = 0; i < results.size(); ++i) {
    node->results.push_back(make_value(node.get(), static_cast<int>(i), std::move(results[i])));
  }
  return link(std::move(node), before, std::move(names));
}

Node* Graph::add_call(std::string callee, std::vector<Arg> args, std::vector<std::pair<std::string, Arg>> kwargs,
                      std::vector<Type> results, LocPtr loc, Node* before, Op op, std::vector<std::string> names) {
  TW_CHECK(op == Op::kCall || op == Op::kHost) << "add_call of " << tilewright::info(op).text;
  auto node = std::make_unique<Node>();
  node->op = op;
  node->callee = std::move(callee);
  node->args = std::move(args);
  node->kwargs = std::move(kwargs);
  node->operands = values_of(node->args, node->kwargs);
  node->loc = std::move(loc);
  for (size_t i = 0; i < results.size(); ++i) {
    node->results.push_back(make_value(node.get(), static_cast<int>(i), std::move(results[i])));
  }
  return link(std::move(node), before, std::move(names));
}

Value* Graph::constant(DType dtype, double value, Node* before) {
  if (is_integer(dtype)) {
    TW_CHECK(std::fabs(value) <= 9007199254740992.0) << "constant " << value << " of " << dtype;
    return constant_int(dtype, static_cast<int64_t>(value), before);
  }
  std::vector<std::pair<std::string, Attr>> attrs;
  attrs.emplace_back("dtype", dtype);
  if (dtype == DType::kBool) {
    attrs.emplace_back("value", value != 0);
  } else {
    attrs.emplace_back("value", round_to(dtype, value));
  }
  return add(Op::kConstant, {}, std::move(attrs), nullptr, before)->result();
}

Value* Graph::constant_int(DType dtype, int64_t value, Node* before) {
  if (!is_integer(dtype)) return constant(dtype, static_cast<double>(value), before);
  return add(Op::kConstant, {}, {{"dtype", dtype}, {"value", Expr(value)}}, nullptr, before)->result();
}

void Graph::replace_all_uses(Value* from, Value* to) {
  if (from == to) return;
  const std::vector<Node*> users = std::move(from->users);
  from->users.clear();
  for (Node* user : users) {  // a user with two slots comes twice; the second time nothing is left to do
    std::replace(user->operands.begin(), user->operands.end(), from, to);
    const auto change = [&](Value*& value) {
      if (value == from) value = to;
    };
    for (Arg& arg : user->args) for_each_value(arg, change);
    for (auto& [name, arg] : user->kwargs) for_each_value(arg, change);
    to->users.push_back(user);
  }
  for (Output& output : outputs_) {
    for_each_value(output.value, [&](Value*& value) {
      if (value != from) return;
      value = to;
      --from->output_uses;
      ++to->output_uses;
    });
  }
}

void Graph::replace_operand(Node* user, int slot, Value* to) {
  Value* from = user->operands.at(static_cast<size_t>(slot));
  remove_one_user(from, user);
  user->operands[static_cast<size_t>(slot)] = to;
  to->users.push_back(user);
  int next = 0;
  const auto change = [&](Value*& value) {
    if (next++ == slot) value = to;
  };
  for (Arg& arg : user->args) for_each_value(arg, change);
  for (auto& [name, arg] : user->kwargs) for_each_value(arg, change);
}

void Graph::erase(Node* node) {
  TW_CHECK(node->op != Op::kParameter) << "parameters stay";
  for (const auto& result : node->results) {
    TW_CHECK(!result->has_uses()) << "erase of %" << result->name << ", which has uses";
    impl_->names.erase(result->name);
  }
  for (Value* operand : node->operands) remove_one_user(operand, node);
  nodes_.erase(node->position_);
  impl_->indexed = false;
}

void Graph::erase_dead(const std::function<bool(const Node&)>& has_effect) {
  const auto stays = [&](const Node& node) {
    if (has_effect) return has_effect(node);
    return node.category() == Category::kCall || node.category() == Category::kHost;
  };
  const std::vector<Node*> all = nodes();
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    const auto& results = (*it)->results;
    const bool used = std::any_of(results.begin(), results.end(), [](const auto& r) { return r->has_uses(); });
    if (!used && !stays(**it)) erase(*it);
  }
}

int Graph::index(const Node* node) const {
  if (node->op == Op::kParameter) return -1;
  if (!impl_->indexed) {
    int next = 0;
    for (const auto& each : nodes_) each->index_ = next++;
    impl_->indexed = true;
  }
  return node->index_;
}

void Graph::rename(Value* value, std::string name) {
  if (name == value->name) return;
  impl_->names.erase(value->name);
  impl_->name(value, std::move(name));
}

}  // namespace tilewright
