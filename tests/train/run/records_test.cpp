// Records of whole runs: every step once, whatever ended the run before; alarms that end a run; sinks that harm nobody.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "tests/data/temp_folder.h"
#include "tests/train/run/train_on_ranks.h"
#include "weft/base/error.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/report/records/read_records.h"

namespace weft::records_test {
namespace {

class Records : public testing::TestWithParam<int> {
 protected:
  Records() : threads_(at::get_num_threads()) {
    std::string text;
    for (int i = 0; i < 200; ++i) text += fmt::format("line {} of a text that repeats itself\n", i);
    folder_.write("text", text);
  }
  ~Records() override { at::set_num_threads(threads_); }

  Recipe unsaved(const std::string& more, const std::vector<std::string>& overrides = {}) const {
    return parse_recipe(fmt::format(R"(
model = {{ name = "gpt", layers = 1, heads = 2, width = 16, context = 16 }}
data = {{ name = "text", path = "{}" }}
batch = {{ global = 8 }}
optimizer = {{ lr = 1e-3, clip = 1.0 }}
run = {{ steps = 10, evaluate_every = 5, threads = 1 }}
{})",
                                    folder_.file("text"), more),
                        "text.toml", overrides);
  }
  Recipe recipe(const std::vector<std::string>& overrides = {}) const {
    return unsaved(fmt::format("save = {{ folder = \"{}\", every = 4 }}", folder_.file("run")), overrides);
  }

  std::string read(const std::string& name) const { return folder_.read("run/" + name); }
  Metrics metrics() const {
    MetricsReader reader;
    reader.add(read("metrics.jsonl"));
    return reader.metrics();
  }
  std::vector<std::string> events() const {
    std::vector<std::string> kinds;
    for (const EventRecord& event : parse_events(read("events.jsonl"))) {
      if (event.kind != "note" && event.kind != "save") kinds.push_back(fmt::format("{} {}", event.kind, event.step));
    }
    return kinds;
  }

