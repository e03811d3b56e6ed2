// The family transpose: the law of its shared tiles, what it proposes, and what it costs against pointwise.

#include "schedule/transpose.h"

#include <gtest/gtest.h>

#include <set>

#include "cost/kernel_time.h"

namespace tilewright {
namespace {

Context on(const char* gpu) {
  Context ctx;
  ctx.gpu = *find_gpu(gpu);
  return ctx;
}

struct Proposed {
  explicit Proposed(const std::string& text)
      : body(parse_graph(text)), program(*make_element_program(body).program), proposal(propose(body, on("h200"))) {}
  const Candidate* first(const std::string& family) const {
    for (const Candidate& c : proposal.candidates) {
      if (c.schedule.family == family) return &c;
    }
    return nullptr;
  }
  double time_us(const Candidate& c) const { return price_kernel(c.footprint, *find_gpu("h200")).total_us; }
  Graph body;
  ElementProgram program;
  Proposal proposal;
};

std::string transposing_abs(const std::string& type) {
  return "graph @k(%0: " + type + "[16384, 4096]) -> " + type +
         "[4096, 16384]\n{\n  %1 = permute %0 dims [1, 0]\n  %2 = abs %1\n  return %2\n}\n";
}

// Passes over 32 banks of 4 bytes for one access of a warp, as the hardware groups its lanes.
int bank_passes(const std::vector<int64_t>& addresses, int size) {
  const int lanes = size <= 4 ? 32 : 128 / size;
  int passes = 0;
  for (size_t first = 0; first < addresses.size(); first += lanes) {
    std::vector<std::set<int64_t>> words(32);
    size_t busiest = 0;
    for (size_t i = first; i < first + lanes; ++i) {
      for (int64_t word = addresses[i] / 4; word <= (addresses[i] + size - 1) / 4; ++word) {
        words[word % 32].insert(word);
        busiest = std::max(busiest, words[word % 32].size());
      }
    }
    passes += static_cast<int>(busiest);
  }
  return passes;
}

// Passes of a warp each of whose lanes accesses the chunk of a (row, chunk).
template <typename At>
int warp_passes(const SharedTile& t, int64_t warp, At at) {
  std::vector<int64_t> addresses;
  for (int64_t i = warp * 32; i < warp * 32 + 32; ++i) {
    const auto [row, chunk] = at(i);
    addresses.push_back(t.place(row, chunk) * t.chunk_bytes);
  }
  return bank_passes(addresses, t.chunk_bytes);
}

// Writers go along rows (phase 1), or over blocks of rows (phase 2); readers go across blocks.
void expect_no_conflicts(const SharedTile& t) {
  using At = std::pair<int64_t, int64_t>;
  const int ideal = std::max(1, t.chunk_bytes / 4);
  const int64_t blocks = t.rows / t.block_rows;
  for (int64_t warp = 0; warp < t.rows * t.chunks / 32; ++warp) {
    ASSERT_EQ(warp_passes(t, warp, [&](int64_t i) { return At{i / t.chunks, i % t.chunks}; }), ideal);
  }
  for (int64_t warp = 0; warp < blocks * t.chunks / 32; ++warp) {
    for (int64_t r = 0; r < t.block_rows; ++r) {
      const auto write = [&](int64_t i) { return At{i / t.chunks * t.block_rows + r, i % t.chunks}; };
      const auto read = [&](int64_t i) { return At{i % blocks * t.block_rows + r, i / blocks}; };
      ASSERT_EQ(warp_passes(t, warp, write), ideal);
      ASSERT_EQ(warp_passes(t, warp, read), ideal);
    }
  }
}

TEST(SharedTile, PlacesAreOneToOneAndFreeOfBankConflicts) {
  int tried = 0;
  for (int element : {1, 2, 4, 8}) {
    for (int from_vec = 1; from_vec * element <= 32; from_vec *= 2) {
      for (int to_vec : {1, 2, 4, 8, 16}) {
        for (int from : {16, 32, 64, 128}) {
          for (int to : {16, 32, 128}) {
            if (from < from_vec) continue;
            const SharedTile t = shared_tile(from, from_vec, to, to_vec, element);
            const int64_t blocks = t.chunks * t.rows / t.block_rows;
            if (blocks < 32) continue;  // the family chooses a block for each lane of a warp
            SCOPED_TRACE(std::to_string(element) + " bytes, " + std::to_string(from_vec) + " of " +
                         std::to_string(from) + " to " + std::to_string(to_vec) + " of " + std::to_string(to));
            ASSERT_EQ(t.bytes(), int64_t{from} * to * element);
            std::set<int64_t> places;
            for (int64_t row = 0; row < t.rows; ++row) {
              for (int64_t chunk = 0; chunk < t.chunks; ++chunk) places.insert(t.place(row, chunk));
            }
            ASSERT_EQ(places.size(), static_cast<size_t>(t.rows * t.chunks));
            ASSERT_EQ(*places.rbegin(), t.rows * t.chunks - 1);
            expect_no_conflicts(t);
            if (HasFatalFailure()) return;
            ++tried;
          }
        }
      }
    }
  }
  EXPECT_GT(tried, 100);
}

TEST(Transpose, TextForm) {
  TransposeParams params;
  params.tile_x = 128;
  params.tile_y = 64;
  params.vec_x = params.vec_y = 8;
  params.threads = 128;
  params.align = 16;
  const std::string text = print(params.schedule());
  EXPECT_EQ(text, "transpose tile_x=128 tile_y=64 vec_x=8 vec_y=8 threads=128 index_bits=32 align=16");
  EXPECT_EQ(TransposeParams::of(parse_schedule(text)).schedule(), params.schedule());
}

TEST(Transpose, SixteenByteVectorsOfEveryElementSize) {
  const std::pair<const char*, const char*> kSchedules[] = {
      {"i8", "transpose tile_x=128 tile_y=128 vec_x=8 vec_y=16 threads=128 index_bits=32 align=16"},
      {"bf16", "transpose tile_x=128 tile_y=64 vec_x=8 vec_y=8 threads=128 index_bits=32 align=16"},
      {"f32", "transpose tile_x=128 tile_y=32 vec_x=4 vec_y=4 threads=128 index_bits=32 align=16"},
      {"f64", "transpose tile_x=128 tile_y=16 vec_x=2 vec_y=2 threads=256 index_bits=32 align=16"},
  };
  for (const auto& [type, schedule] : kSchedules) {
    const Proposed p(transposing_abs(type));
    ASSERT_FALSE(p.proposal.candidates.empty());
    EXPECT_EQ(print(p.proposal.candidates[0].schedule), schedule);
    EXPECT_EQ(p.proposal.candidates[0].condition.pointer_alignment, 16);
    for (const Footprint::Access& a : p.proposal.candidates[0].footprint.accesses)
      EXPECT_EQ(a.efficiency, 1) << a.value;
  }
}

TEST(Transpose, SymbolicSizesAreConditionsAndTheLastVariantHasNone) {
  const Proposed p(R"(
graph @k(%0: bf16[s0, s1]) -> bf16[s1, s0]
  symbols (s0 = 4096 in [0, 1000000], s1 = 1024 in [0, 1000000])
{
  %1 = permute %0 dims [1, 0]
  %2 = abs %1
  return %2
}
)");
  const Candidate& wide = *p.first("transpose");
  const std::vector<std::pair<Expr, int64_t>> divisible = {{Expr::symbol("s0"), 8}, {Expr::symbol("s1"), 8}};
  EXPECT_EQ(wide.condition.divisible, divisible);
  EXPECT_TRUE(wide.condition.index_32bit);
  EXPECT_TRUE(std::any_of(p.proposal.candidates.begin(), p.proposal.candidates.end(), [](const Candidate& c) {
    return c.schedule.family == "transpose" && c.condition == Condition{} && c.schedule.param("vec_x") == 1 &&
           c.schedule.param("index_bits") == 64;
  }));
  const LaunchShape shape = launch_shape(p.body, wide.schedule, on("h200").gpu);
  EXPECT_EQ(shape.grid[0].evaluate({{"s0", 4096}, {"s1", 1024}}), 32 * 16);
  EXPECT_EQ(shape.grid[0].evaluate({{"s0", 129}, {"s1", 1}}), 2);
  EXPECT_EQ(shape.grid[0].evaluate({{"s0", 0}, {"s1", 5}}), 0);
}

TEST(Transpose, ValuesCrossWhereTheyAreFewest) {
  const Proposed p(R"(
graph @k(%0: f32[256, 512], %1: f32[256, 512], %2: bf16[512, 256]) -> (f32[512, 256], bf16[256, 512])
{
  %3 = add %0, %1
  %4 = cast %3 to bf16
  %5 = permute %4 dims [1, 0]
  %6 = add %5, %2
  %7 = permute %6 dims [1, 0]
  %8 = cast %6 to f32
  return %8, %7
}
)");
  const TransposePhases t = transpose_phases(p.program);
  ASSERT_EQ(t.why_not, "");
  ASSERT_EQ(t.into_x.size(), 1u);  // the cast, not the two operands
  EXPECT_EQ(p.program.steps[t.into_x[0]].value->name, "4");
  ASSERT_EQ(t.into_y.size(), 1u);
  EXPECT_EQ(p.program.steps[t.into_y[0]].value->name, "6");
  EXPECT_EQ(t.loads_along_y.size(), 2u);
  EXPECT_EQ(t.loads_along_x.size(), 1u);
  EXPECT_EQ(t.stores[1], std::vector<int>{0});
  EXPECT_EQ(t.stores[2], std::vector<int>{1});
}

TEST(Transpose, ReasonsWhyNot) {
  const auto why = [](const std::string& text) {
    const Graph body = parse_graph(text);
    return transpose_phases(*make_element_program(body).program).why_not;
  };
  EXPECT_EQ(why("graph @k(%0: f32[8, 16]) -> f32[8]\n{\n  %1 = sum %0 dims [1] keepdim false\n  return %1\n}\n"),
            "the group has a reduction");
  EXPECT_EQ(why("graph @k(%0: f32[8, 16]) -> f32[8, 16]\n{\n  %1 = neg %0\n  return %1\n}\n"),
            "all accesses are consecutive along the same axis");
  EXPECT_EQ(why("graph @k(%0: f32[64, 32]) -> f32[64, 32] strides [128, 2]\n{\n  %1 = neg %0 : f32[64, 32] strides "
                "[128, 2]\n  return %1\n}\n"),
            "no output is consecutive along an axis");
}

// Measured on an H200: 470 us in the pointwise family; a hand-written tiled kernel takes 71.6.
TEST(Transpose, PriceAgreesWithMeasurement) {
  const Proposed p(transposing_abs("bf16"));
  EXPECT_NEAR(p.time_us(*p.first("pointwise")), 470, 25);
  EXPECT_NEAR(p.time_us(*p.first("transpose")), 70, 8);
}

// A kernel that reduces rows and writes them transposed pays for each sector that it writes.
TEST(Transpose, AReductionPaysForATransposedOutput) {
  const std::string body = R"( {
  %1 = max %0 dims [1] keepdim true
  %2 = expand %1 shape [4096, 1024]
  %3 = sub %0, %2 )";
  const auto efficiency = [&](const std::string& text) {
    const Proposed p(text);
    return p.proposal.candidates.at(0).footprint.accesses.back().efficiency;
  };
  EXPECT_EQ(efficiency("graph @k(%0: bf16[4096, 1024]) -> bf16[4096, 1024]\n" + body + "\n  return %3\n}\n"), 1);
  EXPECT_EQ(efficiency("graph @k(%0: bf16[4096, 1024]) -> bf16[1024, 4096]\n" + body +
                       "\n  %4 = permute %3 dims [1, 0]\n  return %4\n}\n"),
            2.0 / 32);
}

}  // namespace
}  // namespace tilewright
