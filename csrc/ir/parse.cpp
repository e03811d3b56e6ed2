// Reads the text form of a graph (docs/graph-ir.md). What is wrong with the meaning is the verifier's matter; here
// only what cannot be made into a graph is an error.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/graph.h"
#include "ir/shape_rules.h"
#include "support/reader.h"

namespace tilewright {
namespace {

// The hint of a symbol that the text uses without declaring it.
constexpr int64_t kDefaultHint = 16;

bool is_tag(std::string_view word) {
  return word == "dtype" || word == "device" || word == "layout" || word == "memory_format" || word == "generator";
}

std::vector<Expr> read_exprs(Reader& reader) {
  std::vector<Expr> out;
  reader.expect("[");
  while (!reader.take("]")) {
    if (!out.empty()) reader.expect(",");
    out.push_back(read_expr(reader));
  }
  return out;
}

class GraphReader {
 public:
  explicit GraphReader(Reader& reader) : reader_(reader) {}
  Graph read();

 private:
  struct Statement {
    Token at;
    std::vector<std::string> names;
    std::optional<std::vector<Type>> types;
    int loc = -1;
    std::vector<int> origins;
  };

  void read_header();
  std::optional<std::vector<Type>> read_output_types();
  void read_symbols();
  void read_symbol();
  void read_statement();
  void read_call(Statement& statement, Op op);
  void read_native(Statement& statement, std::string_view op_name);
  void read_statement_end(Statement& statement);
  void read_suffixes(Statement& statement);
  void finish(Node* node, const Statement& statement);
  void read_return();
  void read_locs();
  void check_output_types(const Token& at, const std::vector<Type>& written);

  std::string read_value_name();
  Value* read_value();
  Expr size();
  std::vector<Expr> sizes();
  Type type();
  Attr attr(AttrKind kind);
  Arg arg();
  Arg word_arg();
  void note(const Expr& e);
  void note(const Type& t);
  void declare_pending();

