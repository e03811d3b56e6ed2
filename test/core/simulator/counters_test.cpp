// What the memory system would see, for access patterns whose counts follow from the definition.
#include <memory>

#include "run.h"

namespace tilewright::sim {
namespace {

// One warp loads `type` elements of `bytes` at base + lane * stride + offset.
LaunchResult strided_load(const std::string& instruction, const std::string& registers, uint32_t stride,
                          uint32_t offset, uint32_t lanes = 32) {
  const std::string ptx = module_header() + R"(
.visible .entry k(.param .u64 in)
{
  .reg .b64 %r<4>;
  .reg .b32 %t;
  .reg .b32 %x<4>;
  .reg .b64 %y<2>;
  .reg .b16 %h;
  ld.param.u64 %r1, [in];
  mov.u32 %t, %tid.x;
  mul.wide.u32 %r2, %t, )" +
                          std::to_string(stride) + R"(;
  add.s64 %r1, %r1, %r2;
  )" + instruction + " " + registers +
                          ", [%r1+" + std::to_string(offset) + R"(];
  ret;
})";
  const size_t bytes = 32 * 512;
  const std::unique_ptr<void, void (*)(void*)> in(std::aligned_alloc(128, bytes), std::free);
  const std::vector<Allocation> memory{{reinterpret_cast<uint64_t>(in.get()), bytes, "in", false}};
  const std::vector<std::vector<std::byte>> args{arg(reinterpret_cast<uint64_t>(in.get()))};
  return launch(*parse(ptx), "k", config_1d(1, lanes), args, memory);
}

void expect_global(const LaunchResult& r, uint64_t sectors, uint64_t ideal, uint64_t lines, uint64_t bytes) {
  ASSERT_EQ(r.accesses.size(), 1u);
  const AccessCounters& a = r.accesses[0];
  EXPECT_EQ(a.space, Space::kGlobal);
  EXPECT_EQ(a.requests, 1u);
  EXPECT_EQ(a.sectors, sectors) << a.text;
  EXPECT_EQ(a.ideal_sectors, ideal) << a.text;
  EXPECT_EQ(a.lines, lines) << a.text;
  EXPECT_EQ(a.bytes, bytes) << a.text;
  EXPECT_FALSE(a.is_store);
}

TEST(Counters, GlobalSectorsAndLines) {
  expect_global(strided_load("ld.global.u32", "%x0", 4, 0), 4, 4, 1, 128);
  expect_global(strided_load("ld.global.u32", "%x0", 4, 4), 5, 4, 2, 128);      // one word off
  expect_global(strided_load("ld.global.u32", "%x0", 8, 0), 8, 4, 2, 128);      // every second word
  expect_global(strided_load("ld.global.u32", "%x0", 128, 0), 32, 4, 32, 128);  // a column
  expect_global(strided_load("ld.global.u32", "%x0", 0, 0), 1, 1, 1, 128);      // broadcast
  expect_global(strided_load("ld.global.u16", "%h", 2, 0), 2, 2, 1, 64);
  expect_global(strided_load("ld.global.u64", "%y0", 8, 0), 8, 8, 2, 256);
  expect_global(strided_load("ld.global.v4.u32", "{%x0, %x1, %x2, %x3}", 16, 0), 16, 16, 4, 512);
  expect_global(strided_load("ld.global.v2.u64", "{%y0, %y1}", 32, 0), 32, 16, 8, 512);
  expect_global(strided_load("ld.global.u32", "%x0", 4, 0, 5), 1, 1, 1, 20);  // five lanes
}

TEST(Counters, DescendingAndScatteredAddresses) {
  const std::string ptx = module_header() + R"(
.visible .entry k(.param .u64 in)
{
  .reg .b64 %r<4>;
  .reg .b32 %t, %x;
  ld.param.u64 %r1, [in];
  mov.u32 %t, %tid.x;
  xor.b32 %t, %t, 21;
  mul.wide.u32 %r2, %t, 4;
  add.s64 %r1, %r1, %r2;
  ld.global.u32 %x, [%r1];
  st.global.u32 [%r1+128], %x;
  ret;
})";
  const std::unique_ptr<void, void (*)(void*)> in(std::aligned_alloc(128, 256), std::free);
  const std::vector<Allocation> memory{{reinterpret_cast<uint64_t>(in.get()), 256, "in", true}};
  const std::vector<std::vector<std::byte>> args{arg(reinterpret_cast<uint64_t>(in.get()))};
  const LaunchResult r = launch(*parse(ptx), "k", config_1d(1, 32), args, memory);
  ASSERT_EQ(r.accesses.size(), 2u);
  for (const AccessCounters& a : r.accesses) {
    EXPECT_EQ(a.sectors, 4u);
    EXPECT_EQ(a.lines, 1u);
  }
  EXPECT_TRUE(r.accesses[1].is_store);
  EXPECT_EQ(r.accesses[1].ptx_line, r.accesses[0].ptx_line + 1);
  EXPECT_EQ(r.accesses[1].text, "st.global.u32 [%r1+128], %x");
}

