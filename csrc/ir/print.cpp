// The text form of a graph (docs/graph-ir.md).
#include <unordered_map>

#include "ir/graph.h"
#include "support/reader.h"

namespace tilewright {
namespace {

// A header longer than this has one parameter a line.
constexpr size_t kHeaderColumns = 120;

void write_value(std::string& out, const Value* value) {
  out += '%';
  out += value->name;
}

template <typename List, typename Write>
void write_separated(std::string& out, const List& list, const Write& write_one) {
  bool first = true;
  for (const auto& element : list) {
    if (!first) out += ", ";
    first = false;
    write_one(element);
  }
}

void write_exprs(std::string& out, const std::vector<Expr>& list) {
  out += '[';
  write_separated(out, list, [&](const Expr& e) { out += e.str(); });
  out += ']';
}

void write_attr(std::string& out, const Attr& attr) {
  if (auto* flag = std::get_if<bool>(&attr)) out += *flag ? "true" : "false";
  if (auto* size = std::get_if<Expr>(&attr)) out += size->str();
  if (auto* number = std::get_if<double>(&attr)) out += float_text(*number);
  if (auto* dtype = std::get_if<DType>(&attr)) out += name(*dtype);
  if (auto* word = std::get_if<std::string>(&attr)) out += *word;
  if (auto* sizes = std::get_if<std::vector<Expr>>(&attr)) write_exprs(out, *sizes);
}

void write_tagged(std::string& out, const Arg::Tagged& tagged) {
  out += tagged.tag + '(';
  out += tagged.tag != "device" && is_word(tagged.text) ? tagged.text : quoted(tagged.text);
  out += ')';
}

void write_arg(std::string& out, const Arg& arg) {
  if (auto* value = std::get_if<Value*>(&arg.data)) return write_value(out, *value);
  if (auto* size = std::get_if<Expr>(&arg.data)) out += size->str();
  if (auto* number = std::get_if<double>(&arg.data)) out += float_text(*number);
  if (auto* flag = std::get_if<bool>(&arg.data)) out += *flag ? "true" : "false";
  if (auto* text = std::get_if<std::string>(&arg.data)) out += quoted(*text);
  if (std::holds_alternative<Arg::None>(arg.data)) out += "none";
  if (auto* tagged = std::get_if<Arg::Tagged>(&arg.data)) write_tagged(out, *tagged);
  if (auto* complex = std::get_if<Arg::Complex>(&arg.data)) {
    out += "complex(" + float_text(complex->re) + ", " + float_text(complex->im) + ')';
  }
  if (auto* list = std::get_if<Arg::List>(&arg.data)) {
    out += '[';
    write_separated(out, *list, [&](const Arg& element) { write_arg(out, element); });
    out += ']';
  }
}

// Numbers the locations of a graph by first appearance.
class LocTable {
 public:
  int number(const LocPtr& loc) {
    const auto [known, is_new] = by_address_.emplace(loc.get(), 0);
    if (!is_new) return known->second;
    std::string text = line(*loc);
    const auto [it, added] = by_text_.emplace(std::move(text), static_cast<int>(lines_.size()));
    if (added) lines_.push_back(&it->first);
    return known->second = it->second;
  }

  void write(std::string& out) const {
    for (size_t i = 0; i < lines_.size(); ++i) out += "loc " + std::to_string(i) + " = " + *lines_[i] + '\n';
  }

 private:
  static std::string line(const Loc& loc) {
    return quoted(loc.file) + ':' + std::to_string(loc.line) + ' ' + quoted(loc.code) + ' ' +
           (is_word(loc.op) ? loc.op : quoted(loc.op));
  }

