// Functions of one 16-bit value in their short forms against libdevice's, for every value there is.

#include "codegen/narrow_functions.h"

#include <regex>

#include "kernel_runner.h"

namespace tilewright {
namespace {

constexpr int64_t kValues = 65536;

// A body from the text of a function: %0 is x. With `opened` a value inside is an output too, so that no step may be
// shortened.
class Body {
 public:
  Body(const NarrowFunction& f, bool opened) : text_(f.text) {
    x_ = graph_.add_parameter("0", Type::tensor(f.dtype, {kValues}));
    wide_ = graph_.add(Op::kCast, {x_}, {{"to", DType::kF32}})->result();
    Value* result = term();
    Value* narrow = graph_.add(Op::kCast, {result}, {{"to", f.dtype}})->result();
    std::vector<Output> outputs = {{{narrow}, nullptr}};
    if (opened) outputs.push_back({{result}, nullptr});
    for (Value* inside : opened ? inner_ : std::vector<Value*>{}) outputs.push_back({{inside}, nullptr});
    graph_.set_outputs(std::move(outputs));
  }
  Graph take() { return std::move(graph_); }

 private:
  Value* term() {
    const size_t end = std::min(text_.find_first_of("(),", at_), text_.size());
    const std::string word = text_.substr(at_, end - at_);
    at_ = end;
    if (at_ == text_.size() || text_[at_] != '(')
      return word == "x" ? wide_ : graph_.constant(DType::kF32, std::stod(word));
    std::vector<Value*> operands;
    while (text_[at_] != ')') {
      ++at_;
      operands.push_back(term());
    }
    ++at_;
    Value* value = graph_.add(*op_from_name(word), operands)->result();
    if (value->type.dtype == DType::kF32) inner_.push_back(value);
    return value;
  }

  Graph graph_{"k"};
  const std::string text_;
  size_t at_ = 0;
  Value *x_ = nullptr, *wide_ = nullptr;
  std::vector<Value*> inner_;
};

// The function's results for all values, with the GPU's approximations off by so many units in their last place.
std::vector<uint16_t> results(Graph body, int units_off, const char* which) {
  const KernelRunner runner(std::move(body));
  const Schedule& schedule = runner.proposal.candidates.at(0).schedule;
  const KernelCode code = generate(runner.body, schedule, runner.arch, runner.context);
  std::string ptx = code.ptx;
  if (units_off != 0) {
    const auto factor = [](int units) {
      std::array<char, 16> text{};
      std::snprintf(text.data(), text.size(), "0f%08X",
                    std::bit_cast<uint32_t>(1 + static_cast<float>(units) * 0x1p-23F));
      return std::string(text.data());
    };
    const std::regex approximation(std::string(which) + R"(\.approx(\.ftz)?\.f32\s+(%f\d+),[^;]*;)");
    // But for powers of two, which are exact.
    const std::string moved =
        "$&\n\t{ .reg .pred off; .reg .b32 bits;\n\tmov.b32 bits, $3;\n\tand.b32 bits, bits, 8388607;\n"
        "\tsetp.ne.u32 off, bits, 0;\n\t@off mul.rn.f32 $3, $3, " +
        factor(units_off) + "; }";
    ptx = std::regex_replace(ptx, approximation, moved);
  }
  std::vector<uint16_t> x(kValues), y(kValues);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint16_t>(i);
  std::vector<std::vector<float>> others(runner.body.outputs().size() - 1, std::vector<float>(kValues));
  std::vector<sim::Allocation> memory;
  std::vector<std::vector<std::byte>> args;
  auto pointer = [&](void* base, size_t bytes) {
    memory.push_back({reinterpret_cast<uint64_t>(base), bytes, ""});
    args.push_back(sim::arg(reinterpret_cast<uint64_t>(base)));
  };
  pointer(x.data(), 2 * kValues);
  pointer(y.data(), 2 * kValues);
  for (auto& other : others) pointer(other.data(), 4 * kValues);
  const LaunchShape shape = launch_shape(runner.body, schedule, runner.context.gpu);
  sim::LaunchConfig config;
  config.grid[0] = static_cast<uint32_t>(*shape.grid[0].constant());
  config.block[0] = static_cast<uint32_t>(shape.block[0]);
  config.threads = 1;
  config.counters = false;
  sim::launch(*sim::parse(ptx), code.entry, config, args, memory);
  return y;
}

std::string differences(const std::vector<uint16_t>& found, const std::vector<uint16_t>& expected, DType dtype) {
  std::string text;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] != expected[i]) text += " " + std::to_string(float_of_bits(dtype, i));
  }
  return text;
}

// Whether the short form takes exp from the library as it is.
bool keeps_exponentials(const NarrowFunction& f) {
  const bool changes = std::any_of(f.shortened.begin(), f.shortened.end(),
                                   [](Op op) { return op == Op::kExp || op == Op::kErf || op == Op::kTanh; });
  return !changes;
}

