// What records tell of a run: how it stands, what is left, and how runs differ; the pages of watch and compare.
#include "weft/report/history/run_history.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "weft/report/history/compare_runs.h"
#include "weft/report/history/text_table.h"
#include "weft/report/records/record_text.h"
#include "weft/report/terminal/plot.h"
#include "weft/report/terminal/watch_page.h"

namespace weft::run_history_test {
namespace {

constexpr double kBegin_s = 1764583200.0;

using Details = std::vector<std::pair<std::string, std::string>>;

/// A run of `steps` out of 100, one a second, whose loss falls to `least`.
RunHistory run_of(int64_t steps, double least = 1.0, const Details& details = {}) {
  RunHistory run{.path = "runs/a"};
  run.events.push_back({.kind = "start",
                        .step = 0,
                        .time_s = kBegin_s,
                        .text = "gpt on 2 ranks",
                        .details = {{"name", "a"}, {"steps", "100"}, {"ranks", "2"}, {"recipe.model.name", "gpt"}}});
  for (const auto& detail : details) run.events[0].details.push_back(detail);
  for (int64_t step = 1; step <= steps; ++step) {
    const auto done = static_cast<double>(step);
    run.reader.add(record_text(StepRecord{.step = step,
                                          .time_s = kBegin_s + done,
                                          .values = {{"loss", least + 4.0 / done},
                                                     {"samples", 8.0 * done},
                                                     {"samples_per_s", 8.0},
                                                     {"time/step", 1.0},
                                                     {"time/forward", 0.25},
                                                     {"communication/dp", 0.5},
                                                     {"memory/resident", 3e8}}}) +
                   "\n");
    if (step % 50 != 0) continue;
    run.reader.add(record_text(EvaluationRecord{
                       .set = "evaluation", .step = step, .time_s = kBegin_s + done, .values = {{"accuracy", done / 200.0}}}) +
                   "\n");
  }
  return run;
}

TEST(RunHistory, SaysHowARunStands) {
  RunHistory run = run_of(50);
  EXPECT_EQ(standing_of(RunHistory(), kBegin_s), RunStanding::empty);
  EXPECT_EQ(standing_of(run, kBegin_s + 51.0), RunStanding::running);
  EXPECT_EQ(standing_of(run, kBegin_s + 200.0), RunStanding::silent);
  EXPECT_DOUBLE_EQ(*seconds_left(run, kBegin_s + 51.0), 50.0);
  EXPECT_FALSE(seconds_left(run, kBegin_s + 200.0));
  const auto after = [&](std::string kind, Details details) {
    run.events.push_back({.kind = std::move(kind), .step = 50, .time_s = kBegin_s + 51.0, .details = std::move(details)});
    return standing_of(run, kBegin_s + 200.0);
  };
  EXPECT_EQ(after("end", {{"how", "stopped"}}), RunStanding::stopped);
  EXPECT_EQ(after("end", {{"how", "finished"}}), RunStanding::finished);
  EXPECT_EQ(after("error", {}), RunStanding::failed);
  EXPECT_EQ(after("start", {}), RunStanding::silent);
}

/// A pause before the run went on is no step's time.
TEST(RunHistory, TellsTheTimeLeftFromStepsSinceTheStart) {
  RunHistory run = run_of(50);
  run.events.push_back({.kind = "start", .step = 50, .time_s = kBegin_s + 36000.0, .details = {{"steps", "100"}}});
  EXPECT_FALSE(seconds_left(run, kBegin_s + 36000.0));
  for (int64_t step = 51; step <= 60; ++step) {
    const double time_s = kBegin_s + 36000.0 + 2.0 * static_cast<double>(step - 50);
    run.reader.add(record_text(StepRecord{.step = step, .time_s = time_s, .values = {{"loss", 1.0}}}) + "\n");
  }
  EXPECT_DOUBLE_EQ(*seconds_left(run, kBegin_s + 36030.0), 80.0);
}

/// The same run twice has no spread.
TEST(CompareRuns, DoesNotTakeOneSeedTwice) {
  const RunHistory a = run_of(100, 1.0, {{"recipe.run.seed", "1"}}), copy = run_of(100, 1.0, {{"recipe.run.seed", "1"}}),
                   c = run_of(100, 1.5, {{"recipe.run.seed", "2"}});
  const std::vector<RunGroup> groups = grouped_by_seed({&a, &copy, &c});
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].runs, (std::vector<const RunHistory*>{&a, &c}));
}

