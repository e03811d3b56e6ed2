#include "cost/call_time.h"

#include <gtest/gtest.h>

#include "cost/call_facts.h"

namespace tilewright {
namespace {

// The price of the last node of a graph.
CallTime price_last(const std::string& parameters, const std::string& node, const std::string& float32_matmul = "") {
  const Graph graph = parse_graph("graph @g(" + parameters + ") -> ()\n  symbols (s0 = 16384 in [2, 1048576])\n{\n  " +
                                  node + "\n  return\n}\n");
  Context ctx;
  ctx.gpu = gpu_named("h200");
  ctx.options.float32_matmul = float32_matmul;
  return price_call(*graph.nodes().back(), graph.symbols(), ctx);
}

TEST(CallTime, MemoryBoundOperatorsAreAsMeasuredOnAnH200) {
  const std::string x = "%x: bf16[s0, 4096] strides [4096, 1]";
  const struct {
    const char* call;
    double measured_us;
  } rows[] = {
      {"%y = call aten._softmax.default(%x, -1, false) : bf16[s0, 4096] strides [4096, 1]", 211.7},
      {"%y = call aten.sum.dim_IntList(%x, [1]) : bf16[s0] strides [1]", 46.7},
      {"%y, %m, %r = call aten.native_layer_norm.default(%x, [4096], none, none, 1e-05) : bf16[s0, 4096] strides "
       "[4096, 1], "
       "f32[s0, 1], f32[s0, 1]",
       107.9},
      {"%y = call aten.neg.default(%x) : bf16[s0, 4096] strides [4096, 1]", 69},
  };
  for (const auto& row : rows) {
    const CallTime t = price_last(x, row.call);
    EXPECT_NEAR(t.time.kernel_us / row.measured_us, 1, 0.2) << row.call;
    EXPECT_DOUBLE_EQ(t.time.launch_us, gpu_named("h200").call_host_us);
    EXPECT_STREQ(t.basis, "memory");
  }
}

TEST(CallTime, AnOperatorOfSeveralKernelsReadsSeveralTimes) {
  const std::string x = "%x: bf16[s0, 4096] strides [4096, 1]";
  const auto kernel_us = [&](const char* call) { return price_last(x, call).time.kernel_us; };
  EXPECT_GT(kernel_us("%y = call aten.logsumexp.default(%x, [1]) : bf16[s0] strides [1]"),
            4 * kernel_us("%y = call aten.sum.dim_IntList(%x, [1]) : bf16[s0] strides [1]"));
}

CallTime price_product(int64_t m, int64_t n, int64_t k, const std::string& type, const std::string& precision = "") {
  const auto matrix = [&](int64_t rows, int64_t columns) {
    return type + "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
  };
  return price_last("%x: " + matrix(m, k) + ", %w: " + matrix(k, n),
                    "%y = call aten.mm.default(%x, %w) : " + matrix(m, n) + " strides [" + std::to_string(n) + ", 1]",
                    precision);
}

TEST(CallTime, MatrixProductsAreAsMeasuredOnAnH200) {
  EXPECT_DOUBLE_EQ(price_product(4096, 4096, 4096, "bf16").flops, 2.0 * 4096 * 4096 * 4096);
  EXPECT_STREQ(price_product(4096, 4096, 4096, "bf16").basis, "flops");
  const struct {
    int64_t m, n, k;
    double measured_us;  // in a graph, or of a large one as launched by the host
  } rows[] = {{1024, 1024, 1024, 5.56}, {4096, 4096, 1024, 48.5}, {4096, 4096, 4096, 177}, {8192, 8192, 8192, 1398},
              {4096, 4096, 14336, 591}, {4096, 14336, 4096, 606}, {1, 4096, 14336, 31.7},  {8, 4096, 14336, 33},
              {16, 4096, 14336, 33.2},  {64, 4096, 14336, 36.4}};
  for (const auto& row : rows) {
    const double us = price_product(row.m, row.n, row.k, "bf16").time.kernel_us;
    EXPECT_NEAR(us / row.measured_us, 1, 0.15) << row.m << " x " << row.n << " x " << row.k << ": " << us;
  }
  EXPECT_STREQ(price_product(1, 14336, 4096, "bf16").basis, "memory");
}

TEST(CallTime, ProductsTakeTheRateOfTheirPrecision) {
  const double ieee = price_product(4096, 4096, 4096, "f32").time.kernel_us;
  const double tf32 = price_product(4096, 4096, 4096, "f32", "tf32").time.kernel_us;
  const double bf16 = price_product(4096, 4096, 4096, "bf16").time.kernel_us;
  EXPECT_GT(ieee, 4 * tf32);
  EXPECT_NEAR(tf32 / bf16, 2, 0.1);
}

TEST(CallTime, AProductOfFewTilesIsSplit) {
  // Without a split 16 tiles of 128 x 128 would keep 16 SMs busy for 8192 / 64 times as long.
  EXPECT_LT(price_product(512, 512, 8192, "bf16").time.kernel_us,
            2 * price_product(1024, 1024, 1024, "bf16").time.kernel_us + 5);
}

TEST(CallTime, ABatchOfProductsCountsEach) {
  const CallTime t = price_last("%a: bf16[64, 512, 1024], %b: bf16[64, 1024, 512]",
                                "%y = call aten.bmm.default(%a, %b) : bf16[64, 512, 512] strides [262144, 512, 1]");
  EXPECT_DOUBLE_EQ(t.flops, 2.0 * 64 * 512 * 512 * 1024);
  EXPECT_NEAR(t.time.kernel_us / 53.5, 1, 0.15);  // 57.3 as launched by the host
  const CallTime vector =
      price_last("%a: f32[512, 1024], %x: f32[1024]", "%y = call aten.mv.default(%a, %x) : f32[512] strides [1]");
  EXPECT_DOUBLE_EQ(vector.flops, 2.0 * 512 * 1024);
}

TEST(CallTime, AddmmTakesTheInnerSizeOfItsMatrix) {
  const CallTime t = price_last("%b: bf16[768], %x: bf16[512, 3072], %w: bf16[3072, 768]",
                                "%y = call aten.addmm.default(%b, %x, %w) : bf16[512, 768] strides [768, 1]");
  EXPECT_DOUBLE_EQ(t.flops, 2.0 * 512 * 768 * 3072);
}

TEST(CallTime, ConvolutionsCountTheFilter) {
  const CallTime t = price_last("%x: bf16[32, 128, 56, 56], %w: bf16[256, 128, 3, 3]",
                                "%y = call aten.convolution.default(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, "
                                "0], 1) : bf16[32, 256, 56, 56]");
  EXPECT_DOUBLE_EQ(t.flops, 2.0 * 32 * 256 * 56 * 56 * 128 * 9);
}

TEST(CallTime, AttentionCountsBothProducts) {
  const CallTime t =
      price_last("%q: bf16[2, 8, 128, 64], %k: bf16[2, 8, 256, 64], %v: bf16[2, 8, 256, 64]",
                 "%y = call aten.scaled_dot_product_attention.default(%q, %k, %v) : bf16[2, 8, 128, 64]");
  EXPECT_DOUBLE_EQ(t.flops, 4.0 * 2 * 8 * 128 * 64 * 256);
}

TEST(CallTime, ViewsHaveNoKernel) {
  const CallTime t = price_last("%x: f32[8, 4]", "%y = call aten.view.default(%x, [32]) : f32[32] strides [1]");
  EXPECT_EQ(t.time.kernel_us, 0);
  EXPECT_STREQ(t.basis, "view");
}

TEST(CallTime, ATransposingCopyIsSlow) {
  const std::string x = "%x: bf16[s0, 4096] strides [1, 16384]";
  const double there =
      price_last(x, "%y = call aten.clone.default(%x) : bf16[s0, 4096] strides [4096, 1]").time.kernel_us;
  const double same =
      price_last(x, "%y = call aten.clone.default(%x) : bf16[s0, 4096] strides [1, 16384]").time.kernel_us;
  EXPECT_GT(there, 5 * same);
}

TEST(CallTime, ExpandedOperandsAreReadOnce) {
  const Graph graph = parse_graph("graph @g(%x: f32[1024, 1024] strides [0, 1]) -> ()\n{\n  return\n}\n");
  EXPECT_DOUBLE_EQ(distinct_bytes(graph.parameters()[0]->type, graph.symbols()), 4096);
}

TEST(CallTime, AnEmbeddingReadsWhatItGives) {
  const CallTime t = price_last("%w: bf16[128256, 4096], %i: i64[16]",
                                "%y = call aten.embedding.default(%w, %i) : bf16[16, 4096] strides [4096, 1]");
  EXPECT_DOUBLE_EQ(t.bytes, 16 * 8 + 2.0 * 16 * 4096 * 2);
}

TEST(CallTime, CopiesToTheHostCrossTheLink) {
  const CallTime t =
      price_last("%x: f32[1024]", "%y = call aten._to_copy.default(%x, device=device(\"cpu\")) : f32[1024] host");
  EXPECT_STREQ(t.basis, "transfer");
  EXPECT_GT(t.time.transfer_us, gpu_named("h200").link_latency_us);
}

TEST(CallFacts, KnowEffectsByName) {
  EXPECT_TRUE(call_facts("aten.mm.default").pure);
  EXPECT_TRUE(call_facts("aten.some_new_operator.default").pure);
  EXPECT_FALSE(call_facts("aten.bernoulli.p").pure);
  EXPECT_FALSE(call_facts("aten.index_put_.default").pure);
  EXPECT_FALSE(call_facts("aten.add.out").pure);
  EXPECT_FALSE(call_facts("mylib.op.default").pure);
  EXPECT_TRUE(call_facts("mylib.op.default").may_alias);
  EXPECT_EQ(call_facts("aten.transpose.int").kind, CallKind::kView);
  EXPECT_EQ(base_name("aten.native_layer_norm.default"), "native_layer_norm");
}

}  // namespace
}  // namespace tilewright
