// Kernels for products of matrices, on the simulator against the interpreter.

#include <gtest/gtest.h>

#include <map>
#include <regex>

#include "../load_assembler.h"
#include "kernel_runner.h"

namespace tilewright {
namespace {

TEST(Matmul, LinearWithBiasAndActivation) {
  KernelRunner runner(R"(graph @k(%0: bf16[70, 64], %1: bf16[72, 64], %2: bf16[72]) -> bf16[70, 72] {
    %3 = permute %1 dims [1, 0]
    %4 = matmul %0, %3 precision ieee
    %5 = cast %2 to f32
    %6 = expand %5 shape [70, 72]
    %7 = add %4, %6
    %8 = cast %7 to bf16
    %9 = cast %8 to f32
    %10 = tanh %9
    %11 = cast %10 to bf16
    return %11
  })",
                      "sm_80");
  runner.check_shared = true;
  runner.check({}, {0, 1e-3});
}

TEST(Matmul, PairOfAGatedLayer) {
  KernelRunner runner(R"(graph @k(%0: bf16[40, 64], %1: bf16[128, 64], %2: bf16[128, 64]) -> bf16[40, 128] {
    %3 = permute %1 dims [1, 0]
    %4 = matmul %0, %3 precision ieee
    %5 = permute %2 dims [1, 0]
    %6 = matmul %0, %5 precision ieee
    %7 = sigmoid %4
    %8 = mul %7, %6
    %9 = cast %8 to bf16
    return %9
  })",
                      "sm_80");
  runner.check_shared = true;
  runner.check({}, {1e-3, 1e-3});
}

// A product with random sizes, layouts, types, and what surrounds it.
struct RandomProduct {
  std::string text;
  DType dtype = DType::kBF16;
  int64_t k = 0;
  bool tf32 = false;
};

class ProductMaker {
 public:
  explicit ProductMaker(uint64_t seed) : random_(seed) {}

  RandomProduct make() {
    RandomProduct out;
    const int type = pick(0, 4);
    out.dtype = std::vector{DType::kBF16, DType::kBF16, DType::kF16, DType::kF32, DType::kF32}[type];
    out.tf32 = type == 4;
    dtype_ = name(out.dtype);
    const std::vector<int64_t> sizes = {1, 7, 8, 16, 24, 33, 50, 64, 72, 100};
    const auto size = [&] { return sizes[pick(0, static_cast<int>(sizes.size()) - 1)]; };
    m_ = size(), n_ = size(), out.k = pick(0, 9) == 0 ? 0 : pick(0, 3) == 0 ? 200 : size();
    batch_ = pick(0, 2) == 0 ? pick(1, 3) : 0;
    const std::string a = operand(m_, out.k), b = operand(out.k, n_);
    const std::string product = line("matmul " + a + ", " + b + " precision " + (out.tf32 ? "tf32" : "ieee"));
    std::string y = product;
    if (pick(0, 3) == 0)
      y = line("tanh " +
               line("mul " + product + ", " +
                    line("matmul " + a + ", " + operand(out.k, n_) + " precision " + (out.tf32 ? "tf32" : "ieee"))));
    if (pick(0, 1) == 0)
      y = line("add " + y + ", " + line("expand " + widened(parameter({n_})) + " shape " + shape(m_, n_)));
    if (pick(0, 2) == 0) y = line("add " + y + ", " + widened(parameter(dims(m_, n_))));
    if (pick(0, 2) == 0) y = line("abs " + y);
    std::string results = line("cast " + y + " to " + dtype_), types = dtype_ + shape(m_, n_);
    if (pick(0, 3) == 0 && batch_ == 0) {
      results = line("permute " + results + " dims [1, 0]");
      types = dtype_ + shape(n_, m_);
    }
    if (pick(0, 3) == 0) results += ", " + y, types += ", f32" + shape(m_, n_);
    out.text = "graph @k(" + parameters_ + ") -> (" + types + ") {\n" + body_ + "  return " + results + "\n}";
    return out;
  }

