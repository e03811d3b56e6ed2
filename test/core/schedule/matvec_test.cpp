// What the family `matvec` proposes: parameters at known sizes, conditions, reasons.

#include "schedule/matvec.h"

#include <gtest/gtest.h>

#include "cost/kernel_time.h"

namespace tilewright {
namespace {

struct Proposed {
  explicit Proposed(const std::string& text) : body(parse_graph(text)) {
    ctx.gpu = gpu_named("h200");
    const Proposal all = propose(body, ctx);
    for (const Candidate& c : all.candidates) {
      if (c.schedule.family == "matvec") candidates.push_back(c);
    }
  }
  Graph body;
  Context ctx;
  std::vector<Candidate> candidates;
};

// x[m, k] times the transpose of w[n, k], as nn.Linear has it, or w[k, n] itself.
std::string product(int64_t m, int64_t n, int64_t k, bool transposed = true, const std::string& type = "bf16") {
  const auto matrix = [&](int64_t rows, int64_t columns) {
    return type + "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
  };
  return "graph @k(%0: " + matrix(m, k) + ", %1: " + (transposed ? matrix(n, k) : matrix(k, n)) + ") -> " +
         (type == "f64" ? "f64[" : "f32[") + std::to_string(m) + ", " + std::to_string(n) + "]\n{\n" +
         (transposed ? "  %2 = permute %1 dims [1, 0]\n  %3 = matmul %0, %2 precision ieee\n"
                     : "  %3 = matmul %0, %1 precision ieee\n") +
         "  return %3\n}\n";
}

struct Size {
  int64_t n, k;
};

TEST(MatvecSchedule, DecodingHasEnoughLoadsUnderWay) {
  for (const Size size : {Size{4096, 14336}, Size{14336, 4096}, Size{2048, 2048}, Size{8192, 2048}}) {
    SCOPED_TRACE(testing::Message() << size.n << " x " << size.k);
    const Proposed p(product(1, size.n, size.k));
    ASSERT_FALSE(p.candidates.empty());
    const Footprint& f = p.candidates[0].footprint;
    const KernelTime time = price_kernel(f, p.ctx.gpu);
    EXPECT_EQ(p.candidates[0].schedule.param("vec"), 8);
    const double blocks_per_sm =
        std::min<double>(static_cast<double>(f.blocks) / p.ctx.gpu.sms, time.occupancy.blocks_per_sm);
    EXPECT_GE(f.bytes_in_flight_per_thread * f.threads_per_block * blocks_per_sm, p.ctx.gpu.bytes_in_flight_per_sm);
    const double weights_us = static_cast<double>(size.n * size.k) * 2 / p.ctx.gpu.dram_bytes_per_s * 1e6;
    if (weights_us > 20) {
      EXPECT_LT(time.total_us, 1.05 * weights_us);
    }
  }
}

// Within 2 % of the fastest of some 50 schedules each, on an H200.
TEST(MatvecSchedule, IsTheOneMeasuredToBeFast) {
  const auto best = [](int64_t m, int64_t n, int64_t k) {
    const Schedule s = Proposed(product(m, n, k)).candidates.at(0).schedule;
    return std::vector<int64_t>{s.param("rows"), s.param("threads"), s.param("unroll")};
  };
  EXPECT_EQ(best(1, 4096, 14336), (std::vector<int64_t>{1, 128, 2}));
  EXPECT_EQ(best(1, 14336, 4096), (std::vector<int64_t>{4, 256, 2}));
  EXPECT_EQ(best(1, 2048, 2048), (std::vector<int64_t>{4, 128, 2}));
  EXPECT_EQ(best(1, 128256, 2048), (std::vector<int64_t>{4, 128, 2}));
  EXPECT_EQ(best(2, 4096, 14336), (std::vector<int64_t>{2, 128, 1}));
  EXPECT_EQ(best(4, 4096, 14336), (std::vector<int64_t>{2, 128, 2}));
}

TEST(MatvecSchedule, VectorsLieAlongTheMatrixsMemory) {
  const Proposed linear(product(1, 4096, 4096)), conv1d(product(1, 4096, 4096, /*transposed=*/false));
  EXPECT_EQ(linear.candidates.at(0).schedule.param("across"), 0);
  EXPECT_EQ(conv1d.candidates.at(0).schedule.param("across"), 1);
  EXPECT_EQ(conv1d.candidates.at(0).schedule.param("vec"), 8);
}

TEST(MatvecSchedule, TheMatrixMayBeEitherOperand) {
  EXPECT_EQ(Proposed(product(4, 512, 256)).candidates.at(0).schedule.param("wide_n"), 1);
  EXPECT_EQ(Proposed(product(512, 4, 256)).candidates.at(0).schedule.param("wide_n"), 0);
}

TEST(MatvecSchedule, ManyVectorsAreNotItsWork) {
  EXPECT_TRUE(Proposed(product(17, 512, 256)).candidates.empty());
  EXPECT_FALSE(Proposed(product(16, 512, 256)).candidates.empty());
}

TEST(MatvecSchedule, TheLastCandidateIsUnconditional) {
  for (const std::string& text : {product(1, 512, 256), product(3, 511, 255), product(3, 511, 255, false),
                                  product(16, 64, 8, true, "f64"), product(1, 1, 1)}) {
    const Proposed p(text);
    ASSERT_FALSE(p.candidates.empty()) << text;
    EXPECT_EQ(p.candidates.back().condition, Condition{}) << text;
  }
}

TEST(MatvecSchedule, TextFormRoundTrips) {
  for (const Candidate& c : Proposed(product(2, 512, 256)).candidates) {
    EXPECT_EQ(MatvecParams::of(parse_schedule(print(c.schedule))).schedule(), c.schedule);
  }
}

}  // namespace
}  // namespace tilewright
