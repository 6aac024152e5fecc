// Text of a layout comparison.
#include "weft/train/compare/comparison_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace weft::comparison_text_test {
namespace {

Deviation weight(const std::string& name, int64_t step, double relative, double allowed = 0.0) {
  return {.what = name, .step = step, .ulps = 7, .relative = relative, .changed = 1.0, .allowed = allowed, .is_weight = true};
}

LayoutComparison different() {
  return {.layout = "pp 2 x dp 2",
          .steps = 3,
          .parameters = 8,
          .match = LayoutMatch::different,
          .may_promise = true,
          .deviations = {weight("a", 1, 1e-7, 1e-6),
                         weight("b", 1, 1e-3, 1e-6),
                         {.what = kLoss, .step = 2, .relative = 0.25, .allowed = 1e-5},
                         weight("a", 2, 0.5, 1e-6)},
          .tried = {{.names = {"pp"}, .match = LayoutMatch::different, .not_run = {}},
                    {.names = {"dp"}, .match = LayoutMatch::within_rounding, .not_run = {}},
                    {.names = {"layout.schedule"}, .not_run = "layout: no such schedule"}},
          .causes = {"dp"}};
}

TEST(ComparisonText, NamesTheFirstDifferenceAndItsCause) {
  EXPECT_EQ(
      comparison_text(different()),
      "3 steps on pp 2 x dp 2 as on one device: different\n"
      "  first: weights of b after step 1, by up to 7 ulps (1.0e-03 of the largest element); rounding explains 1.0e-06\n"
      "  largest: weights of a after step 2, by up to 7 ulps (5.0e-01 of the largest element); rounding explains 1.0e-06\n"
      "  loss: from step 2 on, by 2.5e-01 of itself\n"
      "  parameters, of 8: 2 after step 1, 1 after step 2\n"
      "  without pp: different\n"
      "  without dp: within rounding\n"
      "  without layout.schedule: not run: layout: no such schedule\n"
      "  dp causes it: the difference disappears when it is off\n");
}

TEST(ComparisonText, CausesInALine) {
  struct Case {
    std::vector<std::string> causes;
    bool together, repeats;
    std::string says;
  };
  const Case cases[] = {
      {{"dp"}, false, true, "dp causes it: the difference disappears when it is off"},
      {{"shard", "layout.recompute"},
       false,
       true,
       "the difference needs all of shard, layout.recompute: it disappears when any is off"},
      {{"dp", "shard"}, true, true, "dp and shard together cause it: the difference disappears when all are off"},
      {{}, false, true, "no part of the layout could be switched off"},
      {{}, false, false, "the run on one device does not repeat: model or data are not deterministic"},
  };
  for (const Case& c : cases) {
    LayoutComparison comparison = different();
    comparison.causes = c.causes;
    comparison.together = c.together;
    comparison.repeats = c.repeats;
    EXPECT_EQ(difference_line(comparison),
              "pp 2 x dp 2 does not train as one device does: first weights of b after step 1, by up to 7 ulps (1.0e-03 of the "
              "largest element); " +
                  c.says);
  }
}

TEST(ComparisonText, AdvisesSlotsWhereTheyHelp) {
  LayoutComparison comparison = different();
  comparison.match = LayoutMatch::within_rounding;
  EXPECT_NE(comparison_text(comparison).find("run.reproducible_slots"), std::string::npos);
  comparison.may_promise = false;
  EXPECT_EQ(comparison_text(comparison).find("run.reproducible_slots"), std::string::npos);
}

TEST(ComparisonText, NamesAReferenceOtherThanOneDevice) {
  LayoutComparison comparison = different();
  comparison.match = LayoutMatch::within_rounding;
  comparison.rest_as = "tp 2";
  EXPECT_NE(comparison_text(comparison).find("as on one device: within rounding\n"), std::string::npos);
  EXPECT_NE(comparison_text(comparison).find("\n  the rest of the layout changes no bit of tp 2\n"), std::string::npos);
  comparison.match = LayoutMatch::different;
  comparison.against = "tp 2";
  EXPECT_TRUE(comparison_text(comparison).starts_with("3 steps on pp 2 x dp 2 as on tp 2: different\n"));
  EXPECT_EQ(comparison_text(comparison).find("changes no bit"), std::string::npos);
  EXPECT_TRUE(difference_line(comparison).starts_with("pp 2 x dp 2 does not train as tp 2 does: first "));
  comparison.repeats = false;
  EXPECT_NE(difference_line(comparison).find("the run on tp 2 does not repeat"), std::string::npos);
}

TEST(ComparisonText, JsonHasAllOfIt) {
  const nlohmann::json json = nlohmann::json::parse(comparison_json(different()));
  EXPECT_EQ(json.at("verdict"), "different");
  EXPECT_EQ(json.at("against"), "one device");
  EXPECT_TRUE(json.at("rest_as").is_null());
  EXPECT_EQ(json.at("first").at("what"), "b");
  EXPECT_EQ(json.at("largest").at("step"), 2);
  EXPECT_EQ(json.at("causes"), nlohmann::json({"dp"}));
  EXPECT_EQ(json.at("tried").size(), 3u);
  EXPECT_TRUE(json.at("tried")[2].at("verdict").is_null());
  EXPECT_EQ(json.at("deviations").size(), 4u);
}

}  // namespace
}  // namespace weft::comparison_text_test
