// Generated programs on the simulator against what the host computes and, where there is a GPU, against that: the same
// PTX runs on both. TILEWRIGHT_PROGRAMS (2000) programs of TILEWRIGHT_SEED (1).
#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <regex>

#include "generated_programs.h"
#include "kernel_call.h"
#include "runtime/cuda_driver.h"

namespace tilewright::sim {
namespace {

using generated::Program;

uint64_t number_from(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::vector<uint64_t> run_simulated(const Program& p) {
  std::vector<uint64_t> out = p.out;
  LaunchConfig config = config_1d(1, p.threads);
  config.threads = 1;
  config.step_budget = 1'000'000;
  call(*parse(p.ptx), p.entry, config, p.in, out);
  return out;
}

// The first word that differs, or -1. With a tolerance words are float32, compared to the largest of them.
int64_t difference(const std::vector<uint64_t>& got, const std::vector<uint64_t>& expected, double tolerance = 0) {
  double largest = 0;
  for (uint64_t v : expected) largest = std::max(largest, std::fabs(static_cast<double>(generated::f32(v))));
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == expected[i]) continue;
    const double distance = std::fabs(static_cast<double>(generated::f32(got[i])) - generated::f32(expected[i]));
    if (tolerance == 0 || !(distance <= tolerance * largest)) return static_cast<int64_t>(i);
  }
  return -1;
}

std::string difference_text(const Program& p, uint64_t index, const std::vector<uint64_t>& got,
                            const std::vector<uint64_t>& expected, int64_t at) {
  std::ostringstream out;
  out << p.kind << " program " << index << ", word " << at << std::hex << ": 0x" << got[static_cast<size_t>(at)]
      << ", expected 0x" << expected[static_cast<size_t>(at)] << std::dec << "\n"
      << p.ptx;
  return out.str();
}

// The first GPU with managed memory, which host and kernels share.
class Gpu {
 public:
  static std::unique_ptr<Gpu> open(std::string* why) {
    try {
      return std::unique_ptr<Gpu>(new Gpu());
    } catch (const std::runtime_error& e) {
      *why = e.what();
      return nullptr;
    }
  }

  std::string name() const { return device_->name(); }

  // `count`: a third parameter of the kernel, if it is not negative.
  std::vector<uint64_t> run(const Program& p, int64_t count = -1) {
    Artifact artifact;
    artifact.entry = p.entry;
    artifact.arch = "sm_90a";
    artifact.ptx = p.ptx;
    const std::shared_ptr<LoadedKernel> kernel = device_->load(artifact, 0);
    std::copy(p.in.begin(), p.in.end(), memory_);
    uint64_t* out = memory_ + kWords / 2;
    std::copy(p.out.begin(), p.out.end(), out);
    uint64_t args[] = {reinterpret_cast<uint64_t>(memory_), reinterpret_cast<uint64_t>(out),
                       static_cast<uint64_t>(count)};
    LaunchRequest request;
    request.name = p.kind;
    request.block = {p.threads, 1, 1};
    request.args = std::span(args, count < 0 ? 2 : 3);
    device_->launch(*kernel, request);
    need(synchronize_(), "cuCtxSynchronize");
    return {out, out + p.out.size()};
  }

 private:
  static constexpr size_t kWords = 1 << 16;

  Gpu() : device_(make_cuda_device(0)) {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    const auto find = [&]<typename F>(F*& function, const char* symbol) {
      function = reinterpret_cast<F*>(driver ? dlsym(driver, symbol) : nullptr);
      if (!function) throw DeviceError(std::string("no ") + symbol);
    };
    int (*retain)(void**, int);
    int (*make_current)(void*);
    int (*allocate)(uint64_t*, size_t, unsigned);
    find(retain, "cuDevicePrimaryCtxRetain");
    find(make_current, "cuCtxSetCurrent");
    find(allocate, "cuMemAllocManaged");
    find(synchronize_, "cuCtxSynchronize");
    void* context = nullptr;
    need(retain(&context, 0), "cuDevicePrimaryCtxRetain");
    need(make_current(context), "cuCtxSetCurrent");
    uint64_t address = 0;
    need(allocate(&address, kWords * 8, /*CU_MEM_ATTACH_GLOBAL*/ 1), "cuMemAllocManaged");
    memory_ = reinterpret_cast<uint64_t*>(address);
  }
  static void need(int result, const char* what) {
    if (result != 0) throw DeviceError(std::string(what) + " fails with " + std::to_string(result));
  }

