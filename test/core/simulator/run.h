#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "simulator/simulator.h"

// What the simulator's tests share: running a kernel over vectors, and one-instruction kernels.
namespace tilewright::sim {

inline std::string read_data(const std::string& name) {
  std::ifstream in(std::string(TILEWRIGHT_SOURCE_DIR) + "/test/core/simulator/data/" + name);
  EXPECT_TRUE(in.good()) << "no test data " << name;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

template <typename T>
Allocation allocation(std::vector<T>& v, std::string name, bool writable = true) {
  return {reinterpret_cast<uint64_t>(v.data()), v.size() * sizeof(T), std::move(name), writable};
}

template <typename T>
std::vector<std::byte> pointer(const std::vector<T>& v) {
  return arg(reinterpret_cast<uint64_t>(v.data()));
}

inline LaunchConfig config_1d(uint32_t grid, uint32_t block) {
  LaunchConfig c;
  c.grid = {grid, 1, 1};
  c.block = {block, 1, 1};
  return c;
}

inline std::string module_header(const std::string& target = "sm_90a") {
  return ".version 8.5\n.target " + target + "\n.address_size 64\n";
}

// A kernel of one block over 8-byte cells: thread t reads in[4t .. 4t+3] to %a, %b, %c, %e (64 bits each) and writes %d
// to out[t]. `body` computes %d; it may declare further registers.
inline std::string cell_kernel(const std::string& body, const std::string& target = "sm_90a") {
  return module_header(target) + R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .reg .b64 %a, %b, %c, %e, %d, %src, %dst, %off;
  .reg .b32 %thread;
  ld.param.u64 %src, [in];
  ld.param.u64 %dst, [out];
  mov.u32 %thread, %tid.x;
  mul.wide.u32 %off, %thread, 32;
  add.s64 %src, %src, %off;
  mul.wide.u32 %off, %thread, 8;
  add.s64 %dst, %dst, %off;
  ld.global.u64 %a, [%src];
  ld.global.u64 %b, [%src+8];
  ld.global.u64 %c, [%src+16];
  ld.global.u64 %e, [%src+24];
  mov.u64 %d, 0;
)" + body +
         R"(
  st.global.u64 [%dst], %d;
  ret;
}
)";
}

// Runs a cell kernel; `cells` holds four inputs a thread.
inline std::vector<uint64_t> run_cells(const std::string& ptx, std::vector<uint64_t> cells) {
  const uint32_t threads = static_cast<uint32_t>(cells.size() / 4);
  std::vector<uint64_t> out(threads, 0xeeeeeeeeeeeeeeeeull);
  const auto module = parse(ptx);
  const std::vector<Allocation> memory{allocation(cells, "in"), allocation(out, "out")};
  const std::vector<std::vector<std::byte>> args{pointer(cells), pointer(out)};
  launch(*module, "k", config_1d(1, threads), args, memory);
  return out;
}

// The text of what `action` throws.
template <typename Error, typename Action>
std::string thrown(Action action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "(nothing thrown)";
}

}  // namespace tilewright::sim
