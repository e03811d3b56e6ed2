#include "runtime/executor.h"

#include <gtest/gtest.h>

#include "fake_runtime.h"

namespace tilewright {
namespace {

using Strings = std::vector<std::string>;

// A plan, kernels `twice` (y = 2x, n words of symbol 0) and `add_in_place`, and the runs over them.
class ExecutorTest : public testing::Test {
 protected:
  ExecutorTest() {
    device_->kernels["twice"] = [](const LaunchRequest& r) {
      const auto n = static_cast<int64_t>(r.args[r.args.size() - 1]);
      for (int64_t i = 0; i < n; ++i) pointer(r.args[1])[i] = 2 * pointer(r.args[0])[i];
    };
    // x[i] += y[n - 1 - i], which goes wrong where y shares x's memory.
    device_->kernels["add_flipped"] = [](const LaunchRequest& r) {
      const auto n = static_cast<int64_t>(r.args[2]);
      for (int64_t i = 0; i < n; ++i) pointer(r.args[0])[i] += pointer(r.args[1])[n - 1 - i];
    };
    device_->kernels["nothing"] = [](const LaunchRequest&) {};
  }

  Executor make(const char* text) { return Executor(std::make_shared<Plan>(parse_plan(text)), kernels_, device_); }
  std::vector<float> values(FakeCaller& caller, Slot slot) {
    std::vector<float> result;
    result.reserve(caller.fake(slot).sizes.back());
    for (int64_t i = 0; i < caller.fake(slot).sizes.back(); ++i) result.push_back(caller.fake(slot).at(i));
    return result;
  }