TEST(NarrowFunctions, HaveTheBitsOfTheLibrarysForm) {
  for (const NarrowFunction& f : narrow_functions()) {
    SCOPED_TRACE(std::string(f.name) + " " + name(f.dtype));
    const auto of = [&](bool opened, int units_off, const char* which) {
      return results(Body(f, opened).take(), units_off, which);
    };
    const std::vector<uint16_t> expected = of(true, 0, "");
    // A GPU's approximations are not those of the simulator to the last bit. What both forms have in common may change
    // both, the rest may change neither.
    for (int units : {0, 1, -1}) {
      EXPECT_EQ(differences(of(false, units, "(rcp)"), expected, f.dtype), "") << "reciprocals off by " << units;
      EXPECT_EQ(
          differences(of(false, units, "(ex2)"), keeps_exponentials(f) ? of(true, units, "(ex2)") : expected, f.dtype),
          "")
          << "exponentials off by " << units;
    }
  }
}

std::vector<Form> forms_in(const std::string& text) {
  const Graph body = parse_graph(text);
  const ProgramResult made = make_element_program(body);
  std::vector<Form> forms;
  const std::vector<Form> all = forms_of(*made.program);
  for (size_t i = 0; i < all.size(); ++i) {
    if (made.program->steps[i].kind == ProgramStep::Kind::kPointwise) forms.push_back(all[i]);
  }
  return forms;
}

std::string gelu(const std::string& dtype, const std::string& last, const std::string& outputs) {
  return "graph @k(%0: " + dtype + "[64]) -> " + outputs + R"( {
  %x = cast %0 to f32
  %half = constant dtype f32 value 0.5
  %h = mul %x, %half
  %root = constant dtype f32 value 0.70710678118654752440
  %u = mul %x, %root
  %e = erf %u
  %one = constant dtype f32 value 1.0
  %p = add %one, %e
  %g = mul %h, %p
)" + last +
         "}\n";
}

TEST(NarrowFunctions, AreFoundWhereTheyAreRoundedAndServeNothingElse) {
  const auto shortened = [](const std::string& text) {
    const std::vector<Form> forms = forms_in(text);
    return std::count(forms.begin(), forms.end(), Form::kShort);
  };
  EXPECT_EQ(shortened(gelu("bf16", "  %r = cast %g to bf16\n  return %r\n", "bf16[64]")), 1);
  EXPECT_EQ(shortened(gelu("f16", "  %r = cast %g to f16\n  return %r\n", "f16[64]")), 0) << "not in the table";
  EXPECT_EQ(shortened(gelu("bf16", "  return %g\n", "f32[64]")), 0) << "not rounded";
  EXPECT_EQ(shortened(gelu("bf16", "  %r = cast %g to f16\n  return %r\n", "f16[64]")), 0) << "to another type";
  EXPECT_EQ(shortened(gelu("bf16", "  %r = cast %g to bf16\n  return %r, %e\n", "(bf16[64], f32[64])")), 0)
      << "erf is an output as well";
  EXPECT_EQ(shortened("graph @k(%0: bf16[64]) -> bf16[64] {\n  %1 = reciprocal %0\n  return %1\n}\n"), 1)
      << "the operator rounds itself";
}

TEST(NarrowFunctions, SoftmaxDividesByASharedReciprocalWhereItIsRounded) {
  const auto softmax = [](const std::string& last, const std::string& output) {
    return "graph @k(%0: bf16[16, 64]) -> " + output + R"([16, 64] {
  %1 = cast %0 to f32
  %2 = max %1 dims [1] keepdim true
  %3 = expand %2 shape [16, 64]
  %4 = sub %1, %3
  %5 = exp %4
  %6 = sum %5 dims [1] keepdim true
  %7 = expand %6 shape [16, 64]
  %8 = div %5, %7
)" + last + "}\n";
  };
  const std::string rounded = softmax("  %9 = cast %8 to bf16\n  return %9\n", "bf16");
  const std::vector<Form> narrow = forms_in(rounded), wide = forms_in(softmax("  return %8\n", "f32"));
  EXPECT_EQ(std::count(narrow.begin(), narrow.end(), Form::kShared), 1);
  EXPECT_EQ(std::count(wide.begin(), wide.end(), Form::kShared), 0);
  // Rows of nothing but -inf, of NaN, and with differences beyond what exp can tell.
  const KernelRunner runner(rounded);
  std::vector<InterpValue> inputs = random_inputs(runner.body, {}, 1);
  HostTensor x = inputs[0].tensor();
  for (size_t i = 0; i < 64; ++i) {
    x.floats[i] = -std::numeric_limits<double>::infinity();
    x.floats[64 + i] = i == 3 ? std::numeric_limits<double>::quiet_NaN() : 1;
    x.floats[128 + i] = i == 5 ? 0 : -60 - static_cast<double>(i);
    x.floats[192 + i] = i == 7 ? std::numeric_limits<double>::infinity() : 0;
  }
  inputs[0] = InterpValue::tensor(x);
  runner.check({}, inputs);
}

}  // namespace
}  // namespace tilewright