 private:
  int pick(int low, int high) {
    random_ = random_ * 6364136223846793005U + 1442695040888963407U;
    return low + static_cast<int>((random_ >> 33) % static_cast<uint64_t>(high - low + 1));
  }
  std::vector<int64_t> dims(int64_t rows, int64_t columns) const {
    return batch_ ? std::vector{batch_, rows, columns} : std::vector{rows, columns};
  }
  static std::string list(const std::vector<int64_t>& all) {
    std::string out = "[";
    for (int64_t d : all) out += (out.size() > 1 ? ", " : "") + std::to_string(d);
    return out + "]";
  }
  std::string shape(int64_t rows, int64_t columns) const { return list(dims(rows, columns)); }
  std::string line(const std::string& text) {
    const std::string name = "%v" + std::to_string(count_++);
    body_ += "  " + name + " = " + text + "\n";
    return name;
  }
  std::string parameter(const std::vector<int64_t>& dims, const std::string& strides = "") {
    const std::string name = "%p" + std::to_string(count_++);
    parameters_ += (parameters_.empty() ? "" : ", ") + name + ": " + dtype_ + list(dims) + strides;
    return name;
  }
  std::string widened(const std::string& value) { return dtype_ == "f32" ? value : line("cast " + value + " to f32"); }

  // Rows by columns: as it is, transposed, with gaps between rows, of fewer batches, computed, of one row, or
  // backwards.
  std::string operand(int64_t rows, int64_t columns) {
    const std::string transposed = batch_ ? " dims [0, 2, 1]" : " dims [1, 0]";
    switch (pick(0, 7)) {
      case 0:
      case 1:
        return line("permute " + parameter(dims(columns, rows)) + transposed);
      case 2: {
        std::vector<int64_t> strides = {columns + 8, 1};
        if (batch_) strides.insert(strides.begin(), rows * (columns + 8));
        return parameter(dims(rows, columns), " strides " + list(strides));
      }
      case 3:
        return batch_ ? line("expand " + parameter({rows, columns}) + " shape " + shape(rows, columns))
                      : parameter({rows, columns});
      case 4:
        return line("neg " + parameter(dims(rows, columns)));
      case 6:
        return line("flip " + parameter(dims(rows, columns)) + " dims [" + std::to_string(pick(0, 1)) + "]");
      case 5:
        return line("expand " + parameter({columns}) + " shape " + shape(rows, columns));
      default:
        return parameter(dims(rows, columns));
    }
  }

  uint64_t random_;
  std::string dtype_, parameters_, body_;
  int64_t m_ = 0, n_ = 0, batch_ = 0;
  int count_ = 0;
};

void set_params(Schedule& schedule, const std::map<std::string, int64_t>& values) {
  for (auto& [name, value] : schedule.params) {
    if (const auto at = values.find(name); at != values.end()) value = at->second;
  }
}

using Params = std::map<std::string, int64_t>;
const std::vector<Params> kTiles = {
    {{"tile_m", 128}, {"tile_n", 128}, {"warps_m", 2}, {"warps_n", 2}},
    {{"tile_m", 128}, {"tile_n", 128}, {"warps_m", 4}, {"warps_n", 2}},
    {{"tile_m", 128}, {"tile_n", 64}, {"warps_m", 2}, {"warps_n", 2}},
    {{"tile_m", 128}, {"tile_n", 64}, {"warps_m", 4}, {"warps_n", 2}},
    {{"tile_m", 64}, {"tile_n", 128}, {"warps_m", 2}, {"warps_n", 2}},
    {{"tile_m", 64}, {"tile_n", 64}, {"warps_m", 2}, {"warps_n", 2}},
    {{"tile_m", 32}, {"tile_n", 128}, {"warps_m", 1}, {"warps_n", 4}},
    {{"tile_m", 32}, {"tile_n", 64}, {"warps_m", 1}, {"warps_n", 2}},
};

// An operand is better computed by a kernel of its own.
bool is_computed_too_often(const Proposal& proposal) {
  return std::any_of(proposal.why_none.begin(), proposal.why_none.end(), [](const std::string& why) {
    return why.find("would be computed for each of") != std::string::npos;
  });
}