  std::shared_ptr<FakeKernels> kernels_ = std::make_shared<FakeKernels>();
  std::shared_ptr<FakeDevice> device_ = std::make_shared<FakeDevice>();
  std::vector<int64_t> symbols_;
};

const char* const kTwice = R"(plan @p($0: f32[s0] strides [1])
  symbols (s0 = size($0, 0))
{
  $1 = launch "twice"($0) symbols (s0 = s0)
    variant "wide" if align 16 index32 divisible (s0, 4) at_most (s0, 1000)
    variant "any"
    : f32[s0] strides [1]
  free $0
  return $1
}
)";

TEST_F(ExecutorTest, LaunchesIntoAllocatedOutputs) {
  kernels_->add("wide", "twice", ceildiv(Expr::symbol("s0"), 2));
  const Executor executor = make(kTwice);
  FakeCaller caller(executor.plan(), {make_vector({1, 2, 3, 4})});
  executor.run(caller, symbols_);
  EXPECT_EQ(values(caller, 1), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(caller.log, (Strings{"enter twice", "leave", "drop 0"}));
  EXPECT_EQ(device_->grid, (std::array<uint32_t, 3>{2, 1, 1}));
  EXPECT_EQ(device_->stream, &caller);
  EXPECT_EQ(symbols_, std::vector<int64_t>{4});
}

TEST_F(ExecutorTest, ListsTheMemoryOfALaunch) {
  kernels_->add("wide", "twice", 1);
  const Executor executor = make(kTwice);
  FakeCaller caller(executor.plan(), {make_vector({1, 2, 3, 4})});
  executor.run(caller, symbols_);
  ASSERT_EQ(device_->memory.size(), 2u);
  EXPECT_EQ(device_->memory[0].bytes, 16u);
  EXPECT_FALSE(device_->memory[0].writable);
  EXPECT_EQ(device_->memory[1].base, reinterpret_cast<uint64_t>(caller.fake(1).data()));
  EXPECT_TRUE(device_->memory[1].writable);
  EXPECT_EQ(device_->memory[1].parameter, 1);
}

TEST_F(ExecutorTest, TakesTheFirstVariantThatHolds) {
  kernels_->add("wide", "twice", 1);
  kernels_->add("any", "twice", 1);
  const Executor executor = make(kTwice);
  const auto variant_of = [&](FakeTensor x) {
    device_->log.clear();
    FakeCaller caller(executor.plan(), {std::move(x)});
    const auto before = executor.counts();
    executor.run(caller, symbols_);
    const auto after = executor.counts();
    return after[0].launches > before[0].launches ? after[0].key : after[1].key;
  };
  EXPECT_EQ(variant_of(make_vector(std::vector<float>(8))), "wide");
  EXPECT_EQ(variant_of(make_vector(std::vector<float>(6))), "any") << "not a multiple of 4";
  EXPECT_EQ(variant_of(make_vector(std::vector<float>(1004))), "any") << "over 1000";
  FakeTensor odd = make_vector(std::vector<float>(9));
  odd.offset = 1;
  odd.sizes = {8};
  EXPECT_EQ(variant_of(odd), "any") << "not aligned";
}

TEST_F(ExecutorTest, LoadsAKernelOnceAGpu) {
  kernels_->add("wide", "twice", 1);
  const Executor executor = make(kTwice);
  for (int gpu : {0, 0, 1, 0, 1}) {
    FakeCaller caller(executor.plan(), {make_vector({1, 2, 3, 4})});
    caller.gpu = gpu;
    executor.run(caller, symbols_);
  }
  EXPECT_EQ(std::count(device_->log.begin(), device_->log.end(), "load wide on 0"), 1);
  EXPECT_EQ(std::count(device_->log.begin(), device_->log.end(), "load wide on 1"), 1);
}

TEST_F(ExecutorTest, LoadsNothingWhileAGraphIsCaptured) {
  kernels_->add("wide", "twice", 1);
  kernels_->add("any", "twice", 1);
  const Executor executor = make(kTwice);
  FakeCaller before(executor.plan(), {make_vector({1, 2, 3, 4})});
  executor.run(before, symbols_);
  device_->capturing = true;
  FakeCaller same(executor.plan(), {make_vector({1, 2, 3, 4})});
  executor.run(same, symbols_);
  EXPECT_EQ(values(same, 1), (std::vector<float>{2, 4, 6, 8}));
  FakeCaller other(executor.plan(), {make_vector({1, 2, 3})});
  EXPECT_THROW(executor.run(other, symbols_), DeviceError);
}

TEST_F(ExecutorTest, AnEmptyGridIsNotLaunched) {
  kernels_->add("wide", "twice", Expr::symbol("s0"));
  const Executor executor = make(kTwice);
  FakeCaller caller(executor.plan(), {make_vector({})});
  executor.run(caller, symbols_);
  EXPECT_EQ(caller.fake(1).sizes, std::vector<int64_t>{0});
  EXPECT_EQ(std::count(device_->log.begin(), device_->log.end(), "launch twice"), 0);
}

TEST_F(ExecutorTest, PassesWordsInTheKernelsOrder) {
  Artifact& artifact = kernels_->add("a", "nothing", 1);
  artifact.workspace_bytes = {Expr::symbol("s1") * Expr(4), 64};
  artifact.dynamic_smem_bytes = Expr::symbol("s0") * Expr(2);
  const Executor executor = make(R"(plan @p($0: f32[s7] strides [1], $1: int = s3, $2: float, $3: f32[] host)
  symbols (s7 = size($0, 0), s3 = $1)
{
  $4 = launch "k"($0, int $1, float $2, host $3) symbols (s0 = s3, s1 = 2*s7) variant "a" : f32[2] strides [1]
  return $4
}
)");
  FakeCaller caller(executor.plan(), {make_vector({1, 2, 3}), int64_t{-5}, 0.25, make_tensor({1.5f}, {}, {})});
  executor.run(caller, symbols_);
  ASSERT_EQ(device_->words.size(), 9u);
  EXPECT_EQ(device_->words[0], reinterpret_cast<uint64_t>(caller.fake(0).data()));
  EXPECT_EQ(static_cast<int64_t>(device_->words[1]), -5);
  EXPECT_EQ(std::bit_cast<double>(device_->words[2]), 0.25);
  EXPECT_EQ(std::bit_cast<double>(device_->words[3]), 1.5);
  EXPECT_EQ(device_->words[4], reinterpret_cast<uint64_t>(caller.fake(4).data()));
  EXPECT_EQ(device_->memory[2].bytes, 24u);
  EXPECT_EQ(device_->memory[3].bytes, 64u);
  EXPECT_EQ(static_cast<int64_t>(device_->words[7]), -5);
  EXPECT_EQ(device_->words[8], 6u);
  EXPECT_EQ(static_cast<int32_t>(device_->dynamic_smem_bytes), -10);
  EXPECT_TRUE(caller.workspaces.empty());
}

const char* const kAddInPlace = R"(plan @p($0: f32[s0] strides [1], $1: f32[s0] strides [1])
  symbols (s0 = size($0, 0))
{
  $2 = launch "add_"($0, $1) symbols (s0 = s0) variant "a" : f32[s0] into $0
  free $0, $1
  return $2
}
)";

TEST_F(ExecutorTest, WritesIntoAnInput) {
  kernels_->add("a", "add_flipped", 1);
  const Executor executor = make(kAddInPlace);
  const FakeTensor x = make_vector({1, 2, 3}), y = make_vector({10, 20, 30});
  FakeCaller caller(executor.plan(), {x, y});
  executor.run(caller, symbols_);
  EXPECT_EQ(*x.storage, (std::vector<float>{31, 22, 13}));
  EXPECT_EQ(caller.fake(2).storage, x.storage);
  EXPECT_EQ(device_->words.size(), 3u) << "no word for an output that is an input";
  EXPECT_TRUE(device_->memory[0].writable);
  EXPECT_FALSE(device_->memory[1].writable);
}

TEST_F(ExecutorTest, AnInputThatSharesTheWrittenMemoryIsReadAsItWas) {
  kernels_->add("a", "add_flipped", 1);
  const Executor executor = make(kAddInPlace);
  FakeTensor whole = make_vector({1, 2, 3, 4});
  FakeTensor x = whole, y = whole;
  x.sizes = y.sizes = {3};
  y.offset = 1;
  FakeCaller caller(executor.plan(), {x, y});
  executor.run(caller, symbols_);
  EXPECT_EQ(caller.log[0], "restride 1");
  EXPECT_EQ(*whole.storage, (std::vector<float>{1 + 4, 2 + 3, 3 + 2, 4}));
}

TEST_F(ExecutorTest, OtherStridesAreMetWithACopy) {
  kernels_->add("wide", "twice", 1);
  const Executor executor = make(kTwice);
  FakeTensor x = make_vector({1, 0, 2, 0, 3, 0, 4, 0});
  x.sizes = {4};
  x.strides = {2};
  FakeCaller caller(executor.plan(), {x});
  executor.run(caller, symbols_);
  EXPECT_EQ(values(caller, 1), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(*x.storage, (std::vector<float>{1, 0, 2, 0, 3, 0, 4, 0}));
}

TEST_F(ExecutorTest, OtherStridesOfAWrittenInputAreAnError) {
  kernels_->add("a", "add_flipped", 1);
  const Executor executor = make(kAddInPlace);
  FakeTensor x = make_vector({1, 0, 2, 0});
  x.sizes = {2};
  x.strides = {2};
  FakeCaller caller(executor.plan(), {x, make_vector({1, 2})});
  EXPECT_THROW(executor.run(caller, symbols_), UserError);
}

TEST_F(ExecutorTest, OtherSizesAreAnError) {
  kernels_->add("a", "add_flipped", 1);
  const Executor executor = make(kAddInPlace);
  FakeCaller caller(executor.plan(), {make_vector({1, 2}), make_vector({1, 2, 3})});
  try {
    executor.run(caller, symbols_);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "input 1 has the sizes [3], the graph was compiled for [2]");
  }
}

TEST_F(ExecutorTest, ReadsSymbolsOfLinearSizesAndOfResults) {
  const Executor executor = make(R"(plan @p($0: f32[2*s0 + 1])
  symbols (2*s0 + 1 = size($0, 0), u0 = size($1, 0), u1 = $2)
{
  $1, $2 = call test.odd.default($0) : f32[u0], int = u1
  free $0
  $3 = view $1 : f32[u1] strides [2] offset 1
  call test.look.default($3, u0*u1)
  free $1, $3
  return u1, s0
}
)");
  int64_t looked = 0;
  FakeCaller caller(executor.plan(), {make_vector({1, 2, 3, 4, 5, 6, 7})},
                    {{"test.odd.default",
                      [](FakeCaller& c, const Call& call, std::span<const int64_t>) {
                        c.slots[call.results[0]] = make_vector({10, 11, 12, 13, 14});
                        c.slots[call.results[1]] = int64_t{2};
                      }},
                     {"test.look.default", [&](FakeCaller& c, const Call&, std::span<const int64_t> symbols) {
                        EXPECT_EQ(c.fake(3).at(0), 11);
                        EXPECT_EQ(c.fake(3).at(1), 13);
                        looked = symbols[1] * symbols[2];
                      }}});
  executor.run(caller, symbols_);
  EXPECT_EQ(looked, 10);
  EXPECT_EQ(symbols_, (std::vector<int64_t>{3, 5, 2}));
  FakeCaller even(executor.plan(), {make_vector({1, 2})});
  EXPECT_THROW(executor.run(even, symbols_), UserError);
}

// What PyTorch made has its type's strides when it is viewed: a copy of it where nobody else sees the memory.
TEST_F(ExecutorTest, ViewsReadByTheTypesStrides) {
  const auto run = [&](const std::string& result) {
    const std::string text = R"(plan @p($0: f32[4] strides [1], $1: f32[2] strides [1], $2: f32[2] strides [1])
{
  $3 = call test.make.default() : f32[4] strides [1]
  $4 = view $0 : f32[2] strides [2] offset 1
  $5 = view $3 : f32[2] strides [2] offset 1
  copy $4 -> $1
  copy $5 -> $2
  return )" + result + "\n}\n";
    const Executor executor = make(text.c_str());
    FakeTensor every_other = make_vector({1, 0, 2, 0, 3, 0, 4});
    every_other.sizes = {4};
    every_other.strides = {2};
    FakeCaller caller(executor.plan(), {every_other, make_vector({0, 0}), make_vector({0, 0})},
                      {{"test.make.default", [&](FakeCaller& c, const Call& call, std::span<const int64_t>) {
                          c.slots[call.results[0]] = every_other;
                        }}});
    executor.run(caller, symbols_);
    EXPECT_EQ(*caller.fake(1).storage, (std::vector<float>{2, 4}));
    EXPECT_EQ(*caller.fake(2).storage, (std::vector<float>{2, 4}));
  };
  run("$1");
  EXPECT_THROW(run("$4"), UserError);
  EXPECT_THROW(run("$5"), UserError);
}

TEST_F(ExecutorTest, RefusesAnInvalidPlan) {
  EXPECT_THROW(make("plan @p($0: f32[])\n{\n  return $3\n}\n"), InternalError);
  EXPECT_THROW(Executor(std::make_shared<Plan>(parse_plan(kTwice)), nullptr, nullptr), InternalError);
}

}  // namespace
}  // namespace tilewright
