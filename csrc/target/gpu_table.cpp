#include <algorithm>
#include <cctype>

#include "target/gpu.h"

namespace tilewright {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;

// Limits of an SM are those of the CUDA programming guide's table of compute capabilities; SMs, clocks, memory and
// link figures are those of the data sheets and architecture white papers. A copy reaches 0.86 to 0.92 of a data
// sheet's memory bandwidth; the rows hold what is reached. Where no measurement is at hand, loads in flight follow from
// bandwidth times loaded latency, and the host's figures are the H200's.
GpuFacts ampere_or_ada(std::string name, std::string arch) {
  GpuFacts gpu;
  gpu.name = std::move(name);
  gpu.arch = std::move(arch);
  gpu.max_threads_per_sm = 1536;
  gpu.smem_per_sm_bytes = 100 * kKiB;
  gpu.smem_optin_bytes = 99 * kKiB;
  gpu.link_bytes_per_s = 25e9;  // PCIe 4.0, 16 lanes, pinned
  gpu.link_latency_us = 8;
  gpu.fma_f32 = 128;
  gpu.fma_f64 = 2;
  gpu.alu = 64;
  gpu.sfu = 16;
  gpu.launch_host_us = 2.2;
  gpu.launch_graph_us = 0.9;
  gpu.kernel_fixed_us = 0.4;
  gpu.call_host_us = 5.0;
  gpu.latency_us = 0.6;
  return gpu;
}

GpuFacts a100() {  // SXM, 80 GB: 2039 GB/s, 312 TFLOP/s in bf16
  GpuFacts gpu = ampere_or_ada("a100", "sm_80");
  gpu.sms = 108;
  gpu.max_threads_per_sm = 2048;
  gpu.max_blocks_per_sm = 32;
  gpu.smem_per_sm_bytes = 164 * kKiB;
  gpu.smem_optin_bytes = 163 * kKiB;
  gpu.l2_bytes = 40 * kMiB;
  gpu.clock_hz = 1.41e9;
  gpu.dram_bytes_per_s = 1.77e12;
  gpu.l2_bytes_per_s = 4.4e12;
  gpu.fma_f32 = 64;
  gpu.fma_f64 = 32;
  gpu.tensor_bf16 = 2048;
  gpu.bytes_in_flight_per_sm = 16 * kKiB;
  gpu.blocks_per_us = 1000;
  return gpu;
}

GpuFacts rtx3090() {  // 936 GB/s, 71 TFLOP/s in bf16 with float32 accumulation
  GpuFacts gpu = ampere_or_ada("rtx3090", "sm_86");
  gpu.sms = 82;
  gpu.max_blocks_per_sm = 16;
  gpu.l2_bytes = 6 * kMiB;
  gpu.clock_hz = 1.695e9;
  gpu.dram_bytes_per_s = 0.86e12;
  gpu.l2_bytes_per_s = 2.0e12;
  gpu.tensor_bf16 = 512;
  gpu.bytes_in_flight_per_sm = 10 * kKiB;
  gpu.blocks_per_us = 900;
  return gpu;
}

GpuFacts l4() {  // 300 GB/s, 121 TFLOP/s in bf16, 72 W: it does not hold its boost clock
  GpuFacts gpu = ampere_or_ada("l4", "sm_89");
  gpu.sms = 58;
  gpu.max_blocks_per_sm = 24;
  gpu.l2_bytes = 48 * kMiB;
  gpu.clock_hz = 1.6e9;
  gpu.dram_bytes_per_s = 0.26e12;
  gpu.l2_bytes_per_s = 1.6e12;
  gpu.tensor_bf16 = 1024;
  gpu.bytes_in_flight_per_sm = 6 * kKiB;
  gpu.blocks_per_us = 700;
  return gpu;
}

GpuFacts rtx4090() {  // 1008 GB/s, 165 TFLOP/s in bf16 with float32 accumulation
  GpuFacts gpu = ampere_or_ada("rtx4090", "sm_89");
  gpu.sms = 128;
  gpu.max_blocks_per_sm = 24;
  gpu.l2_bytes = 72 * kMiB;
  gpu.clock_hz = 2.52e9;
  gpu.dram_bytes_per_s = 0.925e12;
  gpu.l2_bytes_per_s = 5.0e12;
  gpu.tensor_bf16 = 512;
  gpu.bytes_in_flight_per_sm = 8 * kKiB;
  gpu.blocks_per_us = 1500;
  return gpu;
}

GpuFacts h100() {  // SXM: 3350 GB/s, 989 TFLOP/s in bf16
  GpuFacts gpu = ampere_or_ada("h100", "sm_90a");
  gpu.sms = 132;
  gpu.max_threads_per_sm = 2048;
  gpu.max_blocks_per_sm = 32;
  gpu.smem_per_sm_bytes = 228 * kKiB;
  gpu.smem_optin_bytes = 227 * kKiB;
  gpu.l2_bytes = 50 * kMiB;
  gpu.clock_hz = 1.75e9;
  gpu.dram_bytes_per_s = 2.98e12;
  gpu.l2_bytes_per_s = 6.0e12;
  gpu.link_bytes_per_s = 52e9;  // PCIe 5.0, 16 lanes, pinned
  gpu.fma_f64 = 64;
  gpu.tensor_bf16 = 4096;
  gpu.mma_sync_share = 0.65;  // published: 491 TFLOP/s of 756 on an H800
  gpu.launch_host_us = 2.0;
  gpu.launch_graph_us = 0.7;
  gpu.latency_us = 0.6;
  gpu.bytes_in_flight_per_sm = 24 * kKiB;
  gpu.blocks_per_us = 1500;
  gpu.has_bf16_arith = true;
  gpu.has_clusters = true;
  gpu.has_bulk_copy = true;
  return gpu;
}

// Measured on H200s by benchmarks/calibrate.py, in virtual machines. Of L2 also: dependent pointwise kernels in a graph
// take 1.23 us at 64 KB and 6.0 us at 16 MB. Of bytes in flight 20 KiB do for loops, 32 for kernels that read once.
GpuFacts h200() {
  GpuFacts gpu = h100();
  gpu.name = "h200";
  gpu.dram_bytes_per_s = 4.25e12;
  gpu.l2_bytes_per_s = 6.7e12;
  gpu.link_bytes_per_s = 55e9;
  gpu.link_latency_us = 13;
  gpu.launch_host_us = 3.3;
  gpu.launch_graph_us = 0.56;
  gpu.kernel_fixed_us = 0.48;
  gpu.call_host_us = 5.1;
  gpu.latency_us = 0.35;
  gpu.bytes_in_flight_per_sm = 32 * kKiB;
  gpu.blocks_per_us = 1660;
  gpu.measured = true;
  return gpu;
}

// Lower case letters and digits only: "NVIDIA GeForce RTX 4090" and "rtx4090" share "rtx4090".
std::string squeeze_name(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

// Words of a device's name, squeezed together from any word on: "NVIDIA A100-SXM4-80GB" is of a100, "NVIDIA L40S" not
// of l4.
bool is_of_row(const std::string& device, const std::string& row) {
  std::vector<std::string> words;
  bool in_word = false;
  for (char c : device) {
    const bool alnum = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (alnum && !in_word) words.emplace_back();
    if (alnum) words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    in_word = alnum;
  }
  for (size_t first = 0; first < words.size(); ++first) {
    std::string joined;
    for (size_t last = first; last < words.size() && joined.size() < row.size(); ++last) {
      joined += words[last];
      if (joined != row) continue;
      const std::string next = last + 1 < words.size() ? words[last + 1] : "";
      return next != "ti" && next != "super" && next != "laptop";
    }
  }
  return false;
}

template <typename T>
void take_known(T& field, T value) {
  if (value > 0) field = value;
}

void take_limits(GpuFacts& gpu, const GpuAttributes& a) {
  if (a.sms > 0) gpu.blocks_per_us *= static_cast<double>(a.sms) / gpu.sms;
  take_known(gpu.sms, a.sms);
  take_known(gpu.max_threads_per_sm, a.max_threads_per_sm);
  take_known(gpu.max_blocks_per_sm, a.max_blocks_per_sm);
  take_known(gpu.registers_per_sm, a.registers_per_sm);
  take_known(gpu.smem_per_sm_bytes, a.smem_per_sm_bytes);
  take_known(gpu.smem_optin_bytes, a.smem_optin_bytes);
  take_known(gpu.smem_reserved_bytes, a.smem_reserved_bytes);
  take_known(gpu.l2_bytes, a.l2_bytes);
}

// Rates of a GPU without a row: its own clock and memory, in proportion to the row it borrows from.
void take_rates(GpuFacts& gpu, const GpuAttributes& a, int row_sms) {
  constexpr double kReachedByCopy = 0.88;
  const double row_dram_bytes_per_s = gpu.dram_bytes_per_s;
  const double row_clock_hz = gpu.clock_hz;
  if (a.clock_khz > 0) gpu.clock_hz = static_cast<double>(a.clock_khz) * 1e3;
  if (a.memory_clock_khz > 0 && a.memory_bus_bits > 0) {
    // Two transfers a clock.
    gpu.dram_bytes_per_s = 2e3 * static_cast<double>(a.memory_clock_khz) * a.memory_bus_bits / 8 * kReachedByCopy;
  }
  const double sm_ratio = static_cast<double>(gpu.sms) / row_sms;
  gpu.l2_bytes_per_s = std::max(gpu.l2_bytes_per_s * sm_ratio * gpu.clock_hz / row_clock_hz, gpu.dram_bytes_per_s);
  gpu.bytes_in_flight_per_sm *= gpu.dram_bytes_per_s / row_dram_bytes_per_s / sm_ratio;
  gpu.measured = false;
}

std::string cc_text(const GpuAttributes& a) { return std::to_string(a.cc_major) + "." + std::to_string(a.cc_minor); }

// The newest architecture of the table whose machine code this GPU runs; "" for a GPU newer than the table.
std::string arch_of(int major, int minor) {
  if (major == 9 && minor == 0) return "sm_90a";
  if (major != 8) return "";
  if (minor >= 9) return "sm_89";
  return minor >= 6 ? "sm_86" : "sm_80";
}

}  // namespace

const std::vector<GpuFacts>& gpu_table() {
  static const std::vector<GpuFacts> table = {a100(), rtx3090(), l4(), rtx4090(), h100(), h200()};
  return table;
}

const GpuFacts* find_gpu(std::string_view name) {
  const std::string wanted = squeeze_name(name);
  for (const GpuFacts& gpu : gpu_table()) {
    if (gpu.name == wanted) return &gpu;
  }
  return nullptr;
}

const GpuFacts& gpu_named(std::string_view name) {
  if (const GpuFacts* gpu = find_gpu(name)) return *gpu;
  const std::string wanted = squeeze_name(name);
  const auto nearest = std::min_element(gpu_table().begin(), gpu_table().end(), [&](const auto& a, const auto& b) {
    return edit_distance(wanted, a.name) < edit_distance(wanted, b.name);
  });
  std::string known;
  for (const GpuFacts& gpu : gpu_table()) known += (known.empty() ? "" : ", ") + gpu.name;
  throw UserError("no gpu \"" + std::string(name) + "\" in the table; did you mean \"" + nearest->name +
                  "\"? known: " + known);
}

const GpuFacts* default_gpu_of(std::string_view arch) {
  static constexpr std::pair<std::string_view, std::string_view> kDefaults[] = {
      {"sm_80", "a100"}, {"sm_86", "rtx3090"}, {"sm_89", "l4"}, {"sm_90a", "h200"}};
  for (const auto& [known, name] : kDefaults) {
    if (known == arch) return find_gpu(name);
  }
  return nullptr;
}

GpuChoice gpu_from_attributes(const GpuAttributes& attributes) {
  if (attributes.cc_major < 8) {
    return {{},
            Verdict::no(attributes.name + " has compute capability " + cc_text(attributes) +
                        "; kernels need 8.0 or newer, so everything is left to PyTorch")};
  }
  const std::string arch = arch_of(attributes.cc_major, attributes.cc_minor);
  for (const GpuFacts& row : gpu_table()) {
    if (row.arch != arch || !is_of_row(attributes.name, row.name)) continue;
    GpuChoice choice{row, Verdict::yes()};
    take_limits(choice.gpu, attributes);
    return choice;
  }
  GpuChoice choice{*default_gpu_of(arch.empty() ? "sm_80" : arch), Verdict::yes()};
  GpuFacts& gpu = choice.gpu;
  const int row_sms = gpu.sms;
  gpu.name = squeeze_name(attributes.name);
  gpu.as_ptx = arch.empty();
  take_limits(gpu, attributes);
  take_rates(gpu, attributes, row_sms);
  return choice;
}

}  // namespace tilewright
