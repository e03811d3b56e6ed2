// Speed of the simulator on one core, counters and bounds checks on, without and with the checks for races and
// uninitialised memory. Prints lane instructions a second, and multiply-adds a second of mma.sync; each kernel's result
// is checked first.
//
//   simulator_speed [--out folder] [--note text]     writes simulator_speed-<date>.json and .md too
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "../results.h"
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

// A warp multiplies 16x16 by 16x32 of ones, `passes` times: two ldmatrix for four mma, of which each accumulator counts
// 16 a pass.
std::string mma_kernel() {
  std::string body;
  for (int n = 0; n < 4; ++n) {
    const auto f = [&](int i) { return "%f" + std::to_string(4 * n + i); };
    const std::string d = "{" + f(0) + ", " + f(1) + ", " + f(2) + ", " + f(3) + "}";
    const std::string b = "{%r" + std::to_string(14 + 2 * (n % 2)) + ", %r" + std::to_string(15 + 2 * (n % 2)) + "}";
    body += "  mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 " + d + ", {%r10, %r11, %r12, %r13}, " + b + ", " +
            d + ";\n";
  }
  std::string zeros;
  for (int i = 0; i < 16; ++i) zeros += "  mov.f32 %f" + std::to_string(i) + ", 0f00000000;\n";
  return header() + R"(
.visible .entry mma_loop(.param .u64 out, .param .u32 passes) {
  .shared .align 16 .b8 s[1024];
  .reg .f32 %f<16>;
  .reg .b32 %r<24>;
  .reg .b64 %rd<8>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [passes];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, s;
  and.b32 %r4, %r2, 31;
  mad.lo.s32 %r5, %r4, 16, %r3;
  setp.lt.u32 %p1, %r2, 32;
  @%p1 st.shared.v4.b32 [%r5], {0x3F803F80, 0x3F803F80, 0x3F803F80, 0x3F803F80};
  @%p1 st.shared.v4.b32 [%r5+512], {0x3F803F80, 0x3F803F80, 0x3F803F80, 0x3F803F80};
  bar.sync 0;
)" + zeros +
         R"(  mov.u32 %r6, 0;
LOOP:
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r5];
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r14, %r15, %r16, %r17}, [%r5+512];
)" + body +
         R"(  add.s32 %r6, %r6, 1;
  setp.lt.s32 %p1, %r6, %r1;
  @%p1 bra LOOP;
  mov.u32 %r7, %ctaid.x;
  mov.u32 %r8, %ntid.x;
  mad.lo.s32 %r9, %r7, %r8, %r2;
  mul.wide.s32 %rd2, %r9, 4;
  add.s64 %rd3, %rd1, %rd2;
  add.f32 %f0, %f0, %f15;
  st.global.f32 [%rd3], %f0;
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
  for (int i = 0; i < 15; ++i) {
    const auto start = std::chrono::steady_clock::now();
    Timed t;
    t.result = sim::launch(*module, entry, config, args, memory);
    t.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (t.seconds < best.seconds) best = t;
  }
  return best;
}

struct Row {
  std::string name, unit;
  double target = 0, plain = 0, checked = 0;  // 1e6 a second
};

void check(bool right, const char* name) {
  if (right) return;
  std::fprintf(stderr, "%s: wrong result\n", name);
  std::exit(1);
}

template <typename T>
sim::Allocation allocation(const std::vector<T>& v, const char* name) {
  return {reinterpret_cast<uint64_t>(v.data()), v.size() * sizeof(T), name, true};
}

// Times a kernel without checks and with them; `work` is what a launch does.
Row measure(const char* name, const char* unit, double target, const std::string& ptx, const std::string& entry,
            sim::LaunchConfig config, const std::vector<std::vector<std::byte>>& args,
            const std::vector<sim::Allocation>& memory, double (*work)(const sim::LaunchResult&)) {
  Row row{name, unit, target};
  config.threads = 1;
  const Timed plain = timed(ptx, entry, config, args, memory);
  row.plain = 1e-6 * work(plain.result) / plain.seconds;
  config.check_races = config.check_uninitialized = true;
  const Timed checked = timed(ptx, entry, config, args, memory);
  row.checked = 1e-6 * work(checked.result) / checked.seconds;
  return row;
}

double lane_instructions(const sim::LaunchResult& r) { return static_cast<double>(r.total.lane_instructions); }

Row fma_loop() {
  const uint32_t blocks = 8, threads = 256, passes = 2000;
  std::vector<float> out(blocks * threads);
  sim::LaunchConfig config;
  config.grid = {blocks, 1, 1};
  config.block = {threads, 1, 1};
  const Row row = measure("f32 fma loop", "M lane-instructions/s", 400, fma_kernel(), "fma_loop", config,
                          {sim::arg(reinterpret_cast<uint64_t>(out.data())), sim::arg(passes)},
                          {allocation(out, "out")}, lane_instructions);
  check(std::fabs(out[100] - 8.0f) < 1e-3f, "fma_loop");  // the fixed point 2 of x / 2 + 1, four times
  return row;
}

Row mma_loop() {
  const uint32_t blocks = 4, threads = 128, passes = 2000;
  std::vector<float> out(blocks * threads);
  sim::LaunchConfig config;
  config.grid = {blocks, 1, 1};
  config.block = {threads, 1, 1};
  const Row row =
      measure("mma.sync bf16 loop", "M multiply-adds/s", 1500, mma_kernel(), "mma_loop", config,
              {sim::arg(reinterpret_cast<uint64_t>(out.data())), sim::arg(passes)}, {allocation(out, "out")},
              [](const sim::LaunchResult& r) { return 16.0 * 8 * 16 * 4 * 2000 * static_cast<double>(r.total.warps); });
  for (float v : out) check(v == 2 * 16.0f * static_cast<float>(passes), "mma_loop");
  return row;
}

Row copy(const char* name, bool vector) {
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
  const Row row = measure(name, "M lane-instructions/s", 100, copy_kernel(vector), "copy", config,
                          {sim::arg(from), sim::arg(to), sim::arg(n)},
                          {{from, bytes, "in", false}, {to, bytes, "out", true}}, lane_instructions);
  check(std::memcmp(in.get(), out.get(), bytes) == 0, name);
  return row;
}

}  // namespace

int main(int argc, char** argv) {
  std::string folder, note;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--out") == 0) folder = argv[i + 1];
    if (std::strcmp(argv[i], "--note") == 0) note = argv[i + 1];
  }
  std::vector<Row> rows;
  const auto run = [&](const Row& r) {
    std::printf("%-26s %9.1f %s (target %.0f), with checks %9.1f (%.2f)\n", r.name.c_str(), r.plain, r.unit.c_str(),
                r.target, r.checked, r.checked / r.plain);
    rows.push_back(r);
  };
  run(fma_loop());
  run(copy("streaming copy, 4 bytes", false));
  run(copy("streaming copy, 16 bytes", true));
  run(mma_loop());
  if (folder.empty()) return 0;
  nlohmann::ordered_json table = nlohmann::ordered_json::array();
  for (const Row& r : rows) {
    table.push_back({{"case", r.name},
                     {"unit", r.unit},
                     {"target", r.target},
                     {"checks_off", r.plain},
                     {"checks_on", r.checked},
                     {"on_over_off", r.checked / r.plain}});
  }
  write_results(folder, "simulator_speed", {{"threads", 1}, {"note", note}}, table);
}