  std::unordered_map<const Loc*, int> by_address_;
  std::unordered_map<std::string, int> by_text_;
  std::vector<const std::string*> lines_;
};

void write_statement(std::string& out, const Node& node, const PrintOptions& options) {
  if (!node.results.empty()) {
    write_separated(out, node.results, [&](const auto& result) { write_value(out, result.get()); });
    out += " = ";
  }
  out += node.info().text;
  if (node.category() == Category::kCall || node.category() == Category::kHost) {
    out += ' ' + node.callee + '(';
    bool first = true;
    const auto comma = [&] {
      if (!first) out += ", ";
      first = false;
    };
    for (const Arg& arg : node.args) comma(), write_arg(out, arg);
    for (const auto& [key, arg] : node.kwargs) comma(), out += key + '=', write_arg(out, arg);
    out += ')';
  } else {
    if (!node.operands.empty()) out += ' ';
    write_separated(out, node.operands, [&](const Value* operand) { write_value(out, operand); });
    for (const auto& [key, attr] : node.attrs) {
      out += ' ' + key + ' ';
      write_attr(out, attr);
    }
  }
  if (node.results.empty()) return;
  out += " : ";
  write_separated(out, node.results, [&](const auto& result) { write(out, result->type, options.strides); });
}

void write_suffixes(std::string& out, const Node& node, const PrintOptions& options, LocTable& locs) {
  if (options.locations && node.loc) out += " @ " + std::to_string(locs.number(node.loc));
  if (options.origins && !node.origins.empty()) {
    out += " from [";
    write_separated(out, node.origins, [&](int origin) { out += std::to_string(origin); });
    out += ']';
  }
}

void write_symbol(std::string& out, const Symbol& symbol) {
  out += symbol.name + " = " + std::to_string(symbol.hint);
  if (symbol.lower != 0 || symbol.upper != kNoUpperBound) {
    out += " in [" + std::to_string(symbol.lower) + ", " +
           (symbol.upper == kNoUpperBound ? "inf" : std::to_string(symbol.upper)) + ']';
  }
  if (symbol.divisor != 1) out += " div " + std::to_string(symbol.divisor);
  if (symbol.unbacked) out += " unbacked";
}

// What the graph's head says of an output: kind, element type and sizes.
Type head_type(Type type) {
  type.value.reset();
  type.device.clear();
  for (Type& element : type.elements) element = head_type(element);
  return type;
}

void write_output_types(std::string& out, const std::vector<Output>& outputs) {
  if (outputs.size() != 1) out += '(';
  write_separated(out, outputs,
                  [&](const Output& output) { write(out, head_type(type_of(output.value)), /*strides=*/false); });
  if (outputs.size() != 1) out += ')';
}

void write_header(std::string& out, const Graph& graph, const PrintOptions& options, LocTable& locs) {
  std::vector<std::string> parameters;
  size_t columns = graph.name().size();
  for (const Value* parameter : graph.parameters()) {
    std::string text;
    write_value(text, parameter);
    text += ": ";
    write(text, parameter->type, options.strides);
    write_suffixes(text, *parameter->node, options, locs);
    columns += text.size() + 2;
    parameters.push_back(std::move(text));
  }
  const bool broken = columns > kHeaderColumns;
  out += "graph @" + (is_word(graph.name()) ? graph.name() : quoted(graph.name())) + '(';
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (i > 0) out += ',';
    if (broken)
      out += "\n    ";
    else if (i > 0)
      out += ' ';
    out += parameters[i];
  }
  out += ") -> ";
  write_output_types(out, graph.outputs());
  const std::vector<Symbol>& symbols = graph.symbols().symbols();
  if (symbols.empty()) {
    out += " {\n";
    return;
  }
  out += "\n  symbols (";
  write_separated(out, symbols, [&](const Symbol& symbol) { write_symbol(out, symbol); });
  out += ")\n{\n";
}

void write_return(std::string& out, const std::vector<Output>& outputs) {
  out += "  return";
  if (!outputs.empty()) out += ' ';
  write_separated(out, outputs, [&](const Output& output) {
    write_arg(out, output.value);
    if (output.into) out += " -> into ", write_value(out, output.into);
  });
  out += "\n}\n";
}

}  // namespace

int first_node_line(const Graph& graph) {
  std::string header;
  LocTable locs;
  write_header(header, graph, {}, locs);
  return 1 + static_cast<int>(std::count(header.begin(), header.end(), '\n'));
}

std::string print(const Graph& graph, const PrintOptions& options) {
  std::string out;
  out.reserve(128 * (graph.size() + graph.parameters().size() + 1));
  LocTable locs;
  write_header(out, graph, options, locs);
  for (const Node* node : graph.nodes()) {
    out += "  ";
    write_statement(out, *node, options);
    write_suffixes(out, *node, options, locs);
    out += '\n';
  }
  write_return(out, graph.outputs());
  locs.write(out);
  return out;
}

std::string print(const Node& node, const PrintOptions& options) {
  std::string out;
  write_statement(out, node, options);
  return out;
}

}  // namespace tilewright
