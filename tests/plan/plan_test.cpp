// Plan: the pipeline of a recipe, and the errors for impossible ones.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/data/temp_folder.h"
#include "weft/base/error.h"
#include "weft/plan/cost/rank_memory.h"
#include "weft/plan/forecast.h"
#include "weft/plan/make_plan.h"
#include "weft/program/build/make_schedule.h"
#include "weft/program/simulate/simulate.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/recipe/toml/hardware_file.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Eight blocks.
constexpr const char* kGpt = R"(
  model = { name = "gpt", layers = 6, heads = 2, width = 64, context = 32 }
  data = { name = "text", path = "none.txt" }
  batch = { global = 16, micro = 1 }
  run = { steps = 3 }
)";

Plan plan_of(const std::vector<std::string>& overrides, int world) {
  return make_plan(parse_recipe(kGpt, "plan_test.toml", overrides), world);
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

// A pipeline recipe runs on one rank too; its mistakes are reported there as well.
TEST(PlanOnOneRank, KeysOfAPipelineAreChecked) {
  EXPECT_EQ(error_of({"layout.stages=\"3,2,3\"", "layout.schedule=zb-v"}, 1), "no error");
  EXPECT_EQ(error_of({"layout.stage_gb=1", "layout.schedule=auto", "layout.schedule_activations=3"}, 1), "no error");
  EXPECT_EQ(error_of({"layout.stages=\"7,9\""}, 1),
            "plan_test.toml: layout.stages = \"7,9\" has 16 blocks in all, but the model has 8");
  EXPECT_THAT(error_of({"layout.profile=nope.toml"}, 1), HasSubstr("cannot read the hardware file 'nope.toml': No such file"));
  EXPECT_THAT(error_of({"layout.schedule=csv", "layout.schedule_file=/tmp"}, 1),
              HasSubstr("'/tmp': it is a folder, not a regular file"));
}

// The sizes of recipes/gpt.toml, measured by `weft memory`.
TEST(PlanStages, NoRankHoldsMoreThanStageGb) {
  const std::vector<std::string> sizes = {"model.heads=6", "model.width=192", "model.context=128",
                                          "layout.pp=2",   "batch.global=64", "batch.micro=2"};
  const auto memory = [&](std::vector<std::string> overrides) {
    overrides.insert(overrides.begin(), sizes.begin(), sizes.end());
    return recipe_memory(parse_recipe(kGpt, "plan_test.toml", overrides), 2).estimate().total();
  };
  int fitting = 0;
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (kind.name == "naive" || kind.name == "csv") continue;
    const std::string schedule(kind.name);
    const int64_t free = memory({"layout.schedule=" + schedule});
    for (const double share : {0.99, 0.95, 0.9, 0.8, 0.5}) {
      const double limit = share * static_cast<double>(free);
      try {
        const std::string stage_gb = std::to_string(limit / (1 << 30));
        const int64_t held = memory({"layout.schedule=" + schedule, "layout.stage_gb=" + stage_gb});
        EXPECT_LE(static_cast<double>(held), limit * 1.001) << schedule << " " << share;
        ++fitting;
      } catch (const InputError& error) {
        EXPECT_THAT(error.what(), HasSubstr(" per rank, but with schedule ")) << schedule << " " << share;
      }
    }
    EXPECT_GE(memory({"layout.schedule=" + schedule, "layout.stage_gb=1"}), free);
  }
  EXPECT_GE(fitting, 3);
  std::vector<std::string> tight = sizes;
  tight.insert(tight.end(), {"layout.schedule=gpipe", "layout.stage_gb=0.05"});
  EXPECT_THAT(error_of(tight, 2),
              HasSubstr("layout.stage_gb = 0.05 allows 51.2 MiB per rank, but with schedule gpipe and the best cut "
                        "found into 2 stages, pipeline rank 1 holds 226 MiB"));
}

/// All cuts of eight blocks into three stages.
std::vector<std::string> cuts_into_three() {
  std::vector<std::string> cuts;
  for (int first = 1; first < 7; ++first) {
    for (int second = 1; first + second < 8; ++second)
      cuts.push_back(fmt::format("{},{},{}", first, second, 8 - first - second));
  }
  return cuts;
}

