// RunTarget: parsing, when it is reached, and the one-line error for invalid text.
#include "weft/recipe/run_target.h"

#include <gtest/gtest.h>

#include <cmath>

#include "weft/base/error.h"

namespace weft::run_target_test {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse_run_target(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(RunTarget, ReadsMetricAndValue) {
  EXPECT_FALSE(parse_run_target("").has_value());
  for (const char* text : {"accuracy >= 0.9", "accuracy>=0.9", "  accuracy  >=  .9 "}) {
    const auto target = parse_run_target(text);
    ASSERT_TRUE(target) << text;
    EXPECT_EQ(target->metric, TargetMetric::accuracy);
    EXPECT_EQ(target->value, 0.9);
  }
  const auto loss = parse_run_target("loss <= 2.1");
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->metric, TargetMetric::loss);
  EXPECT_EQ(loss->value, 2.1);
}

TEST(RunTarget, IsReachedAtItsValueAndByNumbersAlone) {
  const RunTarget accuracy{TargetMetric::accuracy, 0.5}, loss{TargetMetric::loss, 2.0};
  EXPECT_TRUE(accuracy.is_reached(9.0, 0.5));
  EXPECT_TRUE(accuracy.is_reached(std::nan(""), 0.6));
  EXPECT_FALSE(accuracy.is_reached(0.0, 0.4999));
  EXPECT_FALSE(accuracy.is_reached(0.0, std::nullopt));
  EXPECT_FALSE(accuracy.is_reached(0.0, std::nan("")));
  EXPECT_TRUE(loss.is_reached(2.0, std::nullopt));
  EXPECT_FALSE(loss.is_reached(2.0001, 1.0));
  EXPECT_FALSE(loss.is_reached(std::nan(""), 1.0));
}

TEST(RunTarget, InvalidTextSaysWhy) {
  const struct {
    const char *text, *why;
  } cases[] = {
      {"0.9", "it has no comparison"},
      {"accuracy >", "it has no comparison"},
      {"perplexity <= 9", "it must begin with accuracy or loss"},
      {" >= 9", "it must begin with accuracy or loss"},
      {"accuracy <= 0.9", "an accuracy needs >= and a number"},
      {"accuracy > 0.9", "an accuracy needs >= and a number"},
      {"loss >= 2", "a loss needs <= and a number"},
      {"loss == 2", "a loss needs <= and a number"},
      {"loss <= much", "the right-hand side is not a number"},
      {"loss <= ", "the right-hand side is not a number"},
      {"loss <= inf", "the right-hand side is not a number"},
      {"loss <= nan", "the right-hand side is not a number"},
      {"accuracy >= 90", "an accuracy must be above 0 and at most 1"},
      {"accuracy >= 90 %", "the right-hand side is not a number"},
      {"accuracy >= 0", "an accuracy must be above 0 and at most 1"},
  };
  for (const auto& [text, why] : cases) {
    const std::string error = error_of(text);
    EXPECT_NE(error.find("\" is not a target: " + std::string(why) + "; write one as \"accuracy >= 0.9\""), std::string::npos)
        << text << ": " << error;
  }
}

}  // namespace
}  // namespace weft::run_target_test
