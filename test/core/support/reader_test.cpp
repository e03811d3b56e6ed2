#include "support/reader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

namespace tilewright {
namespace {

TEST(Reader, KnowsTokensWithTheirPlaces) {
  Reader reader("aten.mul.Tensor(%x, -1e-05) // comment\n -> \"a\\n\"", "f");
  EXPECT_EQ(reader.word("a name"), "aten.mul.Tensor");
  reader.expect("(");
  reader.expect("%");
  EXPECT_FALSE(reader.peek().spaced);
  EXPECT_EQ(reader.next().text, "x");
  reader.expect(",");
  EXPECT_TRUE(reader.at_float());
  EXPECT_EQ(reader.number("a number"), -1e-05);
  reader.expect(")");
  EXPECT_EQ(reader.peek().line, 2);
  EXPECT_EQ(reader.peek().column, 2);
  reader.expect("->");
  EXPECT_EQ(reader.string("a string"), "a\n");
  EXPECT_TRUE(reader.at_end());
  EXPECT_THROW(reader.expect(")"), UserError);
}

std::string error_of(const char* text) {
  try {
    Reader reader(text, "f");
    while (!reader.at_end()) {
      if (reader.peek().kind == TokenKind::kString)
        reader.string("a string");
      else if (reader.peek().kind == TokenKind::kInteger)
        reader.integer("an integer");
      else
        reader.next();
    }
  } catch (const UserError& error) {
    return error.what();
  }
  return "none";
}

TEST(Reader, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(error_of("a \"b"), "f:1:3: string without an end");
  EXPECT_EQ(error_of("a\n  \"b\\q\""), "f:2:3: unknown escape '\\q' in a string");
  EXPECT_EQ(error_of("\"\\x4\""), "f:1:1: '\\x' takes two hexadecimal digits");
  EXPECT_EQ(error_of("12ab"), "f:1:1: '12a' is neither a number nor a name");
  EXPECT_EQ(error_of("9223372036854775808"), "f:1:1: integer 9223372036854775808 does not fit into 64 bits");
  EXPECT_EQ(error_of("9223372036854775807 . / * \" // no comment \""), "none");
}

TEST(Reader, FloatsReadBackAsTheSameBits) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    const uint64_t bits = random();
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    if (std::isnan(value)) continue;
    const std::string text = float_text(value);
    Reader reader(text);
    EXPECT_TRUE(reader.at_float()) << text;
    const double back = reader.number("a float");
    EXPECT_EQ(std::memcmp(&back, &value, sizeof value), 0) << text;
  }
}

TEST(Reader, StringsReadBackWhateverTheirBytes) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const std::string text = tilewright::quoted(all);
  EXPECT_EQ(Reader(text).string("a string"), all);
}

}  // namespace
}  // namespace tilewright
