// Plan: what a recipe's pipeline is, and what is said of one that cannot be.
#include "weft/train/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

/// Eight blocks.
constexpr const char* kGpt = R"(
  model = { name = "gpt", layers = 6, heads = 2, width = 64, context = 32 }
  data = { name = "text", path = "none.txt" }
  batch = { global = 16, micro = 1 }
  run = { steps = 3 }
)";

Plan plan_of(const std::vector<std::string>& overrides, int world) {
  return plan(parse_recipe(kGpt, "plan_test.toml", overrides), world);
}

std::string error_of(const std::vector<std::string>& overrides, int world) {
  try {
    plan_of(overrides, world);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(PlanStages, ByHandTheyMustBeThoseOfScheduleAndModel) {
  const auto by_hand = [](const std::string& stages) {
    return error_of({"layout.pp=2", "layout.stages=\"" + stages + "\""}, 2);
  };
  EXPECT_EQ(by_hand("3, 5"), "no error");
  EXPECT_EQ(by_hand("2,2,2,2"), "plan_test.toml: layout.stages = \"2,2,2,2\" makes 4 stages, but the schedule has 2");
  EXPECT_EQ(by_hand("4,5"), "plan_test.toml: layout.stages = \"4,5\" has 9 blocks in all, but the model has 8");
  EXPECT_EQ(by_hand("2147483647,2147483647"),
            "plan_test.toml: layout.stages = \"2147483647,2147483647\" has 4294967294 blocks in all, but the model has 8");
  EXPECT_THAT(by_hand("2147483647,2147483647,10"), HasSubstr("makes 3 stages, but the schedule has 2"));
  for (const char* text : {"8,0", "9,-1", "4,4,", "", "99999999999,1", "4;4", "evn"}) {
    EXPECT_THAT(by_hand(text), HasSubstr("must be \"auto\", \"even\" or the number of blocks of each stage")) << text;
  }
}

TEST(PlanSchedule, AFileThatCannotBeReadIsToldWithTheReason) {
  const auto from = [](const std::string& file) {
    return error_of({"layout.pp=2", "layout.schedule=csv", "layout.schedule_file=" + file}, 2);
  };
  EXPECT_THAT(from("/tmp"), HasSubstr("cannot read the schedule (layout.schedule_file) '/tmp': Is a directory"));
  EXPECT_THAT(from("/nonexistent.csv"), HasSubstr("'/nonexistent.csv': No such file or directory"));
}

}  // namespace
}  // namespace weft
