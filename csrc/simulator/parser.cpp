#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "simulator/syntax.h"

namespace tilewright::sim {
namespace {

constexpr uint64_t kMaxVariableBytes = uint64_t{1} << 32;
constexpr int kMaxNesting = 64;

std::string quoted(std::string_view text) { return "'" + std::string(text.substr(0, 60)) + "'"; }

std::string found(const Token& token) { return token.kind == Token::kEnd ? "end of file" : quoted(token.text); }

float to_float(const Number& n) {
  if (n.is_f32) return std::bit_cast<float>(static_cast<uint32_t>(n.bits));
  return n.is_float ? static_cast<float>(std::bit_cast<double>(n.bits)) : static_cast<float>(n.bits);
}

double to_double(const Number& n) {
  if (n.is_f32) return std::bit_cast<float>(static_cast<uint32_t>(n.bits));
  return n.is_float ? std::bit_cast<double>(n.bits) : static_cast<double>(n.bits);
}

uint64_t initial_bits(const Number& n, Type type) {
  if (type == Type::kF64) return std::bit_cast<uint64_t>(to_double(n));
  if (type == Type::kF32) return std::bit_cast<uint32_t>(to_float(n));
  return n.bits;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), lexer_(text) {
    token_ = lexer_.next();
    ahead_ = lexer_.next();
  }

  ModuleSyntax parse_module() {
    while (token_.kind != Token::kEnd) parse_toplevel();
    if (module_.version.empty()) syntax_error(token_.at, "found no .version, which a PTX module begins with");
    return std::move(module_);
  }

 private:
  // Tokens.
  Token take() {
    Token t = token_;
    token_ = ahead_;
    ahead_ = lexer_.next();
    return t;
  }
  bool at_punct(char c) const { return token_.kind == Token::kPunct && token_.punct == c; }
  bool at_word(std::string_view w) const { return token_.kind == Token::kWord && token_.text == w; }
  bool accept(char c) {
    if (!at_punct(c)) return false;
    take();
    return true;
  }
  void expect(char c) {
    if (!accept(c)) syntax_error(token_.at, "found " + found(token_) + ", expected '" + std::string(1, c) + "'");
  }
  std::string_view expect_word(const char* what) {
    if (token_.kind != Token::kWord) syntax_error(token_.at, "found " + found(token_) + ", expected " + what);
    return take().text;
  }
  uint64_t expect_integer(const char* what) {
    if (token_.kind != Token::kNumber) syntax_error(token_.at, "found " + found(token_) + ", expected " + what);
    const Token t = take();
    const Number n = number_value(t);
    if (n.is_float) syntax_error(t.at, "found " + found(t) + ", expected " + what);
    return n.bits;
  }
  Number signed_number() {
    bool minus = false, invert = false;
    while (at_punct('-') || at_punct('+') || at_punct('~')) {
      const char c = take().punct;
      minus ^= c == '-';
      invert ^= c == '~';
    }
    if (token_.kind != Token::kNumber) syntax_error(token_.at, "found " + found(token_) + ", expected a number");
    Number n = number_value(take());
    if (minus) {
      if (n.is_f32)
        n.bits ^= 0x80000000u;
      else if (n.is_float)
        n.bits ^= uint64_t{1} << 63;
      else
        n.bits = 0 - n.bits;
    }
    if (invert) n.bits = ~n.bits;
    return n;
  }

  // Module level.
  void parse_toplevel();
  void skip_section();
  void parse_file_directive();
  void parse_function(bool is_entry);
  void parse_performance_directives(FunctionSyntax& f);
  std::vector<Variable> parse_params();
  // Variables.
  void parse_variables(Space space, bool is_extern, std::vector<Variable>& out, Scope* scope);
  void parse_initializer(Variable& v, uint64_t& at, int depth);
  uint32_t parse_alignment();
  // Bodies.
  void parse_body();
  void parse_body_item();
  void parse_registers();
  void parse_loc();
  void parse_instruction();
  Operand parse_operand(int depth = 0);
  Operand parse_address();
  Operand name_operand(const Token& t);
  std::optional<uint32_t> find_register(std::string_view name, Position at);

