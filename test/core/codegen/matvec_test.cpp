// Products of a matrix with few vectors against the interpreter, on the simulator.

#include <random>

#include "kernel_runner.h"

namespace tilewright {
namespace {

std::string shape_text(const std::vector<std::string>& sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) text += (i ? ", " : "") + sizes[i];
  return text + "]";
}

// One product in one of its layouts, with what stands before and after it.
struct Case {
  int64_t batch = 0;  // 0: no batch
  int64_t m = 1, n = 1, k = 1;
  std::string type = "bf16";
  bool left_transposed = false, right_transposed = false;  // in memory
  int epilogue = 0;
  bool prologue = false;
  bool tf32 = false;

  std::string text() const {
    const auto matrix = [&](const std::string& rows, const std::string& columns) {
      std::vector<std::string> sizes = {rows, columns};
      if (batch > 0) sizes.insert(sizes.begin(), std::to_string(batch));
      return shape_text(sizes);
    };
    const std::string swap = batch > 0 ? "[0, 2, 1]" : "[1, 0]";
    const std::string rows = "s0", columns = std::to_string(n), depth = std::to_string(k);
    const std::string wide = type == "f64" ? "f64" : "f32";
    const std::string result = matrix(rows, columns);
    std::string out = "graph @k(%0: " + type + (left_transposed ? matrix(depth, rows) : matrix(rows, depth)) +
                      ", %1: " + type + (right_transposed ? matrix(columns, depth) : matrix(depth, columns)) +
                      ", %2: " + type + "[" + columns + "], %3: " + type + result + ") -> ";
    out += epilogue == 3 ? "(" + type + result + ", " + wide + result + ")" : (epilogue == 0 ? wide : type) + result;
    out += "\n  symbols (s0 = " + std::to_string(m) + " in [0, 64])\n{\n";
    out += left_transposed ? "  %a = permute %0 dims " + swap + "\n"
                           : "  %a = reshape %0 shape " + matrix(rows, depth) + "\n";
    out += right_transposed ? "  %b = permute %1 dims " + swap + "\n"
                            : "  %b = reshape %1 shape " + matrix(depth, columns) + "\n";
    out += prologue ? "  %x = mul %a, %a\n  %y = neg %b\n" : "  %x = copy %a\n  %y = copy %b\n";
    out += std::string("  %p = matmul %x, %y precision ") + (tf32 ? "tf32" : "ieee") + "\n";
    if (epilogue == 0) return out + "  return %p\n}\n";
    out += "  %w = cast %2 to " + wide + "\n  %e = expand %w shape " + result + "\n  %s = add %p, %e\n";
    out += "  %o = cast %s to " + type + "\n";
    if (epilogue == 1) return out + "  return %o\n}\n";
    out += "  %r = maximum %o, %3\n  %t = tanh %r\n";
    return out + (epilogue == 2 ? "  return %t\n}\n" : "  return %t, %s\n}\n");
  }
};

// Runs the family's own candidates.
struct MatvecRunner : KernelRunner {
  explicit MatvecRunner(const std::string& text, const std::string& arch = "sm_90a") : KernelRunner(text, arch) {
    std::erase_if(proposal.candidates, [](const Candidate& c) { return c.schedule.family != "matvec"; });
  }
};

// Sums of k products of random normal numbers, in another order and in float32.
Tolerance of_sum(int64_t k, const std::string& type) {
  const double ulp = type == "f64" ? 2e-16 : 1.2e-7;
  return {8 * ulp * static_cast<double>(k), 8 * ulp * static_cast<double>(k) + 1e-30};
}

TEST(Matvec, LayoutsTypesSizesAndSurroundings) {
  std::mt19937 random(20);
  const auto pick = [&](auto... choices) {
    const std::array all{choices...};
    return all[random() % all.size()];
  };
  for (int i = 0; i < 160; ++i) {
    Case c;
    c.batch = pick(0, 0, 0, 3);
    c.m = pick(1, 1, 2, 3, 5, 8, 16);
    c.n = pick(1, 7, 16, 33, 64, 120, 250);
    c.k = pick(0, 1, 8, 31, 64, 136, 512);
    c.type = pick("bf16", "f16", "f32", "f64");
    c.tf32 = c.type == "f32" && pick(0, 1) != 0;
    c.left_transposed = pick(0, 0, 1) != 0;
    c.right_transposed = pick(0, 1) != 0;
    c.epilogue = pick(0, 1, 2, 3);
    c.prologue = pick(0, 0, 1) != 0;
    SCOPED_TRACE(testing::Message() << "case " << i << "\n" << c.text());
    MatvecRunner runner(c.text(), pick("sm_80", "sm_90a"));
    runner.check_shared = true;
    runner.check({{"s0", c.m}}, of_sum(c.k, c.type), /*shift=*/pick(0, 0, 0, 1), random());
  }
}

TEST(Matvec, TakesAnyNumberOfVectors) {
  Case c;
  c.m = 2;
  c.n = 40;
  c.k = 64;
  c.right_transposed = true;
  c.epilogue = 1;
  const MatvecRunner runner(c.text());
  for (int64_t m : {0, 1, 2, 3, 9, 40}) {
    SCOPED_TRACE(m);
    runner.check({{"s0", m}}, of_sum(64, "bf16"));
  }
}

// silu(x @ gate) * (x @ up), as nn.Linear keeps the weights.
std::string gated_pair(int64_t m, int64_t n, int64_t k) {
  const std::string x = "[" + std::to_string(m) + ", " + std::to_string(k) + "]";
  const std::string w = "[" + std::to_string(n) + ", " + std::to_string(k) + "]";
  const std::string y = "[" + std::to_string(m) + ", " + std::to_string(n) + "]";
  return "graph @k(%0: bf16" + x + ", %1: bf16" + w + ", %2: bf16" + w + ") -> bf16" + y + R"(
{
  %g = permute %1 dims [1, 0]
  %u = permute %2 dims [1, 0]
  %p = matmul %0, %g precision ieee
  %q = matmul %0, %u precision ieee
  %a = cast %p to bf16
  %b = cast %q to bf16
  %c = cast %a to f32
  %one = constant dtype f32 value 1.0
  %n = neg %c
  %e = exp %n
  %d = add %one, %e
  %s = div %c, %d
  %h = cast %s to bf16
  %y = mul %h, %b
  return %y
}
)";
}