TEST(WatchPage, SaysWhyARunHasFailedAndShortensLargeNumbers) {
  RunHistory run = run_of(50);
  run.reader.add("{\"step\":51,\"time\":1764583252.0,\"loss\":5.02886777e17,\"memory/weights\":1e300}\n");
  std::string error = "rank 1";
  for (int word = 0; word < 30; ++word) error += fmt::format(" word{}", word);
  run.events.push_back({.kind = "error", .step = 51, .time_s = 1e300, .text = error});
  std::string page;
  for (const std::string& line : watch_page({&run}, {.width = 80, .height = 24, .now_s = kBegin_s + 60.0})) page += line + "\n";
  for (const char* part : {"loss 5.029e+17", "rank 1 word0", " word29\n", "weights -"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part << "\n" << page;
  }
}

TEST(CompareRuns, NamesWhatDiffers) {
  const RunHistory a1 = run_of(100, 1.0, {{"recipe.optimizer.lr", "0.1"}, {"recipe.run.seed", "1"}});
  const RunHistory a2 = run_of(100, 1.5, {{"recipe.optimizer.lr", "0.1"}, {"recipe.run.seed", "2"}});
  const RunHistory b = run_of(50, 2.0, {{"recipe.optimizer.lr", "0.3"}, {"recipe.run.seed", "1"}});
  const std::vector<RunGroup> groups = grouped_by_seed({&a1, &b, &a2});
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].runs, (std::vector<const RunHistory*>{&a1, &a2}));
  const std::vector<Difference> found = differences(groups);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].key, "optimizer.lr");
  EXPECT_EQ(found[0].values, (std::vector<std::string>{"0.1", "0.3"}));
  const std::string text = comparison_text({&a1, &b, &a2}, kBegin_s + 200.0);
  EXPECT_NE(text.find("runs/a (2 seeds)"), std::string::npos) << text;
  EXPECT_NE(text.find("optimizer.lr               0.1     0.3"), std::string::npos) << text;
  EXPECT_NE(text.find("1.2908 +- 0.3536"), std::string::npos) << text;  // the last twentieth: 4/96 to 4/100 above the least
  EXPECT_NE(text.find("evaluation accuracy"), std::string::npos) << text;
}

TEST(WatchPage, FitsTheTerminal) {
  const RunHistory a = run_of(100), b = run_of(3);
  const RunHistory none{.path = "runs/none"};
  for (const auto& runs : {std::vector<const RunHistory*>{&a}, {&none}, {&b}, {&a, &b, &none}}) {
    for (const auto& [width, height] : {std::pair{80, 24}, {300, 60}, {40, 24}, {40, 12}, {10, 5}}) {
      for (const bool colors : {false, true}) {
        const auto lines = watch_page(runs, {.width = width, .height = height, .colors = colors, .now_s = kBegin_s + 200.0});
        EXPECT_LE(lines.size(), static_cast<size_t>(std::max(height, 12)));
        for (const std::string& line : lines)
          EXPECT_LE(columns_of_text(line), static_cast<size_t>(std::max(width, 40))) << line;
      }
    }
  }
}

TEST(WatchPage, ShowsTheRun) {
  const RunHistory run = run_of(50);
  std::string text;
  for (const std::string& line : watch_page({&run}, {.axis = WatchAxis::samples, .now_s = kBegin_s + 51.0}))
    text += line + "\n";
  for (const char* part : {"a: running, step 50 of 100, 50.0 s left  (gpt on 2 ranks)", "loss 1.0800  8 samples/s",
                           "step 1.00 s  forward 25 %  dp 50 %  rest 25 %", "memory  resident 286 MiB", "start: gpt on 2 ranks",
                           "evaluation/accuracy", "400\n"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
}

std::string page_text(const RunHistory& run, int width = 80) {
  std::string text;
  for (const std::string& line : watch_page({&run}, {.width = width, .now_s = kBegin_s + 51.0})) text += line + "\n";
  return text;
}

TEST(WatchPage, SaysWhatIsMissing) {
  struct Case {
    const char* lines;
    std::vector<const char*> says;
  };
  for (const auto& [lines, says] :
       {Case{"", {"no steps yet", "no values yet"}},
        Case{"{\"step\":1,\"time\":1764583201,\"loss\":null}\n", {"loss not finite", "no finite values"}},
        Case{"damaged\n{\n{\"step\":1,\"time\":1764583201,\"loss\":1}\n{\"st",
             {"step 1, 2 damaged lines left out", "loss 1.0000"}}}) {
    RunHistory run{.path = "runs/a"};
    run.reader.add(lines);
    run.events.push_back({.kind = "start", .step = 0, .time_s = kBegin_s, .text = "gpt"});
    for (const char* part : says) EXPECT_NE(page_text(run).find(part), std::string::npos) << part << " in\n" << page_text(run);
  }
}

TEST(WatchPage, HasOneSmallChartInANarrowTerminal) {
  const RunHistory run = run_of(50);
  EXPECT_NE(page_text(run).find("samples_per_s"), std::string::npos);
  EXPECT_EQ(page_text(run, 40).find("samples_per_s"), std::string::npos) << page_text(run, 40);
  EXPECT_NE(page_text(run, 40).find("\nevaluation/accuracy"), std::string::npos) << page_text(run, 40);
}

TEST(CompareRuns, TakesRunsWithoutRecordsOrNumbers) {
  const RunHistory a = run_of(10), none = run_of(0, 1.0, {{"recipe.optimizer.lr", "0.3"}});
  RunHistory nan = run_of(0, 1.0, {{"recipe.optimizer.lr", "0.5"}});
  nan.reader.add("{\"step\":1,\"time\":1,\"loss\":null}\n");
  const std::string some = comparison_text({&a, &none, &nan}, kBegin_s), neither = comparison_text({&none, &nan}, kBegin_s);
  EXPECT_NE(some.find("  80       1.4000       -       -\n"), std::string::npos) << some;
  EXPECT_EQ(neither.find("loss at equal samples"), std::string::npos) << neither;
  EXPECT_NE(neither.find("  steps       -       1\n"), std::string::npos) << neither;
}

TEST(TextTable, AlignsCharacters) {
  EXPECT_EQ(text_table({{"", "a", "b"}, {"\u00e4\u00f6", "1"}, {"c", "22", "333"}}, "  "),
            "       a    b\n"
            "  \u00e4\u00f6   1\n"
            "  c   22  333\n");
}

}  // namespace
}  // namespace weft::run_history_test
