#include "ir/operator_docs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace tilewright {
namespace {

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The table of PyTorch's operators stands behind ours: tilewright.testing.sweep makes it.
TEST(OperatorDocs, AreThoseOfTheTable) {
  const std::string path = TILEWRIGHT_SOURCE_DIR "/docs/operators.md";
  const std::string text = read(path);
  const size_t end = std::min(text.find("\n# Operators of PyTorch\n"), text.size());
  const char* bless = std::getenv("TILEWRIGHT_BLESS");
  if (bless && std::string(bless) == "1") std::ofstream(path) << operators_markdown() + text.substr(end);
  const std::string now = read(path);
  EXPECT_EQ(now.substr(0, now.size() - (text.size() - end)), operators_markdown())
      << "./dev bless rewrites docs/operators.md";
}

}  // namespace
}  // namespace tilewright
