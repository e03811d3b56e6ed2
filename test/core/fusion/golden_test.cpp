// Decisions of the partition, as text: each file of `inputs` holds the graph before `decompose` and the one after it,
// and after `// EXPECT` the partition that they get. `// kernels: generate` in a file chooses the mode, `// matmul:
// auto` that of products. TILEWRIGHT_BLESS=1 rewrites the goldens.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "fake_family.h"
#include "fusion/partition.h"

namespace tilewright {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> inputs() {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(fs::path(TILEWRIGHT_SOURCE_DIR) / "test/core/fusion/inputs")) {
    if (entry.path().extension() == ".tw") out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

struct Case {
  std::string text, golden, kernels = "auto", matmul = "call";
};

constexpr const char* kMarker = "// EXPECT\n";

Case read_case(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream all;
  all << in.rdbuf();
  Case c;
  c.text = all.str();
  if (const size_t at = c.text.find(kMarker); at != std::string::npos) {
    std::istringstream lines(c.text.substr(at + std::string(kMarker).size()));
    for (std::string line; std::getline(lines, line);) c.golden += line.substr(std::min<size_t>(line.size(), 3)) + "\n";
    c.text.resize(at);
  }
  for (const char* mode : {"auto", "generate", "call"}) {
    if (c.text.find(std::string("// kernels: ") + mode) != std::string::npos) c.kernels = mode;
    if (c.text.find(std::string("// matmul: ") + mode) != std::string::npos) c.matmul = mode;
  }
  return c;
}

void bless(const fs::path& path, const Case& c, const std::string& found) {
  std::ofstream out(path);
  out << c.text << kMarker;
  std::istringstream lines(found);
  for (std::string line; std::getline(lines, line);) out << "// " << line << "\n";
}

class FusionGolden : public testing::TestWithParam<fs::path> {};

TEST_P(FusionGolden, IsAsExpected) {
  const Case c = read_case(GetParam());
  const std::vector<Graph> graphs = parse_graphs(c.text, GetParam().filename().string());
  ASSERT_EQ(graphs.size(), 2U) << "the graph before decompose, then the one after";
  for (const Graph& graph : graphs) ASSERT_EQ(verify(graph), std::vector<std::string>{});
  Context ctx;
  ctx.options.kernels = c.kernels;
  ctx.options.matmul = c.matmul;
  ctx.gpu = gpu_named("h200");
  const std::string found = print(partition(graphs[1], graphs[0], ctx, fake_propose));
  if (std::getenv("TILEWRIGHT_BLESS") && found != c.golden) {
    bless(GetParam(), c, found);
    return;
  }
  EXPECT_EQ(found, c.golden);
}

INSTANTIATE_TEST_SUITE_P(Inputs, FusionGolden, testing::ValuesIn(inputs()),
                         [](const auto& info) { return info.param.stem().string(); });

}  // namespace
}  // namespace tilewright