// As proposed, with other tiles, or with k split and fewer stages.
class RandomProducts : public testing::TestWithParam<int> {};

TEST_P(RandomProducts, AgreeWithTheInterpreter) {
  constexpr int kSeeds = 30;
  for (int i = 0; i < kSeeds; ++i) {
    const uint64_t seed = static_cast<uint64_t>(GetParam()) * kSeeds + i;
    const RandomProduct product = ProductMaker(seed).make();
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + product.text);
    KernelRunner runner(product.text, seed % 2 ? "sm_80" : "sm_90a");
    if (is_computed_too_often(runner.proposal)) continue;
    runner.check_shared = true;
    runner.completion = seed % 2 ? sim::Completion::kLazy : sim::Completion::kEager;
    for (Candidate& c : runner.proposal.candidates) {
      if (seed % 3 == 1) set_params(c.schedule, kTiles[seed / 3 % kTiles.size()]);
      if (seed % 3 == 2) set_params(c.schedule, {{"split", 3}, {"stages", 2 + static_cast<int64_t>(seed / 3 % 2)}});
    }
    if (seed % 7 == 3) {
      for (Candidate& c : runner.proposal.candidates) {
        if (c.schedule.family != "matmul") continue;
        // The other one of 64 and 128 bytes.
        const int64_t k = c.schedule.param("tile_k");
        set_params(c.schedule, {{"tile_k", k * bytes(product.dtype) > 64 ? k / 2 : 2 * k}, {"stages", 3}});
      }
    }
    if (seed % 5 == 4) {
      for (Candidate& c : runner.proposal.candidates) set_params(c.schedule, {{"index_bits", 64}});
    }
    // float64, but for what tf32 leaves of the operands. Sums of products up to 9: some units of float32 of each.
    runner.mode = product.tf32 ? InterpMode::kEager : InterpMode::kExact;
    runner.check({}, {0, 1e-5 * static_cast<double>(product.k + 1)});
  }
}

INSTANTIATE_TEST_SUITE_P(All, RandomProducts, testing::Range(0, 17));

// y = a @ b of one layout each: "n" rows of k, or "t" as the transpose of what lies in memory.
std::string plain_product(const std::string& dtype, const std::string& precision, bool transposed_a, bool transposed_b,
                          int64_t m, int64_t n, int64_t k) {
  const auto shape = [&](int64_t rows, int64_t columns) {
    return dtype + "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
  };
  std::string text = "graph @k(%0: " + (transposed_a ? shape(k, m) : shape(m, k)) +
                     ", %1: " + (transposed_b ? shape(n, k) : shape(k, n)) + ") -> " + shape(m, n) + " {\n";
  if (transposed_a) text += "  %2 = permute %0 dims [1, 0]\n";
  if (transposed_b) text += "  %3 = permute %1 dims [1, 0]\n";
  text += "  %4 = matmul " + std::string(transposed_a ? "%2" : "%0") + ", " + (transposed_b ? "%3" : "%1") +
          " precision " + precision + "\n";
  return text + "  %5 = cast %4 to " + dtype + "\n  return %5\n}";
}

struct Multiplied {
  const char *dtype, *precision;
};
constexpr Multiplied kMultiplied[] = {{"bf16", "ieee"}, {"f16", "ieee"}, {"f32", "tf32"}, {"f32", "ieee"}};

TEST(Matmul, HasNoBankConflictsAndFullSectors) {
  for (const Multiplied& type : kMultiplied) {
    for (int layout = 0; layout < 4; ++layout) {
      KernelRunner runner(plain_product(type.dtype, type.precision, layout % 2, layout / 2, 128, 128, 64));
      const std::vector<InterpValue> inputs = random_inputs(runner.body, {}, 1);
      for (const Params& tile : kTiles) {
        Schedule schedule = runner.proposal.candidates[0].schedule;
        set_params(schedule, tile);
        SCOPED_TRACE(std::string(type.dtype) + " " + type.precision + " layout " + std::to_string(layout) + " " +
                     print(schedule));
        EXPECT_EQ(schedule.param("copy_a"), 1);
        EXPECT_EQ(schedule.param("copy_b"), 1);
        for (const sim::AccessCounters& a : runner.run(schedule, {}, inputs, 0).counters.accesses) {
          EXPECT_EQ(a.passes, a.ideal_passes) << a.text;
          EXPECT_EQ(a.sectors, a.ideal_sectors) << a.text;
        }
      }
    }
  }
}

