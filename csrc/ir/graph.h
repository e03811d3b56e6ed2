#pragma once

#include <functional>
#include <iosfwd>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ir/type.h"
#include "support/error.h"

namespace tilewright {

// Graph IR (docs/graph-ir.md): an SSA list of nodes over typed values.
//
// A Graph owns its nodes; a Node owns its result Values. Pointers stay valid until the node is erased. Uses are kept up
// to date by the mutating functions, so passes never edit operands directly.

class Graph;
struct Node;
struct Value;

// Where a node comes from in the user's program.
struct Loc {
  std::string file;
  int line = 0;
  std::string code;  // the source line
  std::string op;    // "aten.mul.Tensor"
  friend bool operator==(const Loc&, const Loc&) = default;
};
using LocPtr = std::shared_ptr<const Loc>;  // null: unknown

enum class Category : uint8_t { kParameter, kConstant, kPointwise, kView, kReduction, kContraction, kCall, kHost };

// How much an element costs on which unit; the cost model reads it.
enum class CostClass : uint8_t {
  kFree,
  kMove,
  kAlu,
  kMul,
  kSfu,
  kTranscendental,
  kDivision,
  kReduce,
  kContract,
  kOpaque
};

// Which types an operator takes and gives; ir/shape_rules.cpp has a function for each.
enum class Rule : uint8_t {
  kGiven,  // results are not inferred
  kConstant,
  kSymInt,
  // Pointwise, by element types: any; not bool; floats; integers; integers and bool. The result is of the same type.
  kAny,
  kNumber,
  kFloat,
  kInteger,
  kBits,
  kCompare,    // any, giving bool
  kFloatTest,  // floats, giving bool
  kWhere,
  kCast,
  kBitcast,
  kReshape,
  kPermute,
  kExpand,
  kSlice,
  kFlip,
  kSelect,
  kSqueeze,
  kUnsqueeze,
  kConcat,
  kPad,
  kIota,
  kFull,
  kReduceAny,
  kReduceNumber,
  kReduceFloat,
  kReduceBool,
  kReduceIndex,  // giving i64
  kWelford,
  kMatmul,  // floats; f16 and bf16 give f32
};

// What an attribute holds (the alternative of Attr) and how it is checked.
enum class AttrKind : uint8_t {
  kDType,
  kBool,
  kNumber,     // double, Expr or bool
  kSize,       // Expr
  kSizes,      // list of Expr
  kDim,        // a constant Expr: a dimension
  kDims,       // list of them, without repetition
  kPrecision,  // "ieee" or "tf32": of products of float32
};

enum class Op : uint8_t {
#define TW_OP(id, text, category, operands, results, cost, attrs, rule, doc) id,
#include "ir/ops.def"
#undef TW_OP
};

struct AttrInfo {
  std::string name;
  AttrKind kind;
};

struct OpInfo {
  Op op;
  const char* text;
  Category category;
  int operands;  // -1: any number
  int results;   // -1: any number
  CostClass cost;
  std::vector<AttrInfo> attrs;
  Rule rule;
  const char* doc;
};
const OpInfo& info(Op op);
// The whole table, in the order of Op.
const std::vector<OpInfo>& all_ops();
std::optional<Op> op_from_name(std::string_view text);

// Attribute of a native operator.
using Attr = std::variant<bool, Expr, double, DType, std::string, std::vector<Expr>>;
// Floats are equal where their bits are; every NaN equals every other.
bool same(const Attr& a, const Attr& b);

// Argument of a call or of `return`: literals, values, and lists of arguments.
struct Arg {
  struct None {
    friend bool operator==(None, None) { return true; }
  };
  struct Tagged {  // dtype(bf16) device("cuda:0") layout(strided) memory_format(channels_last) generator(default)
    std::string tag, text;
    friend bool operator==(const Tagged&, const Tagged&) = default;
  };
  struct Complex {
    double re, im;
    friend bool operator==(Complex, Complex) = default;
  };
  using List = std::vector<Arg>;
  std::variant<None, Value*, Expr, double, bool, std::string, Tagged, Complex, List> data;
};
// Calls `visit` for every value in it, in order of appearance; the references may be assigned to.
void for_each_value(Arg& arg, const std::function<void(Value*&)>& visit);
void for_each_value(const Arg& arg, const std::function<void(Value*)>& visit);
Type type_of(const Arg& arg);

struct Value {
  Node* node = nullptr;  // where it is defined
  int index = 0;         // which result
  std::string name;      // without '%'; unique in its graph
  Type type;
  std::vector<Node*> users;  // each user once for each operand slot, in order of addition
  int output_uses = 0;       // appearances in the graph's outputs, `-> into` included

  bool has_uses() const { return !users.empty() || output_uses > 0; }
};

struct Node {
  Op op;
  std::vector<Value*> operands;  // of a call: the values in `args` and `kwargs`, in order of appearance
  std::vector<std::pair<std::string, Attr>> attrs;  // native operators; in the table's order
  std::vector<std::unique_ptr<Value>> results;
  LocPtr loc;

  // call: "aten.addmm.default"; host: its number as text.
  std::string callee;
  std::vector<Arg> args;
  std::vector<std::pair<std::string, Arg>> kwargs;

