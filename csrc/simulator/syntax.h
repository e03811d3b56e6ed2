#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "simulator/lexer.h"
#include "simulator/scalar_type.h"
#include "simulator/simulator.h"

// The syntax tree of a PTX module. Names are views into the module's text, which the owner keeps.
namespace tilewright::sim {

struct Operand {
  enum Kind : uint8_t {
    kReg,      // reg
    kNumber,   // number
    kName,     // name: variable, function, label or special register
    kAddress,  // elems[0] + offset; further elems are coordinates
    kVector,   // {elems}
    kPair,     // elems[0] | elems[1]
    kList,     // (elems) of a call
    kSink,     // _
  };
  Kind kind = kSink;
  bool negated = false;  // !p
  uint32_t reg = 0;
  int64_t offset = 0;
  Number number;
  std::string_view name;
  std::vector<Operand> elems;
  Position at;
};

struct Statement {
  std::string_view opcode;  // with all modifiers
  std::string_view text;    // as written, for reports
  std::vector<Operand> operands;
  Position at;
  int guard = -1;  // register of @p
  bool guard_negated = false;
  uint32_t scope = 0;
  int loc_line = 0;
  int loc_file = 0;
};

// A symbol's address inside an initialiser.
struct Relocation {
  uint64_t offset = 0;
  uint32_t bytes = 8;
  std::string_view symbol;
  int64_t addend = 0;
  bool generic = false;
  Position at;
};

struct Variable {
  std::string_view name;
  Space space = Space::kGlobal;
  Type type = Type::kB8;
  uint64_t bytes = 0;
  uint32_t align = 1;
  bool is_extern = false;  // with space kShared and no size: dynamic shared memory
  bool is_array = false;
  std::vector<std::byte> init;  // empty: zeros
  std::vector<Relocation> relocations;
  Position at;
};

struct RegisterRange {
  Type type = Type::kB32;
  uint32_t count = 0;  // names prefix0 .. prefix<count-1>; 0: the single name
};

struct Scope {
  int parent = -1;
  std::unordered_map<std::string_view, RegisterRange> ranges;
  std::unordered_map<std::string_view, uint32_t> registers;            // those in use
  std::unordered_map<std::string_view, uint32_t> variables;            // into FunctionSyntax::variables
  std::unordered_map<std::string_view, uint32_t> labels;               // statement that follows
  std::unordered_map<std::string_view, std::vector<Operand>> targets;  // .branchtargets
};

struct RegisterSyntax {
  std::string_view name;
  Type type = Type::kB32;
};

struct FunctionSyntax {
  std::string_view name;
  bool is_entry = false;
  bool has_body = false;
  std::vector<Variable> params;
  std::vector<Variable> results;
  std::vector<Variable> variables;  // of the body: shared, local, param, const
  std::vector<RegisterSyntax> registers;
  std::vector<Scope> scopes;
  std::vector<Statement> statements;
  std::array<uint32_t, 3> maxntid{0, 0, 0};
  std::array<uint32_t, 3> reqntid{0, 0, 0};
  std::array<uint32_t, 3> reqcluster{0, 0, 0};
  Position at;

  const std::vector<Operand>* find_targets(uint32_t scope, std::string_view label) const;
  const uint32_t* find_label(uint32_t scope, std::string_view label) const;
  const Variable* find_variable(uint32_t scope, std::string_view variable) const;
};

struct ModuleSyntax {
  std::string_view version;
  std::string_view target;
  std::vector<Variable> variables;  // .global, .const, .shared
  std::vector<FunctionSyntax> functions;
  std::map<int, std::string_view> files;
};

ModuleSyntax parse_syntax(std::string_view text);

}  // namespace tilewright::sim
