// tilewright-sim: runs a kernel of a PTX file on the simulator and reports what the memory system would see.
//
//   tilewright-sim kernel.ptx --entry add --grid 8 --block 256 --arg 'f32[2048]=random' --arg 'f32[2048]=zeros' --arg
//   i32=2048 tilewright-sim kernel.ptx --grid 8x4 --block 32x8 --arg x.npy --arg 'f32[64,64]' --save 1=out.npy --report
//   listing
//
// An argument is type[shape]=fill for a pointer to an array (fills: zeros, ones, iota, random, a number), file.npy for
// one read from a file, or type=value for a scalar. Exit status 1: the kernel is at fault, or the command line is.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <sstream>

#include "simulator/report.h"
#include "simulator/simulator.h"
#include "support/float_formats.h"
#include "tools/npy_files.h"

namespace tilewright::tools {
namespace {

struct Settings {
  std::string path, entry, grid = "1", block = "1", cluster = "1", report = "table", checks = "none",
                           completion = "eager", order = "in-turn";
  std::vector<std::string> args, saves;
  uint64_t dynamic_smem = 0, step_budget = 0, seed = 1;
  int threads = 0;
};

struct ElementType {
  const char* name;
  uint32_t bytes;
  const char* descr;  // NumPy has no bfloat16: its bits are saved as integers
  const FloatFormat* format;
};

constexpr ElementType kTypes[] = {
    {"f64", 8, "<f8", nullptr}, {"f32", 4, "<f4", nullptr}, {"f16", 2, "<f2", &kHalf},  {"bf16", 2, "<u2", &kBFloat16},
    {"i64", 8, "<i8", nullptr}, {"i32", 4, "<i4", nullptr}, {"i16", 2, "<i2", nullptr}, {"i8", 1, "|i1", nullptr},
    {"u64", 8, "<u8", nullptr}, {"u32", 4, "<u4", nullptr}, {"u16", 2, "<u2", nullptr}, {"u8", 1, "|u1", nullptr},
    {"bool", 1, "|b1", nullptr}};

const ElementType& type_named(const std::string& name) {
  for (const ElementType& t : kTypes)
    if (name == t.name) return t;
  throw UserError("unknown type '" + name + "', expected one of f64 f32 f16 bf16 i64 i32 i16 i8 u64 u32 u16 u8 bool");
}

void put(std::vector<std::byte>& data, size_t index, const ElementType& t, double value) {
  std::byte* to = data.data() + index * t.bytes;
  const auto store = [&](auto v) { std::memcpy(to, &v, sizeof v); };
  const std::string name = t.name;
  if (t.format)
    store(encode(rounded(value, *t.format), *t.format));
  else if (name == "f64")
    store(value);
  else if (name == "f32")
    store(static_cast<float>(value));
  else if (name[0] == 'i' || value < 0) {
    const auto v = static_cast<int64_t>(value);
    std::memcpy(to, &v, t.bytes);
  } else {
    const auto v = static_cast<uint64_t>(value);
    std::memcpy(to, &v, t.bytes);
  }
}

struct Free {
  void operator()(void* p) const { std::free(p); }
};

struct Argument {
  bool is_array = false;
  ElementType type{};
  NpyArray array;  // a scalar has one element
  std::string name;
  std::unique_ptr<void, Free> memory;  // an array's elements while the kernel runs, aligned as on a GPU

  void place() {
    memory.reset(std::aligned_alloc(256, (array.data.size() + 256) / 256 * 256));
    if (!memory) throw std::bad_alloc();
    std::memcpy(memory.get(), array.data.data(), array.data.size());
  }
  void take_back() { std::memcpy(array.data.data(), memory.get(), array.data.size()); }
};

double number(const std::string& text) {
  size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
  }
  if (used == 0 || used != text.size())
    throw UserError("'" + text + "' is not a number, nor zeros, ones, iota or random");
  return value;
}

std::vector<int64_t> shape_of(const std::string& text) {
  std::vector<int64_t> shape;
  std::istringstream in(text);
  for (std::string size; std::getline(in, size, ',');) {
    const double n = number(size);
    if (n < 0 || n != std::floor(n) || n > 1e12) throw UserError("'" + text + "' is not a shape");
    shape.push_back(static_cast<int64_t>(n));
  }
  return shape;
}

void fill(Argument& a, const std::string& how, std::mt19937_64& random) {
  size_t n = 1;
  for (int64_t size : a.array.shape) n *= static_cast<size_t>(size);
  a.array.data.resize(n * a.type.bytes);
  const bool is_float = a.type.name[0] == 'f' || a.type.name[0] == 'b';
  for (size_t i = 0; i < n; ++i) {
    double v;
    if (how == "zeros" || how.empty())
      v = 0;
    else if (how == "ones")
      v = 1;
    else if (how == "iota")
      v = static_cast<double>(i);
    else if (how == "random")
      v = is_float ? std::normal_distribution<double>()(random) : static_cast<double>(random() % 100);
    else
      v = number(how);
    put(a.array.data, i, a.type, v);
  }
}

Argument parse_argument(const std::string& text, size_t index, std::mt19937_64& random) {
  Argument a;
  a.name = "argument " + std::to_string(index);
  if (text.size() > 4 && text.substr(text.size() - 4) == ".npy") {
    a.array = read_npy(text);
    a.is_array = true;
    a.name += " (" + text + ")";
    for (const ElementType& t : kTypes)
      if (a.array.descr == t.descr) a.type = t;
    if (!a.type.name) throw UserError(text + ": elements of type " + a.array.descr + " are not supported");
    return a;
  }
  const size_t equals = text.find('='), bracket = text.find('[');
  const std::string how = equals == std::string::npos ? "" : text.substr(equals + 1);
  a.is_array = bracket < equals;
  a.type = type_named(text.substr(0, std::min(bracket, equals)));
  a.array.descr = a.type.descr;
  if (a.is_array) {
    const size_t close = text.find(']', bracket);
    if (close == std::string::npos) throw UserError("argument '" + text + "' is not type[shape]=fill");
    a.array.shape = shape_of(text.substr(bracket + 1, close - bracket - 1));
  } else if (how.empty()) {
    throw UserError("argument '" + text + "' is neither type[shape]=fill, nor type=value, nor a file.npy");
  }
  fill(a, how, random);
  return a;
}

std::array<uint32_t, 3> extent(const std::string& text, const char* what) {
  std::array<uint32_t, 3> out{1, 1, 1};
  std::istringstream in(text);
  size_t d = 0;
  for (std::string size; std::getline(in, size, 'x'); ++d) {
    const bool digits = !size.empty() && size.size() < 11 && size.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || d == 3) throw UserError(std::string(what) + " '" + text + "' is not like 8x4x1");
    out[d] = static_cast<uint32_t>(std::stoull(size));
  }
  return out;
}