// The variant for the example's sizes, for all architectures. Needs nvJitLink, but no GPU.
TEST(Matmul, AssemblesWithoutSpills) {
  std::string why;
  const std::shared_ptr<Assembler> assembler = load_assembler(&why);
  if (!assembler) GTEST_SKIP() << why;
  for (const Multiplied& type : {kMultiplied[0], kMultiplied[2], kMultiplied[3]}) {
    for (const bool transposed : {false, true}) {
      const std::string text = plain_product(type.dtype, type.precision, transposed, !transposed, 4096, 4096, 4096);
      for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_90a"}) {
        const KernelRunner runner(text, arch);
        const Schedule& schedule = runner.proposal.candidates.front().schedule;
        SCOPED_TRACE(std::string(type.dtype) + " " + type.precision + " " + print(schedule) + " for " + arch);
        const KernelCode code = generate(runner.body, schedule, arch, runner.context);
        EXPECT_EQ(assembler->assemble(code.ptx, arch, code.entry).spill_store_bytes, 0);
      }
    }
  }
}

// What the simulator says of a kernel that was changed; "" where nothing.
std::string said_of(const std::string& from, const std::string& to, bool compare = false) {
  KernelRunner runner(plain_product("bf16", "ieee", false, true, 64, 64, 256));
  runner.check_shared = true;
  runner.completion = sim::Completion::kLazy;
  bool planted = false;
  runner.edit_ptx = [&](std::string ptx) {
    for (size_t at = 0; (at = ptx.find(from, at)) != std::string::npos; at += to.size()) {
      ptx.replace(at, from.size(), to);
      planted = true;
    }
    return ptx;
  };
  const std::vector<InterpValue> inputs = random_inputs(runner.body, {}, 1);
  std::string said;
  try {
    const KernelRunner::Run run = runner.run(runner.proposal.candidates[0].schedule, {}, inputs, 0);
    if (compare) said = all_close(run.outputs[0], interpret(runner.body, inputs)[0].tensor(), {0, 0.5}).why_not;
  } catch (const std::exception& e) {
    said = e.what();
  }
  EXPECT_TRUE(planted || from == to) << "no " << from;
  return said;
}

TEST(Matmul, PlantedFaultsAreFound) {
  EXPECT_EQ(said_of("ret;", "ret;", /*compare=*/true), "");
  EXPECT_NE(said_of("cp.async.wait_group", "// cp.async.wait_group"), "");
  EXPECT_NE(said_of("bar.sync", "// bar.sync"), "");
  EXPECT_NE(said_of("bar.warp.sync", "// bar.warp.sync"), "");
  EXPECT_NE(said_of("xor.b32", "or.b32", /*compare=*/true), "");
}