// One warp stores to shared memory at lane * stride.
AccessCounters shared_store(const std::string& instruction, const std::string& registers, uint32_t stride) {
  const std::string ptx = module_header() + R"(
.visible .entry k()
{
  .shared .align 16 .b8 s[8192];
  .reg .b32 %t, %a;
  .reg .b32 %x<4>;
  .reg .b64 %y;
  .reg .b16 %h;
  mov.u32 %t, %tid.x;
  mov.u32 %a, s;
  mad.lo.u32 %a, %t, )" + std::to_string(stride) +
                          R"(, %a;
  )" + instruction + " [%a], " +
                          registers + R"(;
  ret;
})";
  const LaunchResult r = launch(*parse(ptx), "k", config_1d(1, 32), {}, {});
  EXPECT_EQ(r.accesses.size(), 1u);
  return r.accesses.at(0);
}

TEST(Counters, SharedMemoryBankPasses) {
  const auto expect = [](const AccessCounters& a, uint64_t passes, uint64_t ideal) {
    EXPECT_EQ(a.space, Space::kShared);
    EXPECT_EQ(a.passes, passes) << a.text;
    EXPECT_EQ(a.ideal_passes, ideal) << a.text;
  };
  expect(shared_store("st.shared.u32", "%x0", 4), 1, 1);
  expect(shared_store("st.shared.u32", "%x0", 8), 2, 1);     // two lanes a bank
  expect(shared_store("st.shared.u32", "%x0", 128), 32, 1);  // a column of 32 words
  expect(shared_store("st.shared.u32", "%x0", 132), 1, 1);   // a padded column
  expect(shared_store("st.shared.u32", "%x0", 0), 1, 1);     // one word
  expect(shared_store("st.shared.u16", "%h", 2), 1, 1);      // two lanes a word
  expect(shared_store("st.shared.u16", "%h", 64), 16, 1);
  expect(shared_store("st.shared.u64", "%y", 8), 2, 2);  // two half warps
  expect(shared_store("st.shared.u64", "%y", 16), 4, 2);
  expect(shared_store("st.shared.v4.u32", "{%x0, %x1, %x2, %x3}", 16), 4, 4);
  expect(shared_store("st.shared.v4.u32", "{%x0, %x1, %x2, %x3}", 128), 32, 4);
}

TEST(Counters, InstructionsByKind) {
  const std::string ptx = module_header() + R"(
.visible .entry k()
{
  .reg .b32 %t, %i;
  .reg .f32 %f;
  .reg .f64 %g;
  .reg .pred %p;
  mov.u32 %t, %tid.x;
  mov.u32 %i, 0;
  mov.f32 %f, 0f3F800000;
LOOP:
  fma.rn.f32 %f, %f, %f, %f;
  add.u32 %i, %i, 1;
  setp.lt.u32 %p, %i, 10;
  @%p bra LOOP;
  cvt.f64.f32 %g, %f;
  add.f64 %g, %g, %g;
  ex2.approx.f32 %f, %f;
  bar.sync 0;
  setp.lt.u32 %p, %t, 8;
  @%p bra END;
END:
  ret;
})";
  const LaunchResult r = launch(*parse(ptx), "k", config_1d(3, 40), {}, {});
  const Counters& t = r.total;
  EXPECT_EQ(t.blocks, 3u);
  EXPECT_EQ(t.warps, 6u);
  EXPECT_EQ(t.fp32, 60u);
  EXPECT_EQ(t.fp64, 6u);
  EXPECT_EQ(t.integer, 6u * 21);
  EXPECT_EQ(t.move, 18u);
  EXPECT_EQ(t.convert, 6u);
  EXPECT_EQ(t.special, 6u);
  EXPECT_EQ(t.barrier, 6u);
  EXPECT_EQ(t.control, 6u * 12);
  EXPECT_EQ(t.divergent_branches, 3u);
  EXPECT_EQ(t.warp_instructions, t.fp32 + t.fp64 + t.integer + t.move + t.convert + t.special + t.barrier + t.control);
  // All instructions of the 40 lanes but the last branch, which eight lanes take.
  const uint64_t lanes = 40 * (3 + 10 * 3 + 9 + 3 + 1 + 1 + 1) + 8;
  EXPECT_EQ(t.lane_instructions, 3 * lanes);
}

TEST(Counters, LinesCarryTheirLocation) {
  const std::string ptx = module_header() + R"(
.file 1 "group.tw"
.visible .entry k()
{
  .reg .b32 %t;
  .loc 1 12 3
  mov.u32 %t, %tid.x;
  .loc 1 14 0
  add.u32 %t, %t, 1;
  ret;
})";
  const LaunchResult r = launch(*parse(ptx), "k", config_1d(1, 32), {}, {});
  ASSERT_EQ(r.lines.size(), 3u);
  EXPECT_EQ(r.lines[0].loc_line, 12);
  EXPECT_EQ(r.lines[1].loc_line, 14);
  EXPECT_EQ(r.lines[1].ptx_line, 12);
  EXPECT_EQ(r.lines[1].lanes, 32u);
}

TEST(Counters, OffWhenNotAsked) {
  LaunchConfig config = config_1d(1, 32);
  config.counters = false;
  const LaunchResult r = launch(*parse(module_header() + ".visible .entry k() { ret; }"), "k", config, {}, {});
  EXPECT_EQ(r.total.warp_instructions, 0u);
}

}  // namespace
}  // namespace tilewright::sim
