#include "codegen/narrow_functions.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>

namespace tilewright {
namespace {

using Kind = ProgramStep::Kind;

constexpr int kNone = -1;
constexpr size_t kMostSteps = 24;

bool is_narrow(DType t) { return t == DType::kBF16 || t == DType::kF16; }

// The function that ends at one step: what it is made of, and the one value that it is a function of.
class Cone {
 public:
  Cone(const ElementProgram& p, int root) : p_(p), dtype_(p.steps[root].dtype) {
    if (p.steps[root].kind != Kind::kPointwise || !is_narrow(dtype_)) return;
    std::string text = body_of(root);
    if (is_function_ && leaf_ != kNone) text_ = std::move(text);
  }

  const std::string& text() const { return text_; }
  DType dtype() const { return dtype_; }
  const std::set<int>& steps() const { return inside_; }

 private:
  std::string fail() {
    is_function_ = false;
    return "";
  }

  std::string body_of(int step) {
    const ProgramStep& s = p_.steps[step];
    inside_.insert(step);
    if (inside_.size() > kMostSteps) return fail();
    if (s.node->op == Op::kCast) return text_of(s.operands[0]);
    std::string text = std::string(s.node->info().text) + "(";
    for (size_t i = 0; i < s.operands.size() && is_function_; ++i) text += (i ? "," : "") + text_of(s.operands[i]);
    return text + ")";
  }

  std::string text_of(int step) {
    const ProgramStep& s = p_.steps[step];
    if (s.kind == Kind::kConstant) return number(*s.node);
    if (s.dtype == dtype_) {  // a value rounded to the type, wherever it comes from
      if (leaf_ != kNone && leaf_ != step) return fail();
      leaf_ = step;
      return "x";
    }
    if (s.kind != Kind::kPointwise || (s.dtype != DType::kF32 && s.dtype != DType::kBool)) return fail();
    return body_of(step);
  }

  std::string number(const Node& node) {
    const auto* value = std::get_if<double>(node.find_attr("value"));
    if (!value) return fail();
    std::array<char, 32> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), static_cast<float>(*value)).ptr;
    return {text.data(), end};
  }

  const ElementProgram& p_;
  const DType dtype_;
  bool is_function_ = true;
  int leaf_ = kNone;
  std::set<int> inside_;
  std::string text_;
};

// Steps that use each step; kNone for uses that are no steps.
std::vector<std::vector<int>> users_of(const ElementProgram& p) {
  std::vector<std::vector<int>> users(p.steps.size());
  for (size_t i = 0; i < p.steps.size(); ++i) {
    for (int o : p.steps[i].operands) users[o].push_back(static_cast<int>(i));
  }
  for (const ProgramStore& s : p.stores) users[s.step].push_back(kNone);
  for (const ProgramReduction& r : p.reductions) users[r.operand].push_back(kNone);
  return users;
}

}  // namespace

const std::vector<NarrowFunction>& narrow_functions() {
  static constexpr const char* kGelu = "mul(mul(x,0.5),add(1,erf(mul(x,0.70710677))))";
  static constexpr const char* kGeluTanh =
      "mul(mul(0.5,x),add(1,tanh(mul(0.7978846,fma(0.044715,mul(mul(x,x),x),x)))))";
  static constexpr const char* kSilu = "div(x,add(1,exp(neg(x))))";
  static constexpr const char* kSigmoid = "div(1,add(1,exp(neg(x))))";
  static const std::vector<NarrowFunction> kTable = {
      {"gelu", kGelu, DType::kBF16, {Op::kErf}},
      {"gelu_tanh", kGeluTanh, DType::kBF16, {Op::kTanh}},
      {"silu", kSilu, DType::kBF16, {Op::kDiv}},
      {"sigmoid", kSigmoid, DType::kBF16, {Op::kDiv}},
      {"sigmoid", kSigmoid, DType::kF16, {Op::kDiv}},
      {"reciprocal", "reciprocal(x)", DType::kBF16, {Op::kReciprocal}},
      {"reciprocal", "reciprocal(x)", DType::kF16, {Op::kReciprocal}},
  };
  return kTable;
}

std::string narrow_text(const ElementProgram& p, int step) { return Cone(p, step).text(); }

namespace {

// Shortens the function that ends at `root`, if it stands in the table and its steps serve nothing else.
void shorten(const ElementProgram& p, int root, const std::vector<std::vector<int>>& users, std::vector<Form>& forms) {
  const Cone cone(p, root);
  if (cone.text().empty()) return;
  const auto& table = narrow_functions();
  const auto row = std::find_if(table.begin(), table.end(), [&](const NarrowFunction& f) {
    return f.dtype == cone.dtype() && f.text == cone.text();
  });
  if (row == table.end()) return;
  const auto is_inside = [&](int step) { return cone.steps().count(step) > 0; };
  for (int step : cone.steps()) {
    const bool is_widening = p.steps[step].node->op == Op::kCast;
    if (step != root && !is_widening && !std::all_of(users[step].begin(), users[step].end(), is_inside)) return;
  }
  for (int step : cone.steps()) {
    const auto& ops = row->shortened;
    if (std::find(ops.begin(), ops.end(), p.steps[step].node->op) != ops.end()) forms[step] = Form::kShort;
  }
}

// exp(x - max) / sum of the same, for rounding to 16 bits only.
bool is_softmax_quotient(const ElementProgram& p, int step, const std::vector<std::vector<int>>& users) {
  const ProgramStep& s = p.steps[step];
  if (s.kind != Kind::kPointwise || s.node->op != Op::kDiv || s.dtype != DType::kF32) return false;
  const ProgramStep& divisor = p.steps[s.operands[1]];
  if (divisor.kind != Kind::kReduced) return false;
  const ProgramReduction& sum = p.reductions[divisor.reduction];
  return sum.maximum >= 0 && sum.operand == s.operands[0] &&
         std::all_of(users[step].begin(), users[step].end(),
                     [&](int user) { return user != kNone && is_narrow(p.steps[user].dtype); });
}

}  // namespace

std::vector<Form> forms_of(const ElementProgram& p) {
  std::vector<Form> forms(p.steps.size(), Form::kLibrary);
  const std::vector<std::vector<int>> users = users_of(p);
  for (int step = 0; step < static_cast<int>(p.steps.size()); ++step) {
    shorten(p, step, users, forms);
    if (is_softmax_quotient(p, step, users)) forms[step] = Form::kShared;
  }
  return forms;
}

}  // namespace tilewright