// A head with a large vocabulary makes blocks differ in state and in activations.
TEST(PlanStages, ALimitThatACutByHandKeepsIsKept) {
  const std::vector<std::vector<std::string>> layouts = {{"layout.recompute=none"},
                                                         {"layout.recompute=blocks"},
                                                         {"layout.shard_level=optimizer", "layout.shard=2"},
                                                         {"layout.shard_level=parameters", "layout.shard=2"}};
  for (std::vector<std::string> overrides : layouts) {
    const int world = overrides.size() > 1 ? 6 : 3;
    overrides.insert(overrides.end(), {"layout.pp=3", "model.vocabulary=4096"});
    for (const std::string schedule : {"gpipe", "1f1b", "zb-h2"}) {
      const auto memory = [&](const std::string& more) {
        std::vector<std::string> all = overrides;
        all.insert(all.end(), {"layout.schedule=" + schedule, more});
        return recipe_memory(parse_recipe(kGpt, "plan_test.toml", all), world).estimate().total();
      };
      int64_t least = std::numeric_limits<int64_t>::max();
      for (const std::string& cut : cuts_into_three()) least = std::min(least, memory("layout.stages=\"" + cut + "\""));
      const std::string limit = fmt::format("layout.stage_gb={:.9f}", 1.001 * static_cast<double>(least) / (1 << 30));
      EXPECT_NO_THROW(memory(limit)) << overrides[0] << " " << schedule;
    }
  }
}

// Both stages of a rank must be cut smaller at once.
TEST(PlanStages, ALimitThatACutByHandKeepsIsKeptWithSeveralStagesARank) {
  const auto memory = [](const std::string& schedule, const std::string& more) {
    const std::vector<std::string> all = {"layout.pp=2", "model.vocabulary=4096", "layout.schedule=" + schedule, more};
    return recipe_memory(parse_recipe(kGpt, "plan_test.toml", all), 2).estimate().total();
  };
  for (const std::string schedule : {"zb-v", "interleaved"}) {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const std::string& cut : cuts_into_three()) {
      for (int first = 1; first < cut[0] - '0'; ++first) {
        const std::string four = fmt::format("{},{}{}", first, cut[0] - '0' - first, cut.substr(1));
        least = std::min(least, memory(schedule, "layout.stages=\"" + four + "\""));
      }
    }
    const std::string limit = fmt::format("layout.stage_gb={:.9f}", 1.001 * static_cast<double>(least) / (1 << 30));
    EXPECT_NO_THROW(memory(schedule, limit)) << schedule;
  }
}

/// File of a profile with these times; devices and links take no time otherwise.
class Profile {
 public:
  explicit Profile(const Hardware& hardware) { folder_.write("profile.toml", hardware_text(hardware)); }
  std::string set() const { return "layout.profile=" + path(); }
  std::string path() const { return folder_.file("profile.toml"); }

 private:
  test::TempFolder folder_;
};

Hardware measured(const BlockTime& all) {
  return {.name = "written",
          .flops = 1e15,
          .narrow_flops = 1e15,
          .memory_bytes = 1e15,
          .memory_bytes_per_s = 1e15,
          .intra_host = {.bytes_per_s = 1e15},
          .inter_host = {.bytes_per_s = 1e15},
          .offload = {.bytes_per_s = 1e15},
          .blocks = {all}};
}

// Noise may make a part of a backward longer than the whole.
TEST(PlanProfile, AcceptsTheProfilesOfSimulate) {
  const BlockTime times[] = {{.name = "*", .forward_s = 1, .backward_s = 1, .input_s = 1.1, .weight_s = 1},
                             {.name = "*", .forward_s = 1, .input_s = 1, .weight_s = 1},
                             {.name = "*", .forward_s = 1, .backward_s = 2},
                             {.name = "h.0", .forward_s = 1}};
  for (const BlockTime& time : times) {
    const Profile profile(measured(time));
    for (const char* schedule : {"1f1b", "zb-h1", "auto"}) {
      const std::vector<std::string> overrides = {"layout.pp=2", profile.set(), std::string("layout.schedule=") + schedule};
      EXPECT_EQ(error_of(overrides, 2), "no error") << time.name << " " << schedule;
    }
  }
}