// One kernel for sizes that only the launch knows; the variants' conditions hold or do not.
TEST(Matmul, TakesSizesFromTheLaunch) {
  for (const std::string operand : {"permute $ dims [0, 1]", "neg $"}) {  // copied to shared memory, or computed
    const auto of = [&](const char* value) { return std::regex_replace(operand, std::regex("\\$"), value); };
    KernelRunner runner(R"(graph @k(%0: bf16[s0, s1], %1: bf16[s2, s1], %2: bf16[s2]) -> bf16[s0, s2]
      symbols (s0 = 64 in [0, 4096], s1 = 64 in [0, 4096], s2 = 64 in [0, 4096]) {
      %8 = )" + of("%0") +
                        "\n%9 = " + of("%1") +
                        R"(
      %3 = permute %9 dims [1, 0]
      %4 = matmul %8, %3 precision ieee
      %5 = cast %2 to f32
      %6 = expand %5 shape [s0, s2]
      %7 = add %4, %6
      %10 = cast %7 to bf16
      return %10
    })");
    EXPECT_GT(runner.proposal.candidates.size(), 1u);
    runner.check_shared = true;
    using Sizes = std::tuple<int, int, int>;
    for (const auto& [m, k, n] :
         {Sizes{64, 64, 64}, {1, 8, 8}, {65, 72, 80}, {33, 7, 5}, {40, 0, 16}, {5, 100, 2}, {20, 36, 64}}) {
      SCOPED_TRACE(operand + " " + std::to_string(m) + " " + std::to_string(k) + " " + std::to_string(n));
      runner.check({{"s0", m}, {"s1", k}, {"s2", n}}, {0, 2e-3});
    }
    runner.check({{"s0", 33}, {"s1", 64}, {"s2", 24}}, {0, 2e-3}, /*shift=*/1);
  }
}

// A split of k that suits the example needs a workspace that other sizes do not have: the last variant has none.
TEST(Matmul, SplitsOnlyWhatHasAWorkspace) {
  const KernelRunner runner(R"(graph @k(%0: bf16[s0, 4096], %1: bf16[4096, 128]) -> bf16[s0, 128]
    symbols (s0 = 128 in [2, 4611686018427387903]) {
    %2 = matmul %0, %1 precision ieee
    %3 = cast %2 to bf16
    return %3
  })");
  ASSERT_FALSE(runner.proposal.candidates.empty());
  for (const Candidate& c : runner.proposal.candidates) {
    const bool bounded = !c.condition.at_most.empty();
    EXPECT_EQ(bounded, c.schedule.param("split") > 1) << print(c.schedule);
  }
  EXPECT_GT(runner.proposal.candidates.front().schedule.param("split"), 1);
  EXPECT_EQ(runner.proposal.candidates.back().schedule.param("split"), 1);
  EXPECT_EQ(runner.proposal.candidates.back().condition, Condition{});
}

TEST(Matmul, SaysWhyNot) {
  const auto why = [](const std::string& text) {
    const KernelRunner runner(text);
    return runner.proposal.why_none.empty() ? "" : runner.proposal.why_none.back();
  };
  EXPECT_EQ(why(plain_product("f64", "ieee", false, false, 32, 32, 32)), "matmul: products of f64 are PyTorch's");
  EXPECT_EQ(why("graph @k(%0: f32[8, 8], %1: f32[8, 8]) -> f32[8] {\n %2 = matmul %0, %1 precision ieee\n"
                "%3 = sum %2 dims [1] keepdim false\n return %3 }"),
            "%3 is a reduction beside a product of matrices");
  EXPECT_EQ(why("graph @k(%0: f32[8, 8], %1: f32[8, 8]) -> f32[8, 8] {\n %2 = matmul %0, %1 precision ieee\n"
                "%3 = matmul %2, %1 precision ieee\n return %3 }"),
            "%2 is used at other elements than it is computed in");
  EXPECT_EQ(why("graph @k(%0: f32[8, 8], %1: f32[8, 8]) -> f32[8, 8] {\n %2 = matmul %0, %1 precision ieee\n"
                "%3 = matmul %1, %0 precision ieee\n %4 = add %2, %3\n return %4 }"),
            "two products of matrices have unlike left operands");
  EXPECT_EQ(why("graph @k(%0: bf16[4096, 4096], %1: bf16[4096, 4096]) -> f32[4096, 4096] {\n %2 = tanh %0\n"
                "%3 = matmul %2, %1 precision ieee\n return %3 }"),
            "matmul: %2 would be computed for each of 32 tiles, which takes 2.8 of its product's time");
  EXPECT_EQ(why("graph @k(%0: bf16[4096, 4096], %1: bf16[4096, 64]) -> f32[4096, 64] {\n %2 = tanh %0\n"
                "%3 = matmul %2, %1 precision ieee\n return %3 }"),
            "");
}

}  // namespace
}  // namespace tilewright
