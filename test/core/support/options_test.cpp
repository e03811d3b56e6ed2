#include "support/options.h"

#include <gtest/gtest.h>

#include "support/error.h"

namespace tilewright {
namespace {

std::string error_of(const char* name, const char* value) {
  Options options;
  try {
    set_option(options, name, value);
  } catch (const UserError& error) {
    return error.what();
  }
  return "none";
}

TEST(Options, AreSetFromText) {
  Options options;
  set_option(options, "kernels", "generate");
  set_option(options, "strict", "1");
  EXPECT_EQ(options.kernels, "generate");
  EXPECT_TRUE(options.strict);
  set_option(options, "strict", "false");
  EXPECT_FALSE(options.strict);
}

TEST(Options, NameTheNearestForAnUnknownOne) {
  EXPECT_EQ(error_of("kernel", "auto"), "no option 'kernel', did you mean 'kernels'?");
  EXPECT_EQ(error_of("zzzzzzzzzzzz", "1"), "no option 'zzzzzzzzzzzz'");
  EXPECT_EQ(error_of("strict", "maybe"), "option strict is a bool, found 'maybe'");
}

TEST(Options, NearestNameOfATieStartsAlike) {
  EXPECT_EQ(nearest_name("sim:sm_90", {"sim:sm_80", "sim:sm_86", "sim:sm_90a"}), "sim:sm_90a");
  EXPECT_EQ(nearest_name("fold_cast", {"fold_views", "fold_casts"}), "fold_casts");
  EXPECT_EQ(nearest_name("quite different", {"abc"}), "");
}

TEST(Options, TableHasARowForEach) {
  for (const OptionInfo& row : option_table()) {
    EXPECT_EQ(std::string(row.env).rfind("TILEWRIGHT_", 0), 0U) << row.name;
    EXPECT_NE(std::string(row.doc), "") << row.name;
    Options options;
    EXPECT_NO_THROW(set_option(options, row.name, row.default_value)) << row.name;
  }
}

}  // namespace
}  // namespace tilewright