TEST(PlanProfile, BlocksThatTheModelLacksAreNamed) {
  const Profile profile(measured({.name = "layer.0", .forward_s = 1}));
  for (const int pp : {1, 2}) {
    EXPECT_THAT(error_of({fmt::format("layout.pp={}", pp), profile.set()}, pp),
                HasSubstr("[[block]] gives times of block 'layer.0', which the model does not have"));
  }
}

TEST(PlanProfile, BlocksWithoutATimeAreReported) {
  const Profile profile(measured({.name = "h.*", .forward_s = 1, .backward_s = 2}));
  EXPECT_THAT(plan_of({"layout.pp=2", profile.set()}, 2).stages_text, HasSubstr("\n  no times of blocks embedding, "));
}

// Two of eight blocks take longer than the others together, by the part for their weights.
TEST(PlanProfile, EveryMeasuredTimeCounts) {
  Hardware hardware = measured({.name = "*", .forward_s = 1, .input_s = 1, .weight_s = 1});
  for (const char* name : {"embedding", "h.0"}) hardware.blocks.push_back({name, 1, {}, 1, 10});
  const Profile profile(hardware);
  EXPECT_EQ(plan_of({"layout.pp=2", profile.set()}, 2).layout.options.pipeline.first_block, (std::vector<int>{0, 2}));
}

// The file that weft profile writes on one rank.
TEST(PlanProfile, WithoutLinksAutoTakesMessagesAsFree) {
  Hardware hardware = measured({.name = "*", .forward_s = 1, .backward_s = 2, .input_s = 1, .weight_s = 1});
  const auto text = [](const Hardware& known) {
    const Profile profile(known);
    return plan_of({"layout.pp=4", "layout.schedule=auto", profile.set()}, 4).stages_text;
  };
  constexpr const char* kSaid = "messages: not measured, taken as free";
  EXPECT_THAT(text(hardware), Not(HasSubstr(kSaid)));
  hardware.ranks_per_host = 4;
  hardware.inter_host.is_known = false;  // and not needed
  EXPECT_THAT(text(hardware), Not(HasSubstr(kSaid)));
  hardware.ranks_per_host = 1;
  hardware.intra_host.is_known = hardware.offload.is_known = false;
  EXPECT_THAT(text(hardware), HasSubstr(kSaid));
}

double simulated(const std::vector<std::string>& overrides, const std::string& schedule, const Hardware& hardware) {
  std::vector<std::string> all = overrides;
  all.push_back("layout.schedule=" + schedule);
  if (schedule == "auto") all.emplace_back("layout.schedule_activations=7");
  return recipe_simulation(parse_recipe(kGpt, "plan_test.toml", all), 4, hardware).simulation.step_s;
}

// Seven activations on four ranks: enough for ZB-H2, not for GPipe.
TEST(PlanSchedule, AutoIsNotSlowerThanAnyByHandThatKeepsItsLimit) {
  struct Case {
    const char* what;
    double latency_s;
    std::vector<std::string> overrides;
  };
  const Case cases[] = {{"no communication", 0.0, {}},
                        {"some communication", 0.3, {}},
                        {"much communication", 1.0, {}},
                        {"recompute", 0.0, {"layout.recompute=blocks"}},
                        {"recompute and communication", 0.5, {"layout.recompute=blocks"}}};
  for (const Case& c : cases) {
    Hardware hardware = measured({.name = "*", .forward_s = 1, .backward_s = 2, .input_s = 1, .weight_s = 1});
    hardware.intra_host.latency_s = hardware.inter_host.latency_s = c.latency_s;
    const Profile profile(hardware);
    std::vector<std::string> overrides = c.overrides;
    overrides.insert(overrides.end(), {"layout.pp=4", profile.set()});
    const double automatic = simulated(overrides, "auto", hardware);
    for (const ScheduleKind& kind : schedule_kinds()) {
      if (!kind.make) continue;  // auto itself, csv
      const std::string by_hand(kind.name);
      const double rounding = 1.0 + 1e-9;
      EXPECT_LE(automatic, simulated(overrides, by_hand, hardware) * rounding) << c.what << ": " << by_hand;
    }
  }
}