  // Nodes of the graph before `decompose` that this node computes a part of: their indices, sorted.
  std::vector<int> origins;

  Value* result(int i = 0) const { return results[i].get(); }
  Value* operand(int i) const { return operands[i]; }
  const Type& type(int i = 0) const { return results[i]->type; }
  const OpInfo& info() const { return tilewright::info(op); }
  Category category() const { return info().category; }
  bool is_call() const { return op == Op::kCall; }

  const Attr* find_attr(std::string_view name) const;
  // Each throws InternalError where the attribute is absent or of another kind.
  bool attr_bool(std::string_view name) const;
  const Expr& attr_expr(std::string_view name) const;
  int64_t attr_int(std::string_view name) const;  // a constant Expr
  double attr_double(std::string_view name) const;
  DType attr_dtype(std::string_view name) const;
  const std::string& attr_string(std::string_view name) const;
  const std::vector<Expr>& attr_exprs(std::string_view name) const;
  std::vector<int64_t> attr_ints(std::string_view name) const;

 private:
  friend class Graph;
  std::list<std::unique_ptr<Node>>::iterator position_;
  mutable int index_ = -1;
};

// One output of a graph.
struct Output {
  Arg value;
  Value* into = nullptr;   // a parameter whose memory receives the value
  Value* tensor() const {  // null unless a value
    auto* v = std::get_if<Value*>(&value.data);
    return v ? *v : nullptr;
  }
};

class Graph {
 public:
  explicit Graph(std::string name = "graph");
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  ~Graph();
  Graph clone() const;

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  SymbolTable& symbols() { return symbols_; }
  const SymbolTable& symbols() const { return symbols_; }

  const std::vector<Value*>& parameters() const { return parameters_; }
  const std::vector<Output>& outputs() const { return outputs_; }
  std::vector<Node*> nodes() const;  // in order, without parameters
  size_t size() const { return nodes_.size(); }
  Value* find(std::string_view name) const;

  Value* add_parameter(std::string name, Type type);
  void set_outputs(std::vector<Output> outputs);

  // Appends a node, or inserts it before `before`. Result types are inferred by the operator's shape rule; throws
  // UserError where operands do not fit the rule. Names are made unique by adding a number.
  Node* add(Op op, std::vector<Value*> operands, std::vector<std::pair<std::string, Attr>> attrs = {},
            LocPtr loc = nullptr, Node* before = nullptr, std::string result_name = "");
  // A call's or host step's result types cannot be inferred.
  Node* add_call(std::string callee, std::vector<Arg> args, std::vector<std::pair<std::string, Arg>> kwargs,
                 std::vector<Type> results, LocPtr loc = nullptr, Node* before = nullptr, Op op = Op::kCall,
                 std::vector<std::string> names = {});
  // A node of any operator with its result types given, not inferred or checked: for readers and copiers of graphs.
  Node* add_typed(Op op, std::vector<Value*> operands, std::vector<std::pair<std::string, Attr>> attrs,
                  std::vector<Type> results, LocPtr loc = nullptr, Node* before = nullptr,
                  std::vector<std::string> names = {});
  // A constant of rank 0: exact for integers, rounded to `dtype` for floats.
  Value* constant(DType dtype, double value, Node* before = nullptr);
  Value* constant_int(DType dtype, int64_t value, Node* before = nullptr);

  // All uses of `from`, outputs included, become uses of `to`.
  void replace_all_uses(Value* from, Value* to);
  void replace_operand(Node* user, int slot, Value* to);
  // The results must be without uses.
  void erase(Node* node);
  // Removes nodes whose results nobody uses; calls stay where `has_effect` says so (default: all calls and host steps
  // stay).
  void erase_dead(const std::function<bool(const Node&)>& has_effect = nullptr);
  // Position of a node in order; valid until the next change.
  int index(const Node* node) const;
  void rename(Value* value, std::string name);

 private:
  struct Impl;
  Node* link(std::unique_ptr<Node> node, Node* before, std::vector<std::string> names);
  std::string name_;
  SymbolTable symbols_;
  std::vector<Value*> parameters_;
  std::vector<Output> outputs_;
  std::list<std::unique_ptr<Node>> nodes_;
  std::unique_ptr<Impl> impl_;
};

// Same structure, names, types, attributes, locations, origins and symbols.
bool operator==(const Graph& a, const Graph& b);

struct PrintOptions {
  bool locations = true;
  bool strides = true;
  bool origins = true;
};
std::string print(const Graph& graph, const PrintOptions& options = {});
std::string print(const Node& node, const PrintOptions& options = {});
// The line, counted from 1, of print(graph) on which the first node stands; each further node has the next line.
int first_node_line(const Graph& graph);
// Throws UserError: `file:line:column: text`.
Graph parse_graph(std::string_view text, std::string_view file = "<text>");
// A file of any number of graphs.
std::vector<Graph> parse_graphs(std::string_view text, std::string_view file = "<text>");

// Every broken rule, one string each: the offending line, then what is wrong with it. Empty: the graph is valid.
std::vector<std::string> verify(const Graph& graph);

}  // namespace tilewright
