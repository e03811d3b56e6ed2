// Kernels for products of matrices, on the simulator against the interpreter.

#include <gtest/gtest.h>

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

  // Rows by columns: as it is, transposed, with gaps between rows, of fewer batches, computed, or of one row.
  std::string operand(int64_t rows, int64_t columns) {
    const std::string transposed = batch_ ? " dims [0, 2, 1]" : " dims [1, 0]";
    switch (pick(0, 6)) {
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

// Half of the candidates' schedules run as proposed, others with a split of k or fewer stages.
TEST(Matmul, RandomProducts) {
  int refused = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const RandomProduct product = ProductMaker(seed).make();
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + product.text);
    KernelRunner runner(product.text, seed % 2 ? "sm_80" : "sm_90a");
    runner.check_shared = true;
    if (runner.proposal.candidates.empty()) {
      ++refused;
      ADD_FAILURE() << runner.proposal.why_none[0];
      continue;
    }
    if (seed % 3 == 0) {
      for (Candidate& c : runner.proposal.candidates) {
        for (auto& [name, value] : c.schedule.params) {
          if (name == "split") value = 3;
          if (name == "stages") value = 2 + static_cast<int64_t>(seed % 2);
        }
      }
    }
    // Sums in another order: a few units of float32 of the sum of magnitudes.
    runner.check({}, {0, 1e-5 * 10 * static_cast<double>(product.k + 1)});
  }
  EXPECT_EQ(refused, 0);
}

}  // namespace
}  // namespace tilewright