// With free messages the search finds as short a step as ZB-H2's, which tolerates messages better.
TEST(PlanSchedule, WithoutAProfileTheScheduleThatToleratesMessagesIsTaken) {
  const std::vector<std::string> overrides = {
      "layout.pp=4",    "layout.stages=\"6,4,4,4\"", "model.layers=16", "model.width=1024",
      "model.heads=16", "model.context=128",         "batch.global=64", "batch.micro=8"};
  const Hardware nominal = nominal_hardware();
  EXPECT_LE(simulated(overrides, "auto", nominal), simulated(overrides, "zb-h2", nominal));
}

// A step of more than 1e15 operations.
TEST(PlanSchedule, WithoutAProfileAModelOfRealSizeIsPlanned) {
  EXPECT_EQ(error_of({"layout.pp=2", "layout.schedule=auto", "model.width=2048", "model.heads=16", "model.layers=24",
                      "model.context=2048", "batch.global=256", "batch.micro=4"},
                     2),
            "no error");
}

// A limit below eight activations does not prevent a search.
TEST(PlanSchedule, AutoSearchesWithFewerActivationsWhereStageGbAsksForIt) {
  const auto with = [](const std::string& schedule, const std::string& more) {
    return parse_recipe(kGpt, "plan_test.toml",
                        {"layout.pp=8", "model.layers=46", "model.width=128", "model.context=128", "batch.global=32",
                         "layout.schedule=" + schedule, more});
  };
  const double naive = static_cast<double>(recipe_memory(with("naive", "layout.pp=8"), 8).estimate().total());
  const std::string limit = fmt::format("layout.stage_gb={:.9f}", 1.4 * naive / (1 << 30));
  const Plan planned = make_plan(with("auto", limit), 8);
  EXPECT_THAT(planned.stages_text, HasSubstr("searched with "));
  EXPECT_THAT(planned.stages_text, HasSubstr("activations, the most that keep layout.stage_gb"));
  const Hardware nominal = nominal_hardware();
  const double step_s = simulate(*planned.program, nominal).step_s;
  EXPECT_LT(step_s, 0.5 * recipe_simulation(with("naive", "layout.pp=8"), 8, nominal).simulation.step_s);
}

// Rules alone find nothing as good as ZB-V here, which has two stages per rank.
TEST(PlanSchedule, AutoReportsTheScheduleItTook) {
  EXPECT_THAT(plan_of({"layout.pp=2", "layout.schedule=auto"}, 2).stages_text, HasSubstr("schedule: zb-v"));
  const std::vector<std::string> three = {"layout.pp=2", "layout.schedule=auto", "layout.stages=\"3,5\""};
  EXPECT_EQ(plan_of(three, 2).layout.options.pipeline.first_block, (std::vector<int>{0, 3}));
}

// With the tied weights on one rank zb-v would mix the slots' gradients, so it is skipped.
TEST(PlanSchedule, AutoSkipsSchedulesThatCannotBeBuilt) {
  const std::vector<std::string> tied = {"layout.pp=2", "model.tied_embeddings=true", "run.reproducible_slots=2"};
  const auto with = [&](const std::string& schedule) {
    std::vector<std::string> overrides = tied;
    overrides.push_back("layout.schedule=" + schedule);
    return overrides;
  };
  EXPECT_THAT(error_of(with("zb-v"), 2), HasSubstr("its gradients mix micro-batches of different slots"));
  EXPECT_THAT(plan_of(with("auto"), 2).stages_text, Not(HasSubstr("zb-v")));
}

TEST(PlanSchedule, AnUnreadableFileIsReportedWithTheReason) {
  const auto from = [](const std::string& file) {
    return error_of({"layout.pp=2", "layout.schedule=csv", "layout.schedule_file=" + file}, 2);
  };
  EXPECT_THAT(from("/tmp"),
              HasSubstr("cannot read the schedule (layout.schedule_file) '/tmp': it is a folder, not a regular file"));
  EXPECT_THAT(from("/nonexistent.csv"), HasSubstr("'/nonexistent.csv': No such file or directory"));
}

}  // namespace
}  // namespace weft
