// weft study: a small grid with real training; continued, interrupted, and with another recipe.
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "tests/cli/training.h"
#include "tests/support/wait_until.h"

namespace weft::study_test {
namespace {

constexpr const char* kRecipe = R"(
model = { name = "gpt", layers = 1, heads = 2, width = 16, context = 16 }
data = { name = "text" }
batch = { global = 8 }
optimizer = { name = "sgd", lr = 1e-3 }
run = { steps = 40, evaluate_every = 8, threads = 1 }
)";

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class WeftStudy : public TrainingTest {
 protected:
  WeftStudy() : TrainingTest(kRecipe) {}

  std::string out() const { return (folder_ / "study").string(); }
  std::vector<std::string> study(const std::vector<std::string>& more, const std::string& target = "loss <= 4.5") const {
    std::vector<std::string> all = train({"--target", target, "--out", out()});
    all[0] = "study";
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  nlohmann::json json() const { return nlohmann::json::parse(read_text(folder_ / "study" / "study.json"), nullptr, false); }
};

TEST_F(WeftStudy, TrainsTheGridAndContinues) {
  const std::vector<std::string> grid = {"--batch",     "8,16",      "--lr",           "0.3,1e30",
                                         "--optimizer", "adamw,sgd", "--side-by-side", "2"};
  const CommandResult first =
      run_weft(study(grid), {.environment = {{"WEFT_NODES", "2"}, {"WEFT_NODE_RANK", "1"}, {"WEFT_HEAD", "127.0.0.1:1"}}});
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_TRUE(contains(first.out, "8 points to loss <= 4.5, 0 done; 8 on 1 rank each, 2 at once, ")) << first.out;
  EXPECT_TRUE(contains(first.out, "[8/8] ")) << first.out;
  EXPECT_TRUE(contains(first.out, ": diverged: step 2, ")) << first.out;
  EXPECT_TRUE(contains(first.out, "steps to target")) << first.out;
  const auto sgd = json().at("series").at(1);
  EXPECT_EQ(sgd.at("optimizer"), "sgd");
  for (const auto& row : sgd.at("rows")) {
    EXPECT_EQ(row.at("best").at("lr"), 0.3) << row;
    EXPECT_EQ(row.at("best").at("outcome"), "reached") << row;
    EXPECT_LE(row.at("best").at("loss").get<double>(), 4.5) << row;
    EXPECT_EQ(row.at("points").at(1).at("outcome"), "diverged") << row;
    EXPECT_EQ(row.at("points").at(0).at("evaluate_every"), row.at("batch") == 8 ? 8 : 4);
  }
  EXPECT_TRUE(contains(read_text(folder_ / "study" / "study.svg"), "perfect scaling, sgd"));
  // Complete results are kept; an interrupted one is trained again.
  const std::string svg = read_text(folder_ / "study" / "study.svg");
  std::filesystem::remove(folder_ / "study" / "sgd-b8-lr0.3.json");
  const CommandResult again = run_weft(study(grid));
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_TRUE(contains(again.out, "8 points to loss <= 4.5, 7 done; 1 on 1 rank each")) << again.out;
  EXPECT_TRUE(contains(again.out, "[1/1] sgd, batch 8, lr 0.3: reached after ")) << again.out;
  EXPECT_EQ(read_text(folder_ / "study" / "study.svg"), svg);
}

TEST_F(WeftStudy, WhatFailsIsARow) {
  // Only the runs miss the data.
  const CommandResult result = run_weft(study({"--batch", "8", "--set", "data.path=" + (folder_ / "none").string()}));
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(contains(result.out, "[1/1] sgd, batch 8, lr 0.001: failed: ")) << result.out;
  EXPECT_EQ(result.err, "weft: 1 point failed; see the logs in " + out() + "; the same command runs them again\n");
  const auto point = json().at("series").at(0).at("rows").at(0).at("points").at(0);
  EXPECT_TRUE(contains(point.at("reason"), "none")) << point;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "study" / "study.svg"));
}

TEST_F(WeftStudy, CtrlCEndsItAndItContinues) {
  const std::vector<std::string> grid = {"--batch", "8,16", "--lr", "1e-9", "--set", "run.steps=1000000", "-n", "2"};
  const pid_t pid = start_weft(study(grid), folder_.path());
  EXPECT_TRUE(wait_until([&] { return contains(read_text(folder_ / "study" / "sgd-b8-lr1e-09.log"), "step "); }, 30.0));
  kill(pid, SIGINT);
  EXPECT_EQ(wait_for(pid, 20.0), 128 + SIGINT);
  EXPECT_FALSE(processes_left());
  EXPECT_EQ(json().at("series").at(0).at("rows").at(0).at("points").at(0).at("outcome"), "not run");
}

TEST_F(WeftStudy, MistakesAreReportedAtOnce) {
  EXPECT_EQ(run_weft(study({"--batch", "8", "--steps-limit", "1"})).status, 0);
  const struct {
    std::vector<std::string> more;
    std::string says;
  } cases[] = {
      {{"--batch", "8", "--steps-limit", "2"},
       "holds a study with other settings: the limit on steps was 1, is 2; name another --out"},
      {{"--batch", "8", "--set", "model.width=32"}, "model.width was 16, is 32"},
      {{"--batch", "7", "-n", "2"}, "batch.global = 7 does not divide over 2 data-parallel ranks"},
      {{"--batch", "eight"}, "eight: that is not a list of numbers above 0"},
      {{"--batch", "8", "--optimizer", "sdg"}, "sdg"},
  };
  for (const auto& [more, says] : cases) {
    const CommandResult result = run_weft(study(more));
    EXPECT_EQ(result.status, 1) << says;
    EXPECT_TRUE(contains(result.err, says)) << result.err;
    EXPECT_EQ(result.out, "");
  }
  EXPECT_TRUE(contains(run_weft(study({"--batch", "8"}, "accuracy > 1")).err, "\"accuracy > 1\" is not a target"));
  EXPECT_TRUE(contains(run_weft(study({"--batch", "8"}, "")).err, "no target; add run.target, or --target"));
}

}  // namespace
}  // namespace weft::study_test
