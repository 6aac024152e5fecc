// weft watch, compare and runs: pages of runs that were trained here, the index, and what is refused.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/training.h"
#include "tests/support/wait_until.h"

namespace weft::runs_test {
namespace {

constexpr const char* kRecipe = R"(
model = { name = "gpt", layers = 1, heads = 1, width = 8, context = 8 }
data = { name = "text" }
batch = { global = 8 }
run = { steps = 6, evaluate_every = 3, threads = 1 }
)";

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class WeftRuns : public TrainingTest {
 protected:
  WeftRuns() : TrainingTest(kRecipe) {}

  std::string path(const std::string& name) const { return (folder_ / "runs" / name).string(); }

  void trained(const std::string& name, const std::vector<std::string>& set) const {
    std::vector<std::string> more = {"--set", "run.folder=" + path(name)};
    for (const std::string& one : set) more.insert(more.end(), {"--set", one});
    const CommandResult result = run_weft(train(more));
    EXPECT_EQ(result.status, 0) << result.err;
  }

  static std::string shown(const std::vector<std::string>& arguments) {
    const CommandResult result = run_weft(arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  }
};

TEST_F(WeftRuns, AreWatchedComparedAndListed) {
  trained("a", {"optimizer.lr=0.001"});
  trained("b", {"optimizer.lr=0.003", "run.name=other"});
  const std::string page = shown({"watch", path("a")});
  for (const char* part : {"r (a): finished, step 6 of 6  (gpt on 1 rank)", "loss\n", "evaluation/accuracy", "┤",
                           "memory  resident ", "weights 20.0 KiB", "end: finished after step 6"}) {
    EXPECT_TRUE(contains(page, part)) << part << " in\n" << page;
  }
  EXPECT_TRUE(contains(run_weft({"watch", path("a"), "--value", "nothing"}).err, "--value nothing: no run has it; they have "));
  EXPECT_TRUE(contains(shown({"watch", path("a"), path("b") + "/metrics.jsonl", "--by", "tokens", "--once"}), "1 r  2 other"));
  const std::string compared = shown({"compare", path("a"), path("b")});
  EXPECT_TRUE(contains(compared, "optimizer.lr  0.001  0.003")) << compared;

  const std::string runs = (folder_ / "runs").string();
  EXPECT_TRUE(contains(run_weft({"watch", runs}).err, "name a run below it: " + path("a") + ", " + path("b") + "\n"));
  for (const std::string command : {"watch", "compare", "report"}) {
    EXPECT_TRUE(contains(run_weft({command, path("a"), path("b"), path("a") + "/metrics.jsonl"}).err,
                         "are the same run: name it once\n"))
        << command;
  }
  const std::string listed = shown({"runs", runs});
  EXPECT_TRUE(contains(listed, "optimizer.lr\n")) << listed;  // the only key that differs but for names and folders
  for (const bool again : {false, true}) {                    // from the index
    const auto json = nlohmann::json::parse(shown({"runs", runs, "--json", "--sort", "optimizer.lr", "--reverse"}));
    ASSERT_EQ(json.size(), 2U) << again;
    EXPECT_EQ(json[0]["path"], "b");
    EXPECT_EQ(json[1]["steps"], 6);
    EXPECT_EQ(json[1]["keys"]["optimizer.lr"], "0.001");
  }
  EXPECT_EQ(nlohmann::json::parse(shown({"runs", runs, "--json", "--where", "optimizer.lr=3e-3"})).size(), 1U);
  trained("c", {"optimizer.lr=0.003", "run.seed=2"});
  EXPECT_TRUE(contains(shown({"runs", runs}), "optimizer.lr  run.seed\n"));  // two runs have one seed
  std::filesystem::remove_all(folder_ / "runs" / "a");
  EXPECT_EQ(nlohmann::json::parse(shown({"runs", runs, "--json"})).size(), 2U);
  const auto by_name = nlohmann::json::parse(shown({"runs", runs, "--json", "--sort", "run.name", "--reverse"}));
  EXPECT_EQ(by_name[0]["path"], "b");  // "other" after ""
  std::ofstream(folder_ / "runs" / "runs.sqlite") << "damaged";
  EXPECT_EQ(nlohmann::json::parse(shown({"runs", runs, "--json"})).size(), 2U);
}

/// Steps of the newest checkpoint in a folder; 0: there is none.
int64_t newest_step(const std::string& folder) {
  int64_t step = 0;
  if (!std::filesystem::exists(folder)) return step;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-")) step = std::max<int64_t>(step, std::atoll(name.c_str() + 5));
  }
  return step;
}

/// Killed at any moment and resumed from its newest checkpoint, a run has one record of each step.
TEST_F(WeftRuns, HaveEveryStepOnceAfterKills) {
  const std::string run = path("killed");
  const auto arguments = [&](int64_t steps) {
    return train({"--set", "save.folder=" + run, "--set", "save.every=5", "--set", "run.evaluate_every=0", "--set",
                  fmt::format("run.steps={}", steps)});
  };
  constexpr int kKills = 4, kMany = 1'000'000;
  for (int number = 0; number < kKills; ++number) {
    const int64_t before = newest_step(run);
    const pid_t pid = start_weft(arguments(kMany), folder_.path(), {.deadline_s = 60});
    ASSERT_TRUE(wait_until([&] { return newest_step(run) > before + 20; }, 30.0)) << read_text(folder_ / "err");
    kill(pid, SIGKILL);
    wait_for(pid, 30.0);
  }
  const int64_t steps = newest_step(run) + 7;
  const CommandResult finished = run_weft(arguments(steps));
  ASSERT_EQ(finished.status, 0) << finished.err;
  std::istringstream lines(read_text(std::filesystem::path(run) / "metrics.jsonl"));
  int64_t last = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    if (!record.contains("evaluation")) ASSERT_EQ(record["step"], ++last);
  }
  EXPECT_EQ(last, steps);
}

TEST_F(WeftRuns, AreRefusedWhereThereAreNone) {
  struct Case {
    std::vector<std::string> arguments;
    const char* says;
  };
  const std::string none = folder_.path().string();
  for (const Case& one :
       {Case{{"watch", none}, "no records of a run in"}, Case{{"watch", "/does/not/exist"}, "no records of a run in"},
        Case{{"compare", none}, "run"}, Case{{"runs", "/does/not/exist"}, "is not a folder"},
        Case{{"runs", none, "--sort", "nothing"}, "--sort nothing: no column"},
        Case{{"runs", none, "--where", "lr"}, "write KEY=VALUE"},
        Case{{"runs", none, "--where", "optimizer.l=3"}, "no recipe key"},
        Case{train({"--set", "run.folder=s3://b/r", "--set", "run.csv=true"}), "run.folder or save.folder on disk"},
        Case{train({"--set", "run.csv=true"}), "run.csv"},
        Case{train({"--set", "run.folder=" + (folder_ / "text").string()}), "cannot keep records in"}}) {
    const CommandResult result = run_weft(one.arguments);
    EXPECT_NE(result.status, 0) << one.says;
    EXPECT_TRUE(contains(result.err, one.says)) << result.err;
  }
  EXPECT_TRUE(contains(shown({"runs", none}), "no runs below"));
}

}  // namespace
}  // namespace weft::runs_test