  Reader& reader_;
  Graph graph_;
  std::vector<std::string> pending_;  // symbols seen and not yet in the table, by first appearance
  std::unordered_set<std::string> seen_;
  bool in_body_ = false;
  std::unordered_map<int, std::vector<Node*>> located_;
};

std::string GraphReader::read_value_name() {
  reader_.expect("%");
  const Token token = reader_.peek();
  if (token.spaced || (token.kind != TokenKind::kWord && token.kind != TokenKind::kInteger)) {
    reader_.fail_expected("a value's name after '%'");
  }
  return std::string(reader_.next().text);
}

Value* GraphReader::read_value() {
  const Token at = reader_.peek();
  const std::string name = read_value_name();
  Value* value = graph_.find(name);
  if (!value) reader_.fail_at(at, "%" + name + " is not defined before this");
  return value;
}

void GraphReader::note(const Expr& e) {
  if (e.constant()) return;
  for (std::string& name : e.symbols()) {
    if (seen_.insert(name).second) pending_.push_back(std::move(name));
  }
  if (in_body_) declare_pending();
}

void GraphReader::note(const Type& t) {
  for (const Expr& e : t.shape) note(e);
  if (t.strides) {
    for (const Expr& e : *t.strides) note(e);
  }
  if (t.offset) note(*t.offset);
  if (t.value) note(*t.value);
  for (const Type& element : t.elements) note(element);
}

void GraphReader::declare_pending() {
  for (std::string& name : pending_) {
    if (graph_.symbols().find(name)) continue;
    Symbol symbol;
    symbol.name = std::move(name);
    symbol.hint = kDefaultHint;
    graph_.symbols().add(std::move(symbol));
  }
  pending_.clear();
}

Expr GraphReader::size() {
  Expr e = read_expr(reader_);
  note(e);
  return e;
}

std::vector<Expr> GraphReader::sizes() {
  std::vector<Expr> list = read_exprs(reader_);
  for (const Expr& e : list) note(e);
  return list;
}

Type GraphReader::type() {
  Type t = read_type(reader_);
  note(t);
  return t;
}

Graph GraphReader::read() {
  reader_.expect("graph");
  reader_.expect("@");
  graph_.set_name(reader_.peek().kind == TokenKind::kString ? reader_.string("a name")
                                                            : std::string(reader_.word("the graph's name")));
  read_header();
  const Token types_at = reader_.peek();
  const std::optional<std::vector<Type>> output_types = read_output_types();
  if (reader_.take("symbols")) read_symbols();
  declare_pending();
  in_body_ = true;
  reader_.expect("{");
  while (!reader_.is("return")) read_statement();
  read_return();
  reader_.expect("}");
  if (output_types) check_output_types(types_at, *output_types);
  read_locs();
  return std::move(graph_);
}

void GraphReader::read_header() {
  reader_.expect("(");
  while (!reader_.take(")")) {
    if (!graph_.parameters().empty()) reader_.expect(",");
    Statement statement;
    statement.at = reader_.peek();
    const std::string name = read_value_name();
    if (graph_.find(name)) reader_.fail_at(statement.at, "%" + name + " is defined twice");
    reader_.expect(":");
    const Value* parameter = graph_.add_parameter(name, type());
    read_suffixes(statement);
    finish(parameter->node, statement);
  }
}

std::optional<std::vector<Type>> GraphReader::read_output_types() {
  if (!reader_.take("->")) return std::nullopt;
  std::vector<Type> types;
  if (!reader_.take("(")) {
    types.push_back(type());
    return types;
  }
  while (!reader_.take(")")) {
    if (!types.empty()) reader_.expect(",");
    types.push_back(type());
  }
  return types;
}

void GraphReader::read_symbols() {
  reader_.expect("(");
  for (bool first = true; !reader_.take(")"); first = false) {
    if (!first) reader_.expect(",");
    read_symbol();
  }
}

void GraphReader::read_symbol() {
  Symbol symbol;
  const Token at = reader_.peek();
  symbol.name = reader_.word("a symbol");
  if (graph_.symbols().find(symbol.name)) reader_.fail_at(at, "symbol " + symbol.name + " is declared twice");
  if (dtype_from_name(symbol.name)) reader_.fail_at(at, symbol.name + " is an element type, not a symbol's name");
  reader_.expect("=");
  symbol.hint = reader_.integer("the symbol's hint");
  if (reader_.take("in")) {
    reader_.expect("[");
    symbol.lower = reader_.integer("the symbol's lower bound");
    reader_.expect(",");
    symbol.upper = reader_.take("inf") ? kNoUpperBound : reader_.integer("the symbol's upper bound, or inf");
    reader_.expect("]");
  }
  if (reader_.take("div")) symbol.divisor = reader_.integer("the symbol's divisor");
  symbol.unbacked = reader_.take("unbacked");
  seen_.insert(symbol.name);
  graph_.symbols().add(std::move(symbol));
}

void GraphReader::read_statement() {
  Statement statement;
  statement.at = reader_.peek();
  if (reader_.is("%")) {
    do {
      const Token at = reader_.peek();
      statement.names.push_back(read_value_name());
      const std::string& name = statement.names.back();
      const bool repeated = std::count(statement.names.begin(), statement.names.end(), name) > 1;
      if (repeated || graph_.find(name)) reader_.fail_at(at, "%" + name + " is defined twice");
    } while (reader_.take(","));
    reader_.expect("=");
  } else if (!reader_.is("call") && !reader_.is("host")) {
    reader_.fail_expected("a statement: '%name = ...', 'call', 'host' or 'return'");
  }
  const Token op_at = reader_.peek();
  const std::string_view op_name = reader_.word("an operator");
  if (op_name == "call") return read_call(statement, Op::kCall);
  if (op_name == "host") return read_call(statement, Op::kHost);
  statement.at = op_at;
  read_native(statement, op_name);
}

void GraphReader::read_call(Statement& statement, Op op) {
  std::string callee = op == Op::kHost ? std::to_string(reader_.integer("the number of a host step"))
                                       : std::string(reader_.word("an operator's name, namespace.name.overload"));
  std::vector<Arg> args;
  std::vector<std::pair<std::string, Arg>> kwargs;
  reader_.expect("(");
  while (!reader_.take(")")) {
    if (!args.empty() || !kwargs.empty()) reader_.expect(",");
    if (reader_.peek().kind == TokenKind::kWord && reader_.peek_second().text == "=") {
      std::string key(reader_.next().text);
      reader_.expect("=");
      kwargs.emplace_back(std::move(key), arg());
    } else {
      if (!kwargs.empty()) reader_.fail("an argument by position follows one by name");
      args.push_back(arg());
    }
  }
  read_statement_end(statement);
  if (!statement.types && !statement.names.empty()) {
    reader_.fail_at(statement.at, "the result types of a call must be written");
  }
  Node* node = graph_.add_call(std::move(callee), std::move(args), std::move(kwargs),
                               statement.types.value_or(std::vector<Type>{}), nullptr, nullptr, op, statement.names);
  finish(node, statement);
}

void GraphReader::read_native(Statement& statement, std::string_view op_name) {
  const std::optional<Op> op = op_from_name(op_name);
  if (!op || *op == Op::kParameter) {
    reader_.fail_at(statement.at, "unknown operator '" + std::string(op_name) +
                                      "'; an operator of PyTorch is 'call aten.name.overload(...)'");
  }
  const OpInfo& row = info(*op);
  std::vector<Value*> operands;
  if (reader_.is("%")) {
    do operands.push_back(read_value());
    while (reader_.take(","));
  }
  std::vector<std::pair<std::string, Attr>> attrs;
  while (reader_.peek().kind == TokenKind::kWord && !reader_.is("return") && !reader_.is("from") &&
         !reader_.is("call") && !reader_.is("host")) {
    const Token at = reader_.peek();
    std::string key(reader_.next().text);
    const auto known =
        std::find_if(row.attrs.begin(), row.attrs.end(), [&](const AttrInfo& a) { return a.name == key; });
    if (known == row.attrs.end()) reader_.fail_at(at, std::string(row.text) + " has no attribute '" + key + "'");
    attrs.emplace_back(std::move(key), attr(known->kind));
  }
  read_statement_end(statement);
  if (!statement.types) {
    Node node;
    node.op = *op;
    node.operands = operands;
    node.attrs = attrs;
    try {
      statement.types = infer_types(node, graph_.symbols());
    } catch (const UserError& error) {
      reader_.fail_at(statement.at, error.what());
    }
  }
  if (statement.types->size() != statement.names.size()) {
    reader_.fail_at(statement.at, std::string(row.text) + " gives " + std::to_string(statement.types->size()) +
                                      " values, named are " + std::to_string(statement.names.size()));
  }
  Node* node =
      graph_.add_typed(*op, std::move(operands), std::move(attrs), *statement.types, nullptr, nullptr, statement.names);
  finish(node, statement);
}

void GraphReader::read_statement_end(Statement& statement) {
  if (reader_.take(":")) {
    std::vector<Type> types;
    do types.push_back(type());
    while (reader_.take(","));
    if (types.size() != statement.names.size()) {
      reader_.fail_at(statement.at, "named are " + std::to_string(statement.names.size()) + " results, typed " +
                                        std::to_string(types.size()));
    }
    statement.types = std::move(types);
  }
  read_suffixes(statement);
}

void GraphReader::read_suffixes(Statement& statement) {
  if (reader_.take("@")) statement.loc = static_cast<int>(reader_.integer("the number of a location"));
  if (!reader_.take("from")) return;
  reader_.expect("[");
  while (!reader_.take("]")) {
    if (!statement.origins.empty()) reader_.expect(",");
    statement.origins.push_back(static_cast<int>(reader_.integer("the number of an origin")));
  }
}

void GraphReader::finish(Node* node, const Statement& statement) {
  node->origins = statement.origins;
  if (statement.loc >= 0) located_[statement.loc].push_back(node);
}

Attr GraphReader::attr(AttrKind kind) {
  switch (kind) {
    case AttrKind::kDType: {
      const Token at = reader_.peek();
      const auto dtype = dtype_from_name(reader_.word("an element type"));
      if (!dtype) reader_.fail_at(at, "unknown element type '" + std::string(at.text) + "'");
      return *dtype;
    }
    case AttrKind::kSizes:
    case AttrKind::kDims:
      return sizes();
    case AttrKind::kSize:
    case AttrKind::kDim:
      return size();
    case AttrKind::kPrecision:
      return std::string(reader_.word("ieee or tf32"));
    case AttrKind::kBool:
    case AttrKind::kNumber:
      break;
  }
  if (reader_.take("true")) return true;
  if (reader_.take("false")) return false;
  if (kind == AttrKind::kBool) reader_.fail_expected("true or false");
  if (reader_.at_float()) return reader_.number("a number");
  return size();
}

Arg GraphReader::word_arg() {
  const Token at = reader_.peek();
  if (reader_.take("none")) return {Arg::None{}};
  if (reader_.take("true")) return {true};
  if (reader_.take("false")) return {false};
  const bool applied = reader_.peek_second().text == "(";
  if (applied && is_tag(at.text)) {
    reader_.next();
    reader_.expect("(");
    std::string text = reader_.peek().kind == TokenKind::kString ? reader_.string("a string")
                                                                 : std::string(reader_.word("a word or string"));
    reader_.expect(")");
    return {Arg::Tagged{std::string(at.text), std::move(text)}};
  }
  if (applied && reader_.take("complex")) {
    reader_.expect("(");
    const double re = reader_.number("the real part");
    reader_.expect(",");
    const double im = reader_.number("the imaginary part");
    reader_.expect(")");
    return {Arg::Complex{re, im}};
  }
  return {size()};
}

Arg GraphReader::arg() {
  if (reader_.is("%")) return {read_value()};
  if (reader_.at_float()) return {reader_.number("a number")};
  if (reader_.peek().kind == TokenKind::kString) return {reader_.string("a string")};
  if (reader_.peek().kind == TokenKind::kWord) return word_arg();
  if (!reader_.take("[")) return {size()};
  Arg::List list;
  while (!reader_.take("]")) {
    if (!list.empty()) reader_.expect(",");
    list.push_back(arg());
  }
  return {std::move(list)};
}

void GraphReader::read_return() {
  reader_.expect("return");
  std::vector<Output> outputs;
  while (!reader_.is("}")) {
    if (!outputs.empty()) reader_.expect(",");
    Output output;
    output.value = arg();
    if (reader_.take("->")) {
      reader_.expect("into");
      output.into = read_value();
    }
    outputs.push_back(std::move(output));
  }
  graph_.set_outputs(std::move(outputs));
}

void GraphReader::check_output_types(const Token& at, const std::vector<Type>& written) {
  const std::vector<Output>& outputs = graph_.outputs();
  if (written.size() != outputs.size()) {
    reader_.fail_at(at, "the graph returns " + std::to_string(outputs.size()) + " values, its head says " +
                            std::to_string(written.size()));
  }
  for (size_t i = 0; i < written.size(); ++i) {
    const Type found = type_of(outputs[i].value);
    if (found.kind == written[i].kind && found.dtype == written[i].dtype && found.shape == written[i].shape) continue;
    std::ostringstream message;
    message << "output " << i << " is " << found << ", the graph's head says " << written[i];
    reader_.fail_at(at, message.str());
  }
}

void GraphReader::read_locs() {
  while (reader_.take("loc")) {
    const auto number = static_cast<int>(reader_.integer("the number of a location"));
    reader_.expect("=");
    Loc loc;
    loc.file = reader_.string("a file name");
    reader_.expect(":");
    loc.line = static_cast<int>(reader_.integer("a line"));
    loc.code = reader_.string("the source line");
    loc.op = reader_.peek().kind == TokenKind::kString ? reader_.string("an operator")
                                                       : std::string(reader_.word("an operator"));
    const auto users = located_.find(number);
    if (users == located_.end()) continue;
    const auto shared = std::make_shared<const Loc>(std::move(loc));
    for (Node* node : users->second) node->loc = shared;
    located_.erase(users);
  }
  if (located_.empty()) return;
  int missing = located_.begin()->first;
  for (const auto& [number, nodes] : located_) missing = std::min(missing, number);
  reader_.fail("location " + std::to_string(missing) + " is used and not given");
}

// What follows the shape of a tensor type.
void read_tensor_suffixes(Reader& reader, Type& type) {
  if (reader.take("strides")) type.strides = read_exprs(reader);
  if (reader.take("offset")) type.offset = read_expr(reader);
  if (reader.take("device")) {
    type.device = reader.string("a device");
  } else if (reader.is("host") && reader.peek_second().kind != TokenKind::kInteger) {  // else a statement: host 3(...)
    reader.next();
    type.device = "host";
  }
}

Type read_list_type(Reader& reader) {
  Type type = Type::of(TypeKind::kList);
  reader.expect("(");
  while (!reader.take(")")) {
    if (!type.elements.empty()) reader.expect(",");
    type.elements.push_back(read_type(reader));
  }
  return type;
}

}  // namespace

Type read_type(Reader& reader) {
  const Token at = reader.peek();
  const std::string_view word = reader.word("a type");
  if (reader.is("[")) {
    const auto dtype = dtype_from_name(word);
    if (!dtype) reader.fail_at(at, "unknown element type '" + std::string(word) + "'");
    Type type = Type::tensor(*dtype, read_exprs(reader));
    read_tensor_suffixes(reader, type);
    return type;
  }
  if (word == "list") return read_list_type(reader);
  if (word == "int") {
    if (!reader.take("=")) return Type::integer();
    return Type::integer(read_expr(reader));
  }
  static const std::pair<std::string_view, TypeKind> kWords[] = {{"float", TypeKind::kFloat},
                                                                 {"bool", TypeKind::kBool},
                                                                 {"str", TypeKind::kStr},
                                                                 {"none", TypeKind::kNone},
                                                                 {"opaque", TypeKind::kOpaque}};
  for (const auto& [text, kind] : kWords) {
    if (text == word) return Type::of(kind);
  }
  reader.fail_at(at, "unknown type '" + std::string(word) + "'; a tensor is written f32[sizes]");
}

Graph parse_graph(std::string_view text, std::string_view file) {
  Reader reader(text, file);
  Graph graph = GraphReader(reader).read();
  if (!reader.at_end()) reader.fail_expected("the end of the text");
  return graph;
}

std::vector<Graph> parse_graphs(std::string_view text, std::string_view file) {
  Reader reader(text, file);
  std::vector<Graph> graphs;
  while (!reader.at_end()) graphs.push_back(GraphReader(reader).read());
  return graphs;
}

}  // namespace tilewright