  std::string_view text_;
  Lexer lexer_;
  Token token_, ahead_;
  ModuleSyntax module_;
  FunctionSyntax* function_ = nullptr;
  uint32_t scope_ = 0;
  int loc_line_ = 0, loc_file_ = 0;
};

void Parser::skip_section() {
  take();
  while (token_.kind != Token::kEnd && !at_punct('{')) take();
  int depth = 0;
  do {
    if (token_.kind == Token::kEnd) syntax_error(token_.at, ".section without end");
    depth += at_punct('{') - at_punct('}');
    take();
  } while (depth > 0);
}

void Parser::parse_file_directive() {
  take();
  const int index = static_cast<int>(expect_integer("a file number"));
  if (token_.kind != Token::kString) syntax_error(token_.at, "found " + found(token_) + ", expected a file name");
  module_.files[index] = take().text;
  while (accept(',')) expect_integer("a number");
}

void Parser::parse_toplevel() {
  bool is_extern = false;
  while (at_word(".visible") || at_word(".weak") || at_word(".common") || at_word(".extern"))
    is_extern |= take().text == ".extern";
  if (at_word(".version")) {
    take();
    if (token_.kind != Token::kNumber) syntax_error(token_.at, "found " + found(token_) + ", expected a version");
    module_.version = take().text;
  } else if (at_word(".target")) {
    take();
    module_.target = expect_word("a target");
    while (accept(',')) expect_word("a target");
  } else if (at_word(".address_size")) {
    take();
    const Position at = token_.at;
    if (expect_integer("an address size") != 64) syntax_error(at, "only .address_size 64 can be simulated");
  } else if (at_word(".file")) {
    parse_file_directive();
  } else if (at_word(".section")) {
    skip_section();
  } else if (at_word(".pragma")) {
    while (token_.kind != Token::kEnd && !accept(';')) take();
  } else if (at_word(".entry") || at_word(".func")) {
    parse_function(take().text == ".entry");
  } else if (at_word(".global") || at_word(".const") || at_word(".shared")) {
    const std::string_view w = take().text;
    const Space space = w == ".global" ? Space::kGlobal : w == ".const" ? Space::kConst : Space::kShared;
    parse_variables(space, is_extern, module_.variables, nullptr);
  } else if (accept(';')) {
  } else {
    syntax_error(token_.at, "found " + found(token_) + ", expected a directive such as .entry, .func or .global");
  }
}

uint32_t Parser::parse_alignment() {
  const Position at = token_.at;
  const uint64_t align = expect_integer("an alignment");
  if (align == 0 || align > 4096 || (align & (align - 1)) != 0)
    syntax_error(at, "alignment is not a power of two up to 4096");
  return static_cast<uint32_t>(align);
}

// After the space: [.align N] [.attribute(...)] [.ptr ...] .type name [dims] [= initialiser] {, name ...} ;
void Parser::parse_variables(Space space, bool is_extern, std::vector<Variable>& out, Scope* scope) {
  Variable common;
  common.space = space;
  common.is_extern = is_extern;
  uint32_t align = 0, vector = 1;
  bool typed = false;
  while (token_.kind == Token::kWord && token_.text[0] == '.') {
    const Token t = take();
    if (t.text == ".align") {
      align = parse_alignment();
    } else if (t.text == ".attribute") {
      expect('(');
      while (!accept(')')) {
        if (take().kind == Token::kEnd) syntax_error(t.at, ".attribute without end");
      }
    } else if (t.text == ".v2" || t.text == ".v4") {
      vector = t.text == ".v2" ? 2 : 4;
    } else if (auto type = type_from_name(t.text.substr(1)); type && type_bytes(*type) > 0) {
      common.type = *type;
      typed = true;
    } else if (t.text == ".texref" || t.text == ".samplerref" || t.text == ".surfref") {
      syntax_error(t.at, "textures and surfaces cannot be simulated");
    } else {
      syntax_error(t.at, "found " + quoted(t.text) + ", expected a type");
    }
  }
  if (!typed) syntax_error(token_.at, "found " + found(token_) + ", expected a type");
  do {
    Variable v = common;
    v.at = token_.at;
    v.name = expect_word("a variable name");
    const uint32_t elem = type_bytes(v.type) * vector;
    v.align = std::max(align, elem);
    v.bytes = elem;
    bool unsized = false;
    while (accept('[')) {
      v.is_array = true;
      if (accept(']')) {
        unsized = true;
        continue;
      }
      const uint64_t n = expect_integer("an array size");
      if (n != 0 && v.bytes > kMaxVariableBytes / n) syntax_error(v.at, quoted(v.name) + " is larger than 4 GiB");
      v.bytes *= n;
      expect(']');
    }
    if (unsized) v.bytes = 0;
    if (accept('=')) {
      uint64_t end = 0;
      parse_initializer(v, end, 0);
      if (unsized) v.bytes = end;
      if (end > v.bytes) syntax_error(v.at, "initialiser of " + quoted(v.name) + " is longer than the variable");
    }
    if (scope) scope->variables[v.name] = static_cast<uint32_t>(out.size());
    out.push_back(std::move(v));
  } while (accept(','));
  expect(';');
}

void Parser::parse_initializer(Variable& v, uint64_t& at, int depth) {
  if (depth > kMaxNesting) syntax_error(token_.at, "initialiser nested too deeply");
  if (accept('{')) {
    while (!accept('}')) {
      parse_initializer(v, at, depth + 1);
      if (!at_punct('}')) expect(',');
    }
    return;
  }
  const uint32_t size = type_bytes(v.type);
  if (at + size > kMaxVariableBytes) syntax_error(token_.at, "initialiser too long");
  if (token_.kind == Token::kWord) {
    Relocation r;
    r.offset = at;
    r.bytes = size;
    r.at = token_.at;
    r.symbol = take().text;
    if (r.symbol == "generic") {
      expect('(');
      r.generic = true;
      r.symbol = expect_word("a symbol");
      expect(')');
    }
    if (at_punct('+') || at_punct('-')) r.addend = static_cast<int64_t>(signed_number().bits);
    v.relocations.push_back(r);
    v.init.resize(std::max<size_t>(v.init.size(), at + size));
  } else {
    const uint64_t bits = initial_bits(signed_number(), v.type);
    v.init.resize(std::max<size_t>(v.init.size(), at + size));
    std::memcpy(v.init.data() + at, &bits, std::min<uint32_t>(size, 8));
  }
  at += size;
}

std::vector<Variable> Parser::parse_params() {
  std::vector<Variable> params;
  expect('(');
  while (!accept(')')) {
    const Position at = token_.at;
    const std::string_view space = expect_word(".param");
    if (space == ".reg") syntax_error(at, "functions with .reg parameters cannot be simulated");
    if (space != ".param") syntax_error(at, "found " + quoted(space) + ", expected .param");
    Variable v;
    v.space = Space::kParam;
    uint32_t align = 0;
    bool typed = false;
    while (token_.kind == Token::kWord && token_.text[0] == '.') {
      const Token t = take();
      if (t.text == ".align") {
        align = parse_alignment();
      } else if (auto type = type_from_name(t.text.substr(1)); type && type_bytes(*type) > 0) {
        v.type = *type;
        typed = true;
      } else if (t.text != ".ptr" && t.text != ".global" && t.text != ".shared" && t.text != ".const" &&
                 t.text != ".local") {
        syntax_error(t.at, "found " + quoted(t.text) + ", expected a type");
      }
    }
    if (!typed) syntax_error(token_.at, "found " + found(token_) + ", expected a type");
    v.at = token_.at;
    v.name = expect_word("a parameter name");
    v.bytes = type_bytes(v.type);
    v.align = std::max(align, type_bytes(v.type));
    if (accept('[')) {
      v.is_array = true;
      const uint64_t n = at_punct(']') ? 0 : expect_integer("an array size");
      if (n > 65536) syntax_error(v.at, "parameter larger than 64 KiB");
      v.bytes *= n;
      expect(']');
    }
    params.push_back(v);
    if (!at_punct(')')) expect(',');
  }
  return params;
}

void Parser::parse_performance_directives(FunctionSyntax& f) {
  while (token_.kind == Token::kWord && token_.text[0] == '.') {
    const Token t = take();
    if (t.text == ".pragma") {
      while (token_.kind != Token::kEnd && !accept(';')) take();
      continue;
    }
    std::array<uint32_t, 3> values{1, 1, 1};
    for (int i = 0; i < 3 && token_.kind == Token::kNumber; ++i) {
      values[i] = static_cast<uint32_t>(expect_integer("a number"));
      if (!accept(',')) break;
    }
    if (t.text == ".maxntid")
      f.maxntid = values;
    else if (t.text == ".reqntid")
      f.reqntid = values;
    else if (t.text == ".reqnctapercluster")
      f.reqcluster = values;
    else if (t.text != ".minnctapersm" && t.text != ".maxnctapersm" && t.text != ".maxnreg" && t.text != ".noreturn" &&
             t.text != ".explicitcluster" && t.text != ".maxclusterrank" && t.text != ".blocksareclusters" &&
             t.text != ".abi_preserve" && t.text != ".abi_preserve_control")
      syntax_error(t.at, "unknown directive " + quoted(t.text));
  }
}

void Parser::parse_function(bool is_entry) {
  FunctionSyntax f;
  f.is_entry = is_entry;
  f.at = token_.at;
  if (!is_entry && at_punct('(')) f.results = parse_params();
  f.name = expect_word("a function name");
  if (at_punct('(')) f.params = parse_params();
  parse_performance_directives(f);
  if (accept(';')) {
    module_.functions.push_back(std::move(f));
    return;
  }
  if (!at_punct('{')) syntax_error(token_.at, "found " + found(token_) + ", expected '{'");
  f.has_body = true;
  function_ = &f;
  f.scopes.emplace_back();
  scope_ = 0;
  loc_line_ = loc_file_ = 0;
  parse_body();
  function_ = nullptr;
  const auto same = [&](const FunctionSyntax& g) { return g.name == f.name; };
  const auto earlier = std::find_if(module_.functions.begin(), module_.functions.end(), same);
  if (earlier == module_.functions.end()) {
    module_.functions.push_back(std::move(f));
  } else if (!earlier->has_body) {
    *earlier = std::move(f);
  } else {
    syntax_error(f.at, "function " + quoted(f.name) + " is defined twice");
  }
}

void Parser::parse_body() {
  const Position open = token_.at;
  expect('{');
  int depth = 1;
  while (depth > 0) {
    if (token_.kind == Token::kEnd) syntax_error(open, "'{' without '}'");
    if (accept('{')) {
      if (++depth > kMaxNesting) syntax_error(token_.at, "blocks nested too deeply");
      Scope inner;
      inner.parent = static_cast<int>(scope_);
      scope_ = static_cast<uint32_t>(function_->scopes.size());
      function_->scopes.push_back(std::move(inner));
    } else if (accept('}')) {
      if (--depth > 0) scope_ = static_cast<uint32_t>(function_->scopes[scope_].parent);
    } else {
      parse_body_item();
    }
  }
}

void Parser::parse_body_item() {
  FunctionSyntax& f = *function_;
  if (accept(';')) return;
  if (token_.kind == Token::kWord && ahead_.kind == Token::kPunct && ahead_.punct == ':') {
    const Token label = take();
    take();
    Scope& scope = f.scopes[scope_];
    if (at_word(".branchtargets")) {
      take();
      std::vector<Operand> targets;
      do {
        const Token t = token_;
        expect_word("a label");
        targets.push_back(name_operand(t));
      } while (accept(','));
      expect(';');
      scope.targets[label.text] = std::move(targets);
      return;
    }
    if (at_word(".callprototype") || at_word(".calltargets")) {
      while (token_.kind != Token::kEnd && !accept(';')) take();
      return;
    }
    if (!scope.labels.emplace(label.text, static_cast<uint32_t>(f.statements.size())).second)
      syntax_error(label.at, "label " + quoted(label.text) + " is defined twice");
    return;
  }
  if (token_.kind == Token::kWord && token_.text[0] == '.') {
    if (at_word(".reg")) return parse_registers();
    if (at_word(".loc")) return parse_loc();
    if (at_word(".file")) return parse_file_directive();
    if (at_word(".section")) return skip_section();
    if (at_word(".pragma")) {
      while (token_.kind != Token::kEnd && !accept(';')) take();
      return;
    }
    const Token t = token_;
    Space space;
    if (t.text == ".local")
      space = Space::kLocal;
    else if (t.text == ".shared")
      space = Space::kShared;
    else if (t.text == ".param")
      space = Space::kParam;
    else if (t.text == ".const")
      space = Space::kConst;
    else if (t.text == ".global")
      space = Space::kGlobal;
    else
      syntax_error(t.at, "unknown directive " + quoted(t.text));
    take();
    return parse_variables(space, false, f.variables, &f.scopes[scope_]);
  }
  parse_instruction();
}

void Parser::parse_registers() {
  take();
  const Token t = token_;
  const std::string_view name = expect_word("a register type");
  const auto type = name[0] == '.' ? type_from_name(name.substr(1)) : std::nullopt;
  if (!type) syntax_error(t.at, "found " + quoted(name) + ", expected a register type");
  Scope& scope = function_->scopes[scope_];
  do {
    const std::string_view reg = expect_word("a register name");
    RegisterRange range{*type, 0};
    if (accept('<')) {
      const Position at = token_.at;
      const uint64_t n = expect_integer("a register count");
      if (n > 1u << 24) syntax_error(at, "more than 16777216 registers");
      range.count = std::max<uint32_t>(1, static_cast<uint32_t>(n));
      expect('>');
    }
    scope.ranges[reg] = range;
  } while (accept(','));
  expect(';');
}

void Parser::parse_loc() {
  take();
  loc_file_ = static_cast<int>(expect_integer("a file number"));
  loc_line_ = static_cast<int>(expect_integer("a line"));
  expect_integer("a column");
  if (!accept(',')) return;
  expect_word("function_name");
  expect_word("a label");
  if (accept('+')) expect_integer("an offset");
  expect(',');
  expect_word("inlined_at");
  for (int i = 0; i < 3; ++i) expect_integer("a number");
}

std::optional<uint32_t> Parser::find_register(std::string_view name, Position at) {
  FunctionSyntax& f = *function_;
  const size_t last = name.find_last_not_of("0123456789");
  const std::string_view prefix = name.substr(0, last + 1), digits = name.substr(last + 1);
  for (int s = static_cast<int>(scope_); s >= 0; s = f.scopes[s].parent) {
    Scope& scope = f.scopes[s];
    if (const auto it = scope.registers.find(name); it != scope.registers.end()) return it->second;
    const RegisterRange* range = nullptr;
    if (const auto it = scope.ranges.find(name); it != scope.ranges.end() && it->second.count == 0) {
      range = &it->second;
    } else if (!digits.empty() && digits.size() < 10) {
      const auto in = scope.ranges.find(prefix);
      if (in != scope.ranges.end() && in->second.count > 0) {
        if (std::stoul(std::string(digits)) >= in->second.count)
          syntax_error(at,
                       "register " + quoted(name) + " is beyond the " + std::to_string(in->second.count) + " declared");
        range = &in->second;
      }
    }
    if (!range) continue;
    const uint32_t id = static_cast<uint32_t>(f.registers.size());
    f.registers.push_back({name, range->type});
    scope.registers[name] = id;
    return id;
  }
  return std::nullopt;
}

Operand Parser::name_operand(const Token& t) {
  Operand op;
  op.at = t.at;
  op.name = t.text;
  if (t.text == "_") return op;
  if (const auto reg = find_register(t.text, t.at)) {
    op.kind = Operand::kReg;
    op.reg = *reg;
  } else if (t.text == "WARP_SZ") {
    op.kind = Operand::kNumber;
    op.number.bits = 32;
  } else {
    op.kind = Operand::kName;
  }
  return op;
}

Operand Parser::parse_address() {
  Operand address;
  address.kind = Operand::kAddress;
  address.at = token_.at;
  expect('[');
  address.elems.push_back(parse_operand(1));
  if (address.elems[0].kind == Operand::kNumber) {
    address.offset = static_cast<int64_t>(address.elems[0].number.bits);
  } else if (at_punct('+') || at_punct('-')) {
    address.offset = static_cast<int64_t>(signed_number().bits);
  }
  while (accept(',')) address.elems.push_back(parse_operand(1));
  expect(']');
  return address;
}

Operand Parser::parse_operand(int depth) {
  if (depth > 8) syntax_error(token_.at, "operand nested too deeply");
  Operand op;
  op.at = token_.at;
  if (at_punct('[')) return parse_address();
  if (at_punct('{') || at_punct('(')) {
    op.kind = at_punct('{') ? Operand::kVector : Operand::kList;
    const char close = take().punct == '{' ? '}' : ')';
    while (!accept(close)) {
      op.elems.push_back(parse_operand(depth + 1));
      if (!at_punct(close)) expect(',');
    }
    return op;
  }
  if (accept('!')) {
    op = parse_operand(depth + 1);
    op.negated = !op.negated;
    return op;
  }
  if (token_.kind != Token::kWord) {
    op.kind = Operand::kNumber;
    op.number = signed_number();
    return op;
  }
  op = name_operand(take());
  if (depth == 0 && op.kind == Operand::kName && (at_punct('+') || at_punct('-')))
    op.offset = static_cast<int64_t>(signed_number().bits);
  if (accept('|')) {
    Operand pair;
    pair.kind = Operand::kPair;
    pair.at = op.at;
    pair.elems.push_back(std::move(op));
    pair.elems.push_back(parse_operand(depth + 1));
    return pair;
  }
  return op;
}

void Parser::parse_instruction() {
  FunctionSyntax& f = *function_;
  Statement s;
  s.at = token_.at;
  s.scope = scope_;
  s.loc_line = loc_line_;
  s.loc_file = loc_file_;
  const char* start = token_.text.data();
  if (accept('@')) {
    s.guard_negated = accept('!');
    const Token t = token_;
    const auto reg = find_register(expect_word("a predicate"), t.at);
    if (!reg) syntax_error(t.at, "unknown register " + quoted(t.text));
    if (f.registers[*reg].type != Type::kPred) syntax_error(t.at, quoted(t.text) + " is not a predicate");
    s.guard = static_cast<int>(*reg);
  }
  s.opcode = expect_word("an instruction");
  if (!at_punct(';')) {
    do {
      s.operands.push_back(parse_operand());
    } while (accept(','));
  }
  const char* end = token_.text.data();
  if (!at_punct(';')) syntax_error(token_.at, "found " + found(token_) + ", expected ';'");
  take();
  s.text = std::string_view(start, static_cast<size_t>(end - start));
  f.statements.push_back(std::move(s));
}

template <typename Map>
const typename Map::mapped_type* find_scoped(const FunctionSyntax& f, uint32_t scope, std::string_view name,
                                             Map Scope::* map) {
  for (int s = static_cast<int>(scope); s >= 0; s = f.scopes[s].parent) {
    const Map& m = f.scopes[s].*map;
    if (const auto it = m.find(name); it != m.end()) return &it->second;
  }
  return nullptr;
}

}  // namespace

const std::vector<Operand>* FunctionSyntax::find_targets(uint32_t scope, std::string_view label) const {
  return find_scoped(*this, scope, label, &Scope::targets);
}
const uint32_t* FunctionSyntax::find_label(uint32_t scope, std::string_view label) const {
  return find_scoped(*this, scope, label, &Scope::labels);
}
const Variable* FunctionSyntax::find_variable(uint32_t scope, std::string_view variable) const {
  const uint32_t* index = find_scoped(*this, scope, variable, &Scope::variables);
  return index ? &variables[*index] : nullptr;
}

ModuleSyntax parse_syntax(std::string_view text) { return Parser(text).parse_module(); }

}  // namespace tilewright::sim
