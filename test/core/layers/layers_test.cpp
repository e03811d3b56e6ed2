// The layer rule: a folder of csrc includes only folders of a smaller number, and the headers of LLVM, CUDA and
// PyTorch stay each in the one folder that the design gives them. The numbers are read from the table that the
// build uses, csrc/cmake/TilewrightFolders.cmake.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace tilewright {
namespace {

namespace fs = std::filesystem;
using Layers = std::map<std::string, int>;

std::string read_file(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

Layers read_layers() {
  const std::string table = read_file(fs::path(TILEWRIGHT_SOURCE_DIR) / "csrc/cmake/TilewrightFolders.cmake");
  const std::regex row("\"([a-z]+):([0-9]+)\"");
  Layers layers;
  for (std::sregex_iterator it(table.begin(), table.end(), row), end; it != end; ++it) {
    layers[(*it)[1]] = std::stoi((*it)[2]);
  }
  return layers;
}

// The only folder that may include a header of somebody else's, or "" where any may.
std::string home_of(const std::string& header) {
  static const std::vector<std::pair<std::regex, std::string>> kHomes = {
      {std::regex("llvm(-c)?/.*"), "codegen"},
      {std::regex("(cuda|nvJitLink|nvPTXCompiler|nvrtc).*\\.h"), "runtime"},
      {std::regex("(torch|ATen|c10|caffe2|pybind11)/.*|Python\\.h"), "torch"},
  };
  for (const auto& [pattern, folder] : kHomes) {
    if (std::regex_match(header, pattern)) return folder;
  }
  return "";
}

// Why a file of `folder` may not include `header`; "" when it may. `quoted` says "..." rather than <...>.
std::string why_not(const Layers& layers, const std::string& folder, const std::string& header, bool quoted) {
  const std::string home = home_of(header);
  if (!home.empty()) return folder == home ? "" : "only csrc/" + home + " includes it";
  if (!quoted || header.rfind("tilewright/", 0) == 0) return "";
  const std::string other = header.substr(0, header.find('/'));
  if (other == folder) return "";
  if (!layers.count(other)) return "not relative to csrc, or of a folder without a layer";
  if (folder == "include") return "public headers use the standard library only";
  if (layers.at(other) < layers.at(folder)) return "";
  return "layer " + std::to_string(layers.at(folder)) + " may not include layer " + std::to_string(layers.at(other));
}

// One line of text for each #include of `text` that breaks the rule.
std::vector<std::string> broken_includes(const Layers& layers, const std::string& folder, const std::string& text) {
  static const std::regex kInclude("^[ \t]*#[ \t]*include[ \t]*([<\"])([^>\"]+)[>\"]");
  std::vector<std::string> broken;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::smatch match;
    if (!std::regex_search(line, match, kInclude)) continue;
    const std::string why = why_not(layers, folder, match[2], /*quoted=*/match[1] == "\"");
    if (!why.empty()) broken.push_back(std::to_string(number) + ": " + match[2].str() + ": " + why);
  }
  return broken;
}

bool is_cpp(const fs::path& path) {
  const std::string extension = path.extension();
  return extension == ".cpp" || extension == ".h" || extension == ".def" || extension == ".inc";
}

TEST(Layers, NamesTheBrokenRule) {
  const Layers layers = {{"support", 0}, {"symbolic", 1}, {"layout", 1}, {"ir", 2}, {"codegen", 6}, {"torch", 8}};
  EXPECT_EQ(why_not(layers, "ir", "symbolic/expr.h", true), "");
  EXPECT_EQ(why_not(layers, "ir", "ir/graph.h", true), "");
  EXPECT_EQ(why_not(layers, "ir", "tilewright/compile.h", true), "");
  EXPECT_EQ(why_not(layers, "ir", "vector", false), "");
  EXPECT_EQ(why_not(layers, "codegen", "llvm/IR/Module.h", false), "");
  EXPECT_EQ(why_not(layers, "torch", "ATen/ATen.h", false), "");
  EXPECT_EQ(why_not(layers, "symbolic", "ir/graph.h", true), "layer 1 may not include layer 2");
  EXPECT_EQ(why_not(layers, "symbolic", "layout/layout.h", true), "layer 1 may not include layer 1");
  EXPECT_EQ(why_not(layers, "ir", "graph.h", true), "not relative to csrc, or of a folder without a layer");
  EXPECT_EQ(why_not(layers, "ir", "llvm/IR/Module.h", false), "only csrc/codegen includes it");
  EXPECT_EQ(why_not(layers, "ir", "cuda.h", false), "only csrc/runtime includes it");
  EXPECT_EQ(why_not(layers, "ir", "torch/torch.h", true), "only csrc/torch includes it");
  EXPECT_EQ(why_not(layers, "include", "ir/graph.h", true), "public headers use the standard library only");
}

TEST(Layers, FindsIncludeLines) {
  const Layers layers = {{"support", 0}, {"ir", 2}};
  const std::string text = "#include <vector>\n#include \"support/error.h\"\n  #  include \"cuda.h\"\n";
  EXPECT_EQ(broken_includes(layers, "ir", text), std::vector<std::string>{"3: cuda.h: only csrc/runtime includes it"});
}

TEST(Layers, EveryFolderHasOne) {
  const Layers layers = read_layers();
  ASSERT_GE(layers.size(), 10u);
  for (const fs::directory_entry& folder : fs::directory_iterator(fs::path(TILEWRIGHT_SOURCE_DIR) / "csrc")) {
    const std::string name = folder.path().filename();
    EXPECT_TRUE(name == "cmake" || layers.count(name)) << "csrc/" << name << " is not in TilewrightFolders.cmake";
  }
}

TEST(Layers, Hold) {
  const Layers layers = read_layers();
  const fs::path root(TILEWRIGHT_SOURCE_DIR);
  for (const fs::path& top : {root / "csrc", root / "include"}) {
    if (!fs::exists(top)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(top)) {
      if (!entry.is_regular_file() || !is_cpp(entry.path())) continue;
      const fs::path relative = fs::relative(entry.path(), root);
      const std::string folder = top.filename() == "include" ? "include" : std::next(relative.begin())->string();
      for (const std::string& broken : broken_includes(layers, folder, read_file(entry.path()))) {
        ADD_FAILURE() << relative.string() << ":" << broken;
      }
    }
  }
}

}  // namespace
}  // namespace tilewright
