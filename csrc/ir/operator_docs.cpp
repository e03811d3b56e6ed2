#include "ir/operator_docs.h"

#include "ir/graph.h"

namespace tilewright {
namespace {

const char* attr_kind_text(AttrKind kind) {
  switch (kind) {
    case AttrKind::kDType:
      return "element type";
    case AttrKind::kBool:
      return "true or false";
    case AttrKind::kNumber:
      return "number";
    case AttrKind::kSize:
      return "size";
    case AttrKind::kSizes:
      return "[sizes]";
    case AttrKind::kDim:
      return "dimension";
    case AttrKind::kDims:
      return "[dimensions]";
    case AttrKind::kPrecision:
      return "ieee or tf32";
  }
  return "";
}

// Element types of operands and results, where the documentation column does not say.
const char* types_text(Rule rule) {
  switch (rule) {
    case Rule::kAny:
      return "any";
    case Rule::kNumber:
      return "floats, integers";
    case Rule::kFloat:
      return "floats";
    case Rule::kInteger:
      return "integers";
    case Rule::kBits:
      return "integers, bool";
    case Rule::kCompare:
      return "any → bool";
    case Rule::kFloatTest:
      return "floats → bool";
    case Rule::kWhere:
      return "bool, any, any";
    case Rule::kCast:
      return "any → any";
    case Rule::kBitcast:
      return "any → any";
    case Rule::kReduceNumber:
      return "floats, integers";
    case Rule::kReduceFloat:
      return "floats";
    case Rule::kReduceBool:
      return "bool";
    case Rule::kReduceIndex:
      return "any → i64";
    case Rule::kWelford:
      return "floats → compute type, twice";
    case Rule::kMatmul:
      return "floats → compute type";
    case Rule::kConstant:
      return "→ any";
    case Rule::kSymInt:
      return "→ integers, f64";
    case Rule::kIota:
      return "→ floats, integers";
    case Rule::kGiven:
      return "as written";
    default:
      return "any";
  }
}

struct Section {
  Category category;
  const char* title;
  const char* text;
};

constexpr Section kSections[] = {
    {Category::kConstant, "Constants", "Rank 0, the same for every element that reads them."},
    {Category::kPointwise, "Pointwise",
     "Operands have one element type (unless the table says otherwise) and one shape or rank 0; the result has that "
     "shape. Each "
     "element is computed in the compute type and rounded once."},
    {Category::kView, "Index maps",
     "The result's element at an index is an operand's element at a function of that index. They cost nothing by "
     "themselves: a "
     "kernel reads through them."},
    {Category::kReduction, "Reductions",
     "Over `dims` (sorted, not negative); `keepdim` keeps each as size 1. Floats accumulate in the compute type or "
     "wider."},
    {Category::kContraction, "Contractions",
     "Products are summed in the compute type, which is the result's: rounding to a narrower type is a `cast`."},
    {Category::kCall, "Calls", "Run by PyTorch."},
    {Category::kHost, "Host steps", "Run by Python."},
};

std::string operands_text(int count) { return count < 0 ? "any" : std::to_string(count); }

std::string attrs_text(const OpInfo& row) {
  std::string out;
  for (const AttrInfo& attr : row.attrs) {
    if (!out.empty()) out += ", ";
    out += "`" + attr.name + "` " + attr_kind_text(attr.kind);
  }
  return out;
}

std::string row_text(const OpInfo& row) {
  std::string out = "| `" + std::string(row.text) + "` | " + operands_text(row.operands) + " | ";
  return out + types_text(row.rule) + " | " + attrs_text(row) + " | " + row.doc + " |\n";
}

}  // namespace

std::string operators_markdown() {
  std::string out =
      "# Operators of Graph IR\n\n"
      "Generated from `csrc/ir/ops.def`; `./dev bless` rewrites it. [graph-ir.md](graph-ir.md) explains types, compute "
      "types and the text form. What becomes of PyTorch's operators stands [below](#operators-of-pytorch).\n";
  for (const Section& section : kSections) {
    out += "\n## " + std::string(section.title) + "\n\n" + section.text + "\n\n";
    out += "| operator | operands | element types | attributes | notes |\n| --- | --- | --- | --- | --- |\n";
    for (const OpInfo& row : all_ops()) {
      if (row.category == section.category) out += row_text(row);
    }
  }
  return out;
}

}  // namespace tilewright