void save(const Settings& settings, const std::vector<Argument>& arguments) {
  for (const std::string& text : settings.saves) {
    const size_t equals = text.find('=');
    const std::string index = text.substr(0, equals);
    if (equals == std::string::npos || index.empty() || index.find_first_not_of("0123456789") != std::string::npos ||
        index.size() > 6 || std::stoul(index) >= arguments.size() || !arguments[std::stoul(index)].is_array)
      throw UserError("--save '" + text + "' is not N=file.npy with N the number of an array argument");
    write_npy(text.substr(equals + 1), arguments[std::stoul(index)].array);
  }
}

int run(const Settings& settings) {
  std::ifstream in(settings.path);
  if (!in) throw UserError("cannot read '" + settings.path + "'");
  std::ostringstream buffer;
  buffer << in.rdbuf();
  const std::string ptx = buffer.str();
  const auto module = sim::parse(ptx);
  const std::vector<std::string> names = sim::kernel_names(*module);
  if (settings.entry.empty() && names.size() != 1)
    throw UserError("the file has " + std::to_string(names.size()) + " entries: choose one by --entry");
  sim::LaunchConfig config;
  config.grid = extent(settings.grid, "grid");
  config.block = extent(settings.block, "block");
  config.cluster = extent(settings.cluster, "cluster");
  config.dynamic_smem_bytes = settings.dynamic_smem;
  config.step_budget = settings.step_budget;
  config.threads = settings.threads;
  config.seed = settings.seed;
  sim::set_checks(config, settings.checks);
  sim::set_order(config, settings.completion, settings.order);
  std::mt19937_64 random(settings.seed);
  std::vector<Argument> arguments;
  arguments.reserve(settings.args.size());
  for (const std::string& text : settings.args) arguments.push_back(parse_argument(text, arguments.size(), random));
  std::vector<std::vector<std::byte>> args;
  std::vector<sim::Allocation> memory;
  for (Argument& a : arguments) {
    a.place();
    const auto base = reinterpret_cast<uint64_t>(a.memory.get());
    args.push_back(a.is_array ? sim::arg(base) : a.array.data);
    if (a.is_array) memory.push_back({base, a.array.data.size(), a.name, true});
  }
  const sim::LaunchResult result =
      sim::launch(*module, settings.entry.empty() ? names[0] : settings.entry, config, args, memory);
  for (Argument& a : arguments) a.take_back();
  save(settings, arguments);
  std::cout << result.printed;
  if (settings.report == "json")
    std::cout << sim::report_json(result) << "\n";
  else if (settings.report == "listing")
    std::cout << sim::report_listing(result, ptx);
  else if (settings.report == "table")
    std::cout << sim::report_table(result);
  return 0;
}

}  // namespace
}  // namespace tilewright::tools

int main(int argc, char** argv) {
  using namespace tilewright;
  tools::Settings settings;
  CLI::App app("runs a kernel of a PTX file on the simulator");
  app.add_option("ptx", settings.path, "the PTX file")->required();
  app.add_option("--entry", settings.entry, "the kernel; not needed when the file has one");
  app.add_option("--grid", settings.grid, "blocks, as 8x4x1");
  app.add_option("--block", settings.block, "threads a block, as 32x8x1");
  app.add_option("--cluster", settings.cluster, "blocks a cluster");
  app.add_option("--shared,--smem", settings.dynamic_smem, "bytes of dynamic shared memory");
  app.add_option("--arg", settings.args, "an argument: type[shape]=fill, type=value or file.npy; repeat in order");
  app.add_option("--save", settings.saves, "N=file.npy: writes array argument N after the run");
  app.add_option("--report", settings.report, "table, listing, json or none")
      ->check(CLI::IsMember({"table", "listing", "json", "none"}));
  app.add_option("--check", settings.checks, "races, uninitialized, registers, a list of these, or all");
  app.add_option("--completion", settings.completion, "when asynchronous copies finish: eager, lazy or random")
      ->check(CLI::IsMember({"eager", "lazy", "random"}));
  app.add_option("--order", settings.order, "of warps: in-turn or random")->check(CLI::IsMember({"in-turn", "random"}));
  app.add_option("--threads", settings.threads, "host threads; 0: all cores");
  app.add_option("--step-budget", settings.step_budget, "instructions a warp may run; 0: no limit");
  app.add_option("--seed", settings.seed, "of random arguments and of what is random in the run");
  CLI11_PARSE(app, argc, argv);
  try {
    return tools::run(settings);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tilewright-sim: %s\n", e.what());
    return 1;
  }
}
