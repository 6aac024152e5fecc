// Curves of `weft plan`: which numbers of ranks, and what is shown of them.
#include "weft/study/plan_curve.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/refusal.h"

namespace weft::plan_curve_test {
namespace {

PlanCurves curves() {
  LayoutForecast quick;
  quick.text = "dp 8";
  quick.step_s = 2.0;
  quick.tokens_per_s = 1e6;
  quick.memory_bytes = 3LL << 30;
  quick.mfu = 0.5;
  return {.recipe = "r.toml",
          .batch = 64,
          .budget = {.tokens = 86.4e9, .prices = {2.0}},
          .points = {{.hardware = "a", .ranks = 4, .price = 2.0, .reason = "whole states: over memory by 1.00 GiB"},
                     {.hardware = "a", .ranks = 8, .price = 2.0, .best = quick},
                     {.hardware = "b", .path = "b.toml", .line = 1, .ranks = 4, .reason = "no"},
                     {.hardware = "b", .path = "b.toml", .line = 1, .ranks = 8, .reason = "no"}}};
}

TEST(PlanCurve, ReadsNumbersOfRanks) {
  const std::pair<const char*, std::vector<int>> cases[] = {{"gpus=8..64", {8, 16, 32, 64}},
                                                            {"gpus=6..20", {6, 12}},
                                                            {"gpus=8,12,16", {8, 12, 16}},
                                                            {"gpus=4", {4}},
                                                            {"gpus=2,4,...,16", {2, 4, 8, 16}}};
  for (const auto& [text, ranks] : cases) EXPECT_EQ(parse_what_if(text), ranks) << text;
  for (const char* text :
       {"", "8..64", "gpus=", "gpus=64..8", "gpus=0..8", "gpus=8..", "gpus=1,x", "gpus=1..1e9", "gpus=2000000"}) {
    EXPECT_NE(test::refusal([&] { parse_what_if(text); }).find("write it as gpus=8..4096"), std::string::npos) << text;
  }
}

TEST(PlanCurve, CountsDaysAndCost) {
  const PlanCurves c = curves();
  EXPECT_DOUBLE_EQ(training_seconds(c.points[1], c.budget), 86400.0);
  EXPECT_DOUBLE_EQ(training_cost(c.points[1], c.budget), 24 * 8 * 2.0);
  EXPECT_EQ(training_cost(c.points[0], c.budget), 0.0);
  EXPECT_EQ(plan_curves_table(c),
            "a\n"
            "   ranks       step   tokens/s       MFU     memory       days       cost\n"
            "       4  whole states: over memory by 1.00 GiB\n"
            "       8     2.00 s     1.00 M    50.0 %   3.00 GiB          1        384\n"
            "          dp 8\n"
            "  the smallest of these numbers that fits: 8 ranks\n"
            "\n"
            "b\n"
            "   ranks       step   tokens/s       MFU     memory       days       cost\n"
            "       4  no\n"
            "       8  no\n"
            "  fits none of these numbers, up to 8 ranks\n");
  const nlohmann::json json = nlohmann::json::parse(plan_curves_json(c));
  EXPECT_EQ(json.at("points")[1].at("training_s"), 86400.0);
  EXPECT_EQ(json.at("points")[0].at("reason"), "whole states: over memory by 1.00 GiB");
  EXPECT_NE(plan_curves_chart(c).find("Days of training vs ranks"), std::string::npos);
  PlanCurves alike = c;
  for (PlanPoint& point : alike.points) point.hardware = "cpu";
  alike.points[3].best = alike.points[1].best;
  EXPECT_NE(plan_curves_table(alike).find("\n\ncpu (b.toml)\n"), std::string::npos) << plan_curves_table(alike);
  EXPECT_NE(plan_curves_chart(alike).find("cpu (b.toml)"), std::string::npos) << "a line of its own";
  EXPECT_EQ(nlohmann::json::parse(plan_curves_json(alike)).at("points")[3].at("file"), "b.toml");
  PlanCurves none = c;
  none.points.erase(none.points.begin() + 1);
  EXPECT_EQ(plan_curves_chart(none), "") << "nothing to draw";
}

}  // namespace
}  // namespace weft::plan_curve_test