TEST(Matvec, AGatedPair) {
  MatvecRunner(gated_pair(1, 96, 256)).check({}, of_sum(256, "bf16"));
  MatvecRunner(gated_pair(4, 50, 72)).check({}, of_sum(72, "bf16"));
}

TEST(Matvec, ResultsMayLieInAnotherOrder) {
  // Heads apart, as attention wants them.
  MatvecRunner(R"(
graph @k(%0: bf16[4, 64], %1: bf16[96, 64]) -> bf16[3, 4, 32]
{
  %t = permute %1 dims [1, 0]
  %p = matmul %0, %t precision ieee
  %c = cast %p to bf16
  %h = reshape %c shape [4, 3, 32]
  %y = permute %h dims [1, 0, 2]
  return %y
}
)")
      .check({}, of_sum(64, "bf16"));
}

TEST(Matvec, NotANumberAndInfinityPropagate) {
  const MatvecRunner runner(Case{.n = 24, .k = 40, .type = "f32", .right_transposed = true}.text());
  std::vector<InterpValue> inputs = random_inputs(runner.body, {{"s0", 1}}, 3);
  HostTensor x = inputs[0].tensor(), w = inputs[1].tensor();
  x.floats[7] = std::numeric_limits<double>::infinity();
  w.floats[5 * 40 + 9] = std::numeric_limits<double>::quiet_NaN();
  inputs[0] = InterpValue{std::make_shared<const HostTensor>(x)};
  inputs[1] = InterpValue{std::make_shared<const HostTensor>(w)};
  runner.check({{"s0", 1}}, inputs, of_sum(40, "f32"));
}

// What a decoding step hangs on: the matrix comes once, in whole sectors, and nothing else of its size moves.
TEST(Matvec, ReadsTheMatrixOnceInFullSectors) {
  for (const bool transposed : {true, false}) {
    Case c;
    c.n = 2048;
    c.k = 512;
    c.right_transposed = transposed;
    const MatvecRunner runner(c.text());
    const Candidate& best = runner.proposal.candidates.front();
    ASSERT_EQ(best.schedule.family, "matvec");
    const KernelRunner::Run run = runner.run(best.schedule, {{"s0", 1}}, random_inputs(runner.body, {{"s0", 1}}, 1), 0);
    const uint64_t matrix_bytes = 2048 * 512 * 2;
    for (const sim::AccessCounters& a : run.counters.accesses) {
      const bool wide = a.space == sim::Space::kGlobal && a.bytes >= 256 * a.requests;
      if (wide) {
        EXPECT_EQ(a.sectors, a.ideal_sectors) << a.text;
      }
      if (a.space == sim::Space::kShared) {
        EXPECT_EQ(a.passes, a.ideal_passes) << a.text;
      }
    }
    // The vector's elements come once for every block of rows.
    const uint64_t vector_bytes = 512 * 2, blocks = 2048 / static_cast<uint64_t>(best.schedule.param("rows"));
    EXPECT_LE(run.counters.total.global_load.sectors * 32, matrix_bytes + blocks * vector_bytes);
  }
}

}  // namespace
}  // namespace tilewright
