#include "ir/operator_docs.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace tilewright {
namespace {

TEST(OperatorDocs, AreThoseOfTheTable) {
  const std::string path = TILEWRIGHT_SOURCE_DIR "/docs/operators.md";
  const char* bless = std::getenv("TILEWRIGHT_BLESS");
  if (bless && std::string(bless) == "1") std::ofstream(path) << operators_markdown();
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), operators_markdown()) << "./dev bless rewrites docs/operators.md";
}

}  // namespace
}  // namespace tilewright
