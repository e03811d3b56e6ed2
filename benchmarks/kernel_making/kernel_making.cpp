// How long kernels take to make on one core: LLVM's part, PTX from the body, and the assembler's, machine code from
// PTX.
//
//   kernel_making [--arch sm_90a] [--nvjitlink path] [--out folder] [--note text] folder...
//
// The folders are dumps (TILEWRIGHT_DUMP) and are searched for bodies (kNN.tw) and schedules (kNN.schedule.txt); equal
// kernels count once. Prints the median and the largest of each family in milliseconds, the least of three tries each.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "../results.h"
#include "codegen/codegen.h"
#include "runtime/assemble.h"

namespace {

using namespace tilewright;
namespace fs = std::filesystem;

struct Times {
  double llvm_ms = 0, assembler_ms = 0;
  double total_ms() const { return llvm_ms + assembler_ms; }
};

std::string read(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

template <typename F>
double least_ms(F run) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    const std::clock_t begin = std::clock();  // the process's time, whatever else the machine does
    run();
    least = std::min(least, 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return least;
}

// Body and schedule of every kernel in the dumps.
std::set<std::pair<std::string, std::string>> kernels_in(const std::vector<std::string>& folders) {
  std::set<std::pair<std::string, std::string>> found;
  const std::string ending = ".schedule.txt";
  for (const std::string& folder : folders) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      const std::string path = entry.path().string();
      if (!path.ends_with(ending)) continue;
      found.emplace(read(path.substr(0, path.size() - ending.size()) + ".tw"), read(path));
    }
  }
  return found;
}

double middle(std::vector<Times> all, double (*of)(const Times&)) {
  std::vector<double> values;
  values.reserve(all.size());
  for (const Times& t : all) values.push_back(of(t));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  std::string arch = "sm_90a", library, out, note;
  std::vector<std::string> folders;
  std::map<std::string, std::string*> options{
      {"--arch", &arch}, {"--nvjitlink", &library}, {"--out", &out}, {"--note", &note}};
  for (int i = 1; i < argc; ++i) {
    const auto option = options.find(argv[i]);
    if (option != options.end() && i + 1 < argc) {
      *option->second = argv[++i];
    } else {
      folders.emplace_back(argv[i]);
    }
  }
  const auto kernels = kernels_in(folders);
  if (kernels.empty()) {
    std::fprintf(stderr, "usage: kernel_making [--arch A] [--nvjitlink path] [--out folder] [--note text] dump...\n");
    return 2;
  }
  std::string why;
  const auto assembler = Assembler::load(library.empty() ? std::vector<std::string>{} : std::vector{library}, &why);
  if (!assembler) std::fprintf(stderr, "no nvJitLink, so LLVM's part only: %s\n", why.c_str());
  Context ctx;
  ctx.gpu = *default_gpu_of(arch);
  std::map<std::string, std::vector<Times>> families;
  for (const auto& [body, schedule_text] : kernels) {
    const Graph graph = parse_graph(body);
    const Schedule schedule = parse_schedule(schedule_text.substr(0, schedule_text.find('\n')));
    Times times;
    KernelCode code;
    times.llvm_ms = least_ms([&] { code = generate(graph, schedule, arch, ctx); });
    if (assembler) times.assembler_ms = least_ms([&] { assembler->assemble(code.ptx, arch, code.entry); });
    families[schedule.family].push_back(times);
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& [family, all] : families) {
    double largest = 0;
    for (const Times& t : all) largest = std::max(largest, t.total_ms());
    const double total = middle(all, [](const Times& t) { return t.total_ms(); });
    const double llvm = middle(all, [](const Times& t) { return t.llvm_ms; });
    const double assembling = middle(all, [](const Times& t) { return t.assembler_ms; });
    std::printf("%-10s %4zu kernels: median %6.1f ms (LLVM %6.1f, assembler %6.1f), largest %6.1f ms\n", family.c_str(),
                all.size(), total, llvm, assembling, largest);
    rows.push_back({{"family", family},
                    {"kernels", all.size()},
                    {"median_ms", total},
                    {"llvm_ms", llvm},
                    {"assembler_ms", assembling},
                    {"largest_ms", largest}});
  }
  if (out.empty()) return 0;
  const std::string version = assembler ? "nvJitLink " + assembler->version() : "none";
  write_results(out, "kernel_making", {{"arch", arch}, {"assembler", version}, {"note", note}}, rows);
}
