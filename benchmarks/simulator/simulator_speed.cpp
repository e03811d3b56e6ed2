// Speed of the simulator on one core, counters and bounds checks on. Prints lane instructions a second; each kernel's
// result is checked first.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "simulator/simulator.h"

namespace {

using namespace tilewright;

std::string header() { return ".version 8.5\n.target sm_90a\n.address_size 64\n"; }

// 16 fma a pass, `passes` times a thread.
std::string fma_kernel() {
  std::string body;
  for (int i = 0; i < 16; ++i) {
    const std::string r = "%f" + std::to_string(i % 4);
    body += "  fma.rn.f32 " + r + ", " + r + ", %f8, %f9;\n";
  }
  return header() + R"(
.visible .entry fma_loop(.param .u64 out, .param .u32 passes) {
  .reg .f32 %f<16>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<8>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [passes];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mad.lo.s32 %r5, %r3, %r4, %r2;
  cvt.rn.f32.s32 %f0, %r5;
  mov.f32 %f1, %f0;
  mov.f32 %f2, %f0;
  mov.f32 %f3, %f0;
  mov.f32 %f8, 0f3F000000;
  mov.f32 %f9, 0f3F800000;
  mov.u32 %r6, 0;
LOOP:
)" + body +
         R"(  add.s32 %r6, %r6, 1;
  setp.lt.s32 %p1, %r6, %r1;
  @%p1 bra LOOP;
  add.f32 %f4, %f0, %f1;
  add.f32 %f4, %f4, %f2;
  add.f32 %f4, %f4, %f3;
  mul.wide.s32 %rd2, %r5, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.f32 [%rd3], %f4;
  ret;
})";
}

// One element (or 16 bytes) a thread.
std::string copy_kernel(bool vector) {
  return header() + R"(
.visible .entry copy(.param .u64 in, .param .u64 out, .param .u32 n) {
  .reg .f32 %f<8>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<8>;
  .reg .pred %p<2>;
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mad.lo.s32 %r5, %r3, %r4, %r2;
  setp.ge.s32 %p1, %r5, %r1;
  @%p1 bra END;
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  mul.wide.s32 %rd3, %r5, )" +
         std::string(vector ? "16" : "4") + R"(;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
)" +
         (vector
              ? "  ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%rd4];\n  st.global.v4.f32 [%rd5], {%f0, %f1, %f2, %f3};\n"
              : "  ld.global.f32 %f0, [%rd4];\n  st.global.f32 [%rd5], %f0;\n") +
         R"(END:
  ret;
})";
}

struct Timed {
  sim::LaunchResult result;
  double seconds = 0;
};

Timed timed(const std::string& ptx, const std::string& entry, const sim::LaunchConfig& config,
            const std::vector<std::vector<std::byte>>& args, const std::vector<sim::Allocation>& memory) {
  const auto module = sim::parse(ptx);
  Timed best;
  best.seconds = 1e30;
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    Timed t;
    t.result = sim::launch(*module, entry, config, args, memory);
    t.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (t.seconds < best.seconds) best = t;
  }
  return best;
}

void report(const char* name, const Timed& t) {
  std::printf("%-24s %8.1f M lane-instructions/s  (%llu in %.3f s)\n", name,
              1e-6 * t.result.total.lane_instructions / t.seconds,
              static_cast<unsigned long long>(t.result.total.lane_instructions), t.seconds);
}

void check(bool right, const char* name) {
  if (right) return;
  std::fprintf(stderr, "%s: wrong result\n", name);
  std::exit(1);
}

template <typename T>
sim::Allocation allocation(const std::vector<T>& v, const char* name) {
  return {reinterpret_cast<uint64_t>(v.data()), v.size() * sizeof(T), name, true};
}

void fma_loop() {
  const uint32_t blocks = 8, threads = 256, passes = 2000;
  std::vector<float> out(blocks * threads);
  sim::LaunchConfig config;
  config.grid = {blocks, 1, 1};
  config.block = {threads, 1, 1};
  config.threads = 1;
  const Timed t = timed(fma_kernel(), "fma_loop", config,
                        {sim::arg(reinterpret_cast<uint64_t>(out.data())), sim::arg(passes)}, {allocation(out, "out")});
  check(std::fabs(out[100] - 8.0f) < 1e-3f, "fma_loop");  // the fixed point 2 of x / 2 + 1, four times
  report("fma loop", t);
}

void copy(const char* name, bool vector) {
  const uint32_t threads = 256, blocks = 4096, n = threads * blocks, width = vector ? 4 : 1;
  const size_t bytes = size_t{n} * width * sizeof(float);
  const std::unique_ptr<float, void (*)(void*)> in(static_cast<float*>(std::aligned_alloc(128, bytes)), std::free);
  const std::unique_ptr<float, void (*)(void*)> out(static_cast<float*>(std::aligned_alloc(128, bytes)), std::free);
  for (size_t i = 0; i < bytes / sizeof(float); ++i) in.get()[i] = static_cast<float>(i % 1000);
  std::memset(out.get(), 0, bytes);
  const uint64_t from = reinterpret_cast<uint64_t>(in.get()), to = reinterpret_cast<uint64_t>(out.get());
  sim::LaunchConfig config;
  config.grid = {blocks, 1, 1};
  config.block = {threads, 1, 1};
  config.threads = 1;
  const Timed t = timed(copy_kernel(vector), "copy", config, {sim::arg(from), sim::arg(to), sim::arg(n)},
                        {{from, bytes, "in", false}, {to, bytes, "out", true}});
  check(std::memcmp(in.get(), out.get(), bytes) == 0, name);
  check(t.result.total.global_load.sectors == uint64_t{n} * width * 4 / 32, name);
  report(name, t);
}

}  // namespace

int main() {
  fma_loop();
  copy("streaming copy, 4 bytes", false);
  copy("streaming copy, 16 bytes", true);
}