  test::TempFolder folder_;
  int threads_;
};

std::vector<int64_t> up_to(int64_t last) {
  std::vector<int64_t> steps;
  for (int64_t step = 1; step <= last; ++step) steps.push_back(step);
  return steps;
}

TEST_P(Records, HaveEveryStepOnceWhateverEndedTheRun) {
  const int ranks = GetParam();
  int64_t failed = 0;
  TrainOptions fails;
  bool is_saved = false;
  fails.on_save = [&](const SaveReport&) { is_saved = true; };
  fails.on_step = [&](const StepReport& report) {
    failed = report.step;
    if (is_saved && report.step % 4 == 2) throw Error("the program fails");
  };
  EXPECT_THROW(test::train_on_ranks(ranks, recipe({"run.steps=100000"}), fails), std::exception);
  EXPECT_EQ(metrics().steps, up_to(failed - 1));
  EXPECT_EQ(events(), (std::vector<std::string>{"start 0", fmt::format("error {}", failed - 1)}));
  const int64_t last = failed + 4;
  const FinalReport report = test::train_on_ranks(ranks, recipe({fmt::format("run.steps={}", last)}));
  const Metrics all = metrics();
  EXPECT_EQ(all.steps, up_to(last));
  EXPECT_EQ(all.column("loss")->back(), report.loss);  // to the bit
  EXPECT_EQ(all.column("lr")->back(), 1e-3);
  EXPECT_EQ(all.column("samples")->back(), 8.0 * static_cast<double>(last));
  EXPECT_EQ(all.column("tokens")->back(), 128.0 * static_cast<double>(last));
  ASSERT_FALSE(all.evaluations.empty());
  EXPECT_EQ(all.evaluations.back().step, last);
  EXPECT_EQ(value_of(all.evaluations.back().values, "loss"), report.evaluation->loss);
  EXPECT_EQ(events(), (std::vector<std::string>{"start 0", fmt::format("error {}", failed - 1),
                                                fmt::format("start {}", report.resumed_from), fmt::format("end {}", last)}));
  EXPECT_GT(report.resumed_from, 0);
  std::vector<int64_t> saves;
  for (const EventRecord& event : parse_events(read("events.jsonl"))) {
    if (event.kind == "save") saves.push_back(event.step);
  }
  EXPECT_EQ(saves.back(), last);
  EXPECT_EQ(saves.front(), 4);
  for (const char* name : {"grad_norm", "clipped", "epoch", "flops_per_s", "time/step", "time/forward", "time/backward",
                           "time/update", "memory/activations", "memory/resident"}) {
    ASSERT_NE(all.column(name), nullptr) << name;
    EXPECT_TRUE(std::any_of(all.column(name)->begin(), all.column(name)->end(), [](double value) { return value > 0.0; }))
        << name;
  }
  for (size_t step = 0; step < all.steps.size(); ++step) {
    const double parts =
        (*all.column("time/forward"))[step] + (*all.column("time/backward"))[step] + (*all.column("time/update"))[step];
    EXPECT_LE(parts, (*all.column("time/step"))[step] * 1.01) << step;
  }
}

/// What fails before the first step is an event of the run that it would have continued, and leaves nothing where there is
/// none.
TEST_P(Records, SayThatARunCannotGoOn) {
  const Recipe lost = recipe({"run.resume=" + folder_.file("no checkpoint")});
  EXPECT_THROW(test::train_on_ranks(GetParam(), lost), std::exception);
  EXPECT_FALSE(std::filesystem::exists(folder_.file("run/events.jsonl")));
  test::train_on_ranks(GetParam(), recipe());
  EXPECT_THROW(test::train_on_ranks(GetParam(), lost), std::exception);
  EXPECT_EQ(events(), (std::vector<std::string>{"start 0", "end 10", "error 0"}));
}

TEST_P(Records, AreOfTheStepsAskedFor) {
  test::train_on_ranks(GetParam(), recipe({"run.log_every=4", "run.csv=true", "run.tensorboard=true"}));
  EXPECT_EQ(metrics().steps, (std::vector<int64_t>{1, 4, 8, 10}));
  const std::string csv = read("metrics.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 5);
  EXPECT_TRUE(std::filesystem::exists(folder_.file("run/tensorboard")));
}

TEST_P(Records, GoToTheProgramsOwnSinks) {
  std::vector<int64_t> steps;
  TrainOptions options;
  options.sinks = {[&](const Record& record) {
                     if (const auto* step = std::get_if<StepRecord>(&record)) steps.push_back(step->step);
                   },
                   [](const Record&) { throw Error("no room"); }};
  std::vector<std::string> notes;
  options.on_note = [&](const std::string& note) { notes.push_back(note); };
  test::train_on_ranks(GetParam(), unsaved(""), options);
  EXPECT_EQ(steps, up_to(10));
  EXPECT_EQ(std::count(notes.begin(), notes.end(), "a sink of the program fails: no room; training goes on without it"), 1);
}

/// A rate that becomes far too high: the loss falls, then leaves the range of what came before, and stays finite.
TEST_P(Records, EndARunThatDiverges) {
  const Recipe diverges = recipe({"run.stop_on=divergence", "optimizer.lr=1", "optimizer.name=adamw", "optimizer.warmup=150",
                                  "optimizer.clip=0", "run.steps=200", "run.evaluate_every=0", "save.every=0"});
  std::string said;
  try {
    test::train_on_ranks(GetParam(), diverges);
  } catch (const std::exception& error) {
    said = error.what();
  }
  EXPECT_NE(said.find("run.stop_on = \"divergence\" ends the run"), std::string::npos) << said;
  const std::vector<std::string> kinds = events();
  ASSERT_GE(kinds.size(), 3U);
  EXPECT_TRUE(kinds[1].starts_with("warning")) << kinds[1];
  EXPECT_TRUE(kinds.back().starts_with("error")) << kinds.back();
}

INSTANTIATE_TEST_SUITE_P(Ranks, Records, testing::Values(1, 2, 4), [](const auto& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace weft::records_test