  std::unique_ptr<Device> device_;
  int (*synchronize_)() = nullptr;
  uint64_t* memory_ = nullptr;
};

// Of one kind of program.
struct Tally {
  size_t programs = 0, words = 0, differences = 0;
  std::set<std::string> opcodes;
  void add(const Program& p, bool differs) {
    ++programs;
    words += p.out.size();
    differences += differs;
    opcodes.insert(p.opcodes.begin(), p.opcodes.end());
  }
};

void print_table(const std::string& title, const std::map<std::string, Tally>& tallies) {
  std::printf("%s\n%-12s %9s %13s %9s %12s\n", title.c_str(), "kind", "programs", "instructions", "words",
              "differences");
  Tally all;
  const auto row = [](const std::string& kind, const Tally& t) {
    std::printf("%-12s %9zu %13zu %9zu %12zu\n", kind.c_str(), t.programs, t.opcodes.size(), t.words, t.differences);
  };
  for (const auto& [kind, t] : tallies) {
    row(kind, t);
    all.programs += t.programs;
    all.words += t.words;
    all.differences += t.differences;
    all.opcodes.insert(t.opcodes.begin(), t.opcodes.end());
  }
  row("all", all);
}

// Runs every program by `run` and compares it with `expected`; reports the first ten that differ. `exact`: bit by bit,
// also where the host's sum is rounded otherwise.
template <typename Run, typename Expected>
void compare_all(const std::string& title, bool exact, Run run, Expected expected) {
  const uint64_t seed = number_from("TILEWRIGHT_SEED", 1), count = number_from("TILEWRIGHT_PROGRAMS", 2000);
  std::map<std::string, Tally> tallies;
  int reported = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const Program p = generated::make_program(seed, i);
    const std::vector<uint64_t> right = expected(p), got = run(p);
    const int64_t at = difference(got, right, exact ? 0 : p.tolerance);
    tallies[p.kind].add(p, at >= 0);
    if (at >= 0 && ++reported <= 10) ADD_FAILURE() << difference_text(p, i, got, right, at);
  }
  print_table(title, tallies);
}

TEST(Generated, ProgramsOnTheSimulator) {
  compare_all("simulator against the host", /*exact=*/false, run_simulated,
              [](const Program& p) { return p.expected; });
}

TEST(Generated, ProgramsOnTheGpu) {
  std::string why;
  const std::unique_ptr<Gpu> gpu = Gpu::open(&why);
  if (!gpu) GTEST_SKIP() << "the differential test needs a GPU: " << why;
  compare_all("simulator against " + gpu->name(), /*exact=*/true, run_simulated,
              [&](const Program& p) { return gpu->run(p); });
}

// Whether two words of results agree: one f64 or two f32. The approximate instructions inside libdevice's functions are
// exact here and are not on a GPU (docs/simulator.md), which the functions hand on.
bool nearly(uint64_t a, uint64_t b, bool wide) {
  if (a == b) return true;
  const auto near = [](double x, double y, double tolerance) {
    return (std::isnan(x) && std::isnan(y)) || std::fabs(x - y) <= tolerance * std::fabs(y) || x == y;
  };
  if (wide) return near(generated::f64(a), generated::f64(b), 0x1p-49);
  const auto near_f32 = [&](uint64_t x, uint64_t y) { return near(generated::f32(x), generated::f32(y), 0x1p-19); };
  return near_f32(a & 0xffffffff, b & 0xffffffff) && near_f32(a >> 32, b >> 32);
}

// libdevice's functions of one argument as nvcc inlines them.
TEST(Generated, LibdeviceOnTheGpu) {
  std::string why;
  const std::unique_ptr<Gpu> gpu = Gpu::open(&why);
  if (!gpu) GTEST_SKIP() << "the differential test needs a GPU: " << why;
  const std::string ptx = read_data("libdevice_sm90a.ptx");
  const auto module = parse(ptx);
  std::map<std::string, Tally> tallies;
  generated::Random random(7);
  for (const std::string& name : kernel_names(*module)) {
    // name(x, y, n) on one array; functions of two arguments are in the host's test.
    if (kernel_info(*module, name).param_bytes.size() != 3) continue;
    const bool wide = name.find("f64") != std::string::npos;
    Program p;
    p.kind = "libdevice";
    // A Device passes 8 bytes a parameter; the driver wants to be given as many as are declared.
    p.ptx = std::regex_replace(ptx, std::regex(R"(\.param \.u32 (\w+_param_2))"), ".param .u64 $1");
    p.entry = name;
    p.threads = 128;
    p.opcodes.insert(name);
    for (uint32_t i = 0; i < p.threads / (wide ? 1 : 2); ++i) {
      const auto next = [&] { return generated::special_or_random(wide ? 'g' : 'f', random); };
      p.in.push_back(wide ? next() : next() | next() << 32);
    }
    p.out.assign(p.in.size(), 0);
    std::vector<uint64_t> got = p.out;
    call(*module, name, config_1d(1, p.threads), p.in, got, static_cast<int>(p.threads));
    std::vector<uint64_t> right;
    try {
      right = gpu->run(p, p.threads);
    } catch (const DeviceError& e) {
      ADD_FAILURE() << name << ": " << e.what();
      continue;
    }
    // The table counts functions that differ in any bit.
    tallies[p.kind].add(p, difference(got, right) >= 0);
    for (size_t i = 0; i < got.size(); ++i) {
      if (nearly(got[i], right[i], wide)) continue;
      ADD_FAILURE() << name << " of 0x" << std::hex << p.in[i] << ": 0x" << got[i] << ", on the GPU 0x" << right[i];
      break;
    }
  }
  print_table("libdevice's functions against " + gpu->name(), tallies);
}

}  // namespace
}  // namespace tilewright::sim
