#include "support/float_formats.h"

#include <gtest/gtest.h>

namespace tilewright {
namespace {

class FloatFormats : public testing::TestWithParam<FloatFormat> {};

TEST_P(FloatFormats, EveryValueSurvivesItsBits) {
  const FloatFormat format = GetParam();
  for (unsigned bits = 0; bits < 1U << format.width(); ++bits) {
    const double value = decode(static_cast<uint16_t>(bits), format);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(decode(encode(value, format), format))) << bits;
      continue;
    }
    EXPECT_EQ(encode(value, format), bits);
    if (std::isinf(value)) continue;
    EXPECT_EQ(rounded(value, format), value) << bits;
    EXPECT_EQ(std::signbit(rounded(value, format)), std::signbit(value)) << bits;
  }
}

TEST_P(FloatFormats, RoundsToTheNearestAndTiesToEven) {
  const FloatFormat format = GetParam();
  for (uint16_t bits = 0; decode(bits, format) < format.max; ++bits) {
    const double low = decode(bits, format), high = decode(static_cast<uint16_t>(bits + 1), format);
    const double middle = (low + high) / 2;
    const double even = bits % 2 == 0 ? low : high;
    EXPECT_EQ(rounded(middle, format), even) << bits;
    EXPECT_EQ(rounded(-middle, format), -even) << bits;
    EXPECT_EQ(rounded(std::nextafter(middle, 0), format), low) << bits;
    EXPECT_EQ(rounded(std::nextafter(middle, HUGE_VAL), format), high) << bits;
  }
}

TEST_P(FloatFormats, OverflowsAtHalfAUnitAboveTheGreatest) {
  const FloatFormat format = GetParam();
  const double unit = std::ldexp(1.0, std::ilogb(format.max) - format.mantissa_bits);
  EXPECT_EQ(rounded(std::nextafter(format.max + unit / 2, 0), format), format.max);
  // A tie goes to the even one: the overflow, but in f8e4m3, whose greatest value is even.
  const double tie = rounded(format.max + unit / 2, format);
  const double beyond = rounded(-2 * format.max, format);
  if (format.has_infinity) {
    EXPECT_EQ(tie, HUGE_VAL);
    EXPECT_EQ(beyond, -HUGE_VAL);
    EXPECT_EQ(rounded(HUGE_VAL, format), HUGE_VAL);
  } else {
    EXPECT_EQ(tie, format.max);
    EXPECT_TRUE(std::isnan(beyond));
    EXPECT_TRUE(std::isnan(rounded(HUGE_VAL, format)));
  }
}

INSTANTIATE_TEST_SUITE_P(All, FloatFormats, testing::Values(kHalf, kBFloat16, kFloat8E4M3, kFloat8E5M2));

}  // namespace
}  // namespace tilewright
