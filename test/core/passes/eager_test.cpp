// The rules of `decompose` against eager PyTorch on a GPU: inputs/eager.jsonl holds, for every operator with a rule,
// what eager gave (record_eager.py). Each case is decomposed and run in the interpreter.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ir/interp.h"
#include "passes/passes.h"

namespace tilewright {
namespace {

HostTensor decode(const nlohmann::json& json) {
  const DType dtype = *dtype_from_name(json["dtype"].get<std::string>());
  const std::vector<int64_t> shape = json["shape"];
  const std::string hex = json["bits"];
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return load(dtype, shape, dense_strides(shape), bytes.data());
}

struct EagerCase {
  std::string name, graph;
  std::vector<HostTensor> inputs, outputs;
};

std::vector<EagerCase> read_cases() {
  const char* other = std::getenv("TILEWRIGHT_EAGER_CASES");
  std::ifstream file(other ? other : TILEWRIGHT_SOURCE_DIR "/test/core/passes/inputs/eager.jsonl");
  std::vector<EagerCase> cases;
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json json = nlohmann::json::parse(line);
    EagerCase c{json["name"], json["graph"], {}, {}};
    for (const auto& t : json["inputs"]) c.inputs.push_back(decode(t));
    for (const auto& t : json["outputs"]) c.outputs.push_back(decode(t));
    cases.push_back(std::move(c));
  }
  return cases;
}

// Units in the last place of a type between two of its values; 0 also for two NaN.
double ulps(DType t, double found, double expected) {
  if (std::isnan(found) || std::isnan(expected)) return std::isnan(found) == std::isnan(expected) ? 0 : INFINITY;
  if (found == expected) return std::signbit(found) == std::signbit(expected) || expected != 0 ? 0 : 1;
  if (std::isinf(found) || std::isinf(expected)) return INFINITY;
  const int digits = t == DType::kF64 ? 53 : t == DType::kF32 ? 24 : t == DType::kF16 ? 11 : 8;
  const int exponent = std::max(std::ilogb(expected == 0 ? found : expected), t == DType::kF16 ? -14 : -126);
  return std::fabs(found - expected) / std::ldexp(1.0, exponent - digits + 1);
}

bool mentions(const std::string& name, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    if (name.find(part) != std::string::npos) return true;
  }
  return false;
}

// What eager's GPU functions and sums may be off from the interpreter's.
struct Allowed {
  double ulps = 0, absolute = 0;
};

Allowed allowed(const std::string& name, DType t) {
  if (!is_float(t)) return {};
  // Eager's kernel holds partial sums of this one in 16 bits; the rule's are wide.
  if (mentions(name, {"native_batch_norm_backward.default-bf16", "native_batch_norm_backward.default-f16"}))
    return {1, 0.1};
  // 16 bits hide all but ties, where the last bit of a function or sum decides; those are rare.
  if (compute_type(t) != t) return {1, 0};
  // Sums in another order, and formulas whose terms cancel: a few last bits of their terms, which are of size 1.
  const bool adds = mentions(name, {"sum", "mean", "norm", "softmax", "var", "std", "loss", "cross_entropy"});
  const bool cancels = mentions(name, {"gelu", "mish", "lgamma", "sinc"});
  return {mentions(name, {"pow", "prod"}) ? 16.0 : 4.0, adds || cancels ? 1e-6 : 0};
}

std::string check(const EagerCase& c) {
  Graph g = parse_graph(c.graph, c.name);
  const std::vector<Refusal> refusals = decompose_with_reasons(g, Context{});
  if (!refusals.empty()) return "stays a call: " + refusals[0].reason;
  const std::vector<std::string> errors = verify(g);
  if (!errors.empty()) return errors[0];
  std::vector<InterpValue> inputs;
  for (const HostTensor& t : c.inputs) inputs.push_back(InterpValue::tensor(t));
  const std::vector<InterpValue> found = interpret(g, inputs);
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    const HostTensor& have = found[i].tensor();
    const HostTensor& want = c.outputs[i];
    if (have.dtype != want.dtype || have.shape != want.shape)
      return "result " + std::to_string(i) + " is of another type";
    const Allowed allow = allowed(c.name, want.dtype);
    double worst = 0;
    int64_t where = 0, off = 0;
    for (int64_t k = 0; k < want.numel(); ++k) {
      const double d = want.is_float() ? ulps(want.dtype, have.number(k), want.number(k))
                                       : std::fabs(have.number(k) - want.number(k));
      off += d > 0 ? 1 : 0;
      if (d > worst && !(std::fabs(have.number(k) - want.number(k)) <= allow.absolute)) {
        worst = d;
        where = k;
      }
    }
    const bool often = is_float(want.dtype) && compute_type(want.dtype) != want.dtype && allow.absolute == 0 &&
                       off > 1 + want.numel() / 20;
    if (worst > allow.ulps || often) {
      std::ostringstream text;
      text << "result " << i << ", element " << where << ": " << have.number(where) << ", eager " << want.number(where)
           << " (" << worst << " off; " << off << " of " << want.numel() << " differ)";
      if (!c.inputs.empty() && where < c.inputs[0].numel()) text << "; first operand " << c.inputs[0].number(where);
      return text.str();
    }
  }
  return "";
}

TEST(Decompose, AgreesWithEagerOnTheGpu) {
  const std::vector<EagerCase> cases = read_cases();
  ASSERT_GT(cases.size(), 500U);
  for (const EagerCase& c : cases) {
    const std::string difference = check(c);
    EXPECT_TRUE(difference.empty()) << c.name << ": " << difference;
  }
}

}  // namespace
}  // namespace tilewright
