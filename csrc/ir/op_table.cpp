#include <unordered_map>

#include "ir/graph.h"
#include "support/reader.h"

namespace tilewright {
namespace {

AttrKind attr_kind(std::string_view text) {
  static const std::pair<std::string_view, AttrKind> kKinds[] = {
      {"dtype", AttrKind::kDType}, {"bool", AttrKind::kBool},           {"number", AttrKind::kNumber},
      {"size", AttrKind::kSize},   {"sizes", AttrKind::kSizes},         {"dim", AttrKind::kDim},
      {"dims", AttrKind::kDims},   {"precision", AttrKind::kPrecision},
  };
  for (const auto& [name, kind] : kKinds) {
    if (name == text) return kind;
  }
  throw InternalError("ops.def: unknown attribute kind " + std::string(text));
}

std::vector<AttrInfo> read_attrs(const char* text) {
  std::vector<AttrInfo> out;
  Reader reader(text, "ops.def");
  while (!reader.at_end()) {
    std::string name(reader.word("an attribute's name"));
    reader.expect(":");
    out.push_back({std::move(name), attr_kind(reader.word("an attribute's kind"))});
  }
  return out;
}

}  // namespace

const std::vector<OpInfo>& all_ops() {
  static const std::vector<OpInfo> table = {
#define TW_OP(id, text, category, operands, results, cost, attrs, rule, doc) \
  OpInfo{Op::id, text, category, operands, results, cost, read_attrs(attrs), rule, doc},
#include "ir/ops.def"
#undef TW_OP
  };
  return table;
}

const OpInfo& info(Op op) { return all_ops()[static_cast<size_t>(op)]; }

std::optional<Op> op_from_name(std::string_view text) {
  static const std::unordered_map<std::string_view, Op> by_name = [] {
    std::unordered_map<std::string_view, Op> names;
    for (const OpInfo& row : all_ops()) names.emplace(row.text, row.op);
    return names;
  }();
  const auto it = by_name.find(text);
  if (it == by_name.end()) return std::nullopt;
  return it->second;
}

}  // namespace tilewright
