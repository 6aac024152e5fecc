// Progress: the text a person sees, at every width and pace, without a terminal; and the summary's JSON.
#include "weft/report/progress.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "weft/report/loss_trend.h"
#include "weft/report/summary.h"

namespace weft {
namespace {

StepReport report(int64_t step, int64_t steps) {
  return {.step = step,
          .steps = steps,
          .loss = 2.34567,
          .lr = 3e-4,
          .samples_per_s = 12'345,
          .tokens_per_s = 0,
          .seconds_left = 83};
}

FinalReport final_report() {
  FinalReport r;
  r.model = "cnn";
  r.parameters = 3'300'000;
  r.world = 2;
  r.layout = {{"dp", 2}, {"micro_batch", 32}};
  r.backend = "shm";
  r.steps = 2000;
  r.loss = 0.2512;
  r.evaluation = EvaluationReport{.step = 2000, .steps = 2000, .loss = 0.2712, .accuracy = 0.9123, .seconds = 1.5};
  r.seconds = 125;
  r.samples_per_s = 12'345;
  r.first_step_s = 0.5;
  r.step_ms_p50 = 5;
  r.step_ms_p95 = 7;
  r.communication_share = 0.034;
  r.step_communication_share = 0.07;
  r.peak_rss_mb = {195.4, 201.2};
  r.traffic_bytes = {1 << 20, 1 << 20};
  r.user = "ann";
  r.hosts = {"a", "b"};
  r.core_hours = 12.5;
  r.weights_sha256 = "abc";
  return r;
}

TEST(FinalTable, ShowsThePredictionBesideTheMeasurement) {
  FinalReport r = final_report();
  EXPECT_EQ(final_table(r).find("predicted"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(summary_json(r)).at("predicted"), nullptr);
  r.predicted = StepPrediction{.hardware = "h", .step_s = 4.5e-3, .memory_mb = 210.0};
  EXPECT_NE(final_table(r).find("  step           5.00 ms, predicted 4.50 ms (-10 %)\n"), std::string::npos) << final_table(r);
  EXPECT_NE(final_table(r).find("195 to 201 MB per rank, predicted 210 MB (+4 %)\n"), std::string::npos) << final_table(r);
  r.peak_device_mb = {100.0};
  EXPECT_NE(final_table(r).find("100 MB per rank, predicted 210 MB (+110 %)\n"), std::string::npos) << "of the device";
  EXPECT_NE(final_table(r).find("peak on host   195 to 201 MB per rank\n"), std::string::npos) << final_table(r);
  EXPECT_EQ(nlohmann::json::parse(summary_json(r)).at("predicted").at("step_ms"), 4.5);
}

TEST(FinalTable, ShowsWaitsAndTheRateUsed) {
  FinalReport r = final_report();
  EXPECT_EQ(final_table(r).find("waited for it"), std::string::npos);
  EXPECT_EQ(final_table(r).find("learning rate"), std::string::npos);
  r.data_wait_share = 0.04;
  EXPECT_NE(final_table(r).find("steps waited for it 4.0 % of the time\n"), std::string::npos) << final_table(r);
  r.data_wait_share = 0.25;
  EXPECT_NE(final_table(r).find("25.0 % of the time; more data.workers may help"), std::string::npos) << final_table(r);
  EXPECT_EQ(final_table(r).find("skipped data"), std::string::npos);
  r.skipped_data = {"a.jpg"};
  EXPECT_NE(final_table(r).find("  skipped data   1 that is bad: a.jpg\n"), std::string::npos) << final_table(r);
  r.skipped_data = {"a", "b\n", "c", "d", "e", "f", "g"};
  EXPECT_NE(final_table(r).find("7 that are bad: a; b\\n; c; d; e; and 2 more\n"), std::string::npos) << final_table(r);
  EXPECT_NE(summary_json(r).find("\"count\": 7"), std::string::npos) << summary_json(r);
  r.skipped_more = 1000;
  EXPECT_NE(final_table(r).find("1007 that are bad: a; b\\n; c; d; e; and 1002 more\n"), std::string::npos) << final_table(r);
  EXPECT_NE(summary_json(r).find("\"count\": 1007"), std::string::npos) << summary_json(r);
  r.learning_rate = r.largest_rate = 0.8;
  r.learning_rate_rule = "0.1 x 2048 / 256 (linear)";
  EXPECT_NE(final_table(r).find("0.8 at its peak: 0.1 x 2048 / 256 (linear)\n"), std::string::npos) << final_table(r);
  r.largest_rate = 0.3;
  EXPECT_NE(final_table(r).find("(linear); no step exceeded 0.3\n"), std::string::npos) << final_table(r);
}

TEST(FinalTable, ShowsTheCriticalBatch) {
  FinalReport r = final_report();
  EXPECT_EQ(final_table(r).find("critical batch"), std::string::npos);
  EXPECT_TRUE(nlohmann::json::parse(summary_json(r)).at("noise_scale").is_null());
  r.noise_scale = NoiseEstimate{.steps = 300, .gradient = 2.0, .trace = 2480.0, .batch = 1240.0, .spread = 80.0};
  EXPECT_NE(final_table(r).find("  critical batch 1.24 k +- 80 samples, from the gradient noise scale over 300 steps\n"),
            std::string::npos)
      << final_table(r);
  const nlohmann::json reported = nlohmann::json::parse(summary_json(r)).at("noise_scale");
  EXPECT_EQ(reported.at("critical_batch"), 1240.0);
  EXPECT_EQ(reported.at("variance"), 2480.0);
  r.noise_scale = NoiseEstimate{.steps = 3, .gradient = -0.5, .trace = 7.0};
  EXPECT_NE(final_table(r).find("  critical batch unknown after 3 steps: their gradients were all noise"), std::string::npos)
      << final_table(r);
  EXPECT_TRUE(nlohmann::json::parse(summary_json(r)).at("noise_scale").at("critical_batch").is_null());
}

TEST(FinalTable, ShowsWhetherTheTargetWasReached) {
  FinalReport r = final_report();
  EXPECT_EQ(final_table(r).find("target"), std::string::npos);
  EXPECT_TRUE(nlohmann::json::parse(summary_json(r)).at("target").is_null());
  r.target = "accuracy >= 0.9";
  r.steps_done = 420;
  r.target_step = 420;
  EXPECT_NE(final_table(r).find("target         accuracy >= 0.9: reached after step 420\n"), std::string::npos)
      << final_table(r);
  EXPECT_NE(final_table(r).find("(420 of 2000 steps)"), std::string::npos) << final_table(r);
  EXPECT_EQ(nlohmann::json::parse(summary_json(r)).at("target"), nlohmann::json({{"asked", "accuracy >= 0.9"}, {"step", 420}}));
  r.target_step.reset();
  r.steps_done = 2000;
  EXPECT_NE(final_table(r).find(">= 0.9: not reached in 2000 steps\n"), std::string::npos) << final_table(r);
  EXPECT_TRUE(nlohmann::json::parse(summary_json(r)).at("target").at("step").is_null());
}

TEST(ProgressBar, ShowsEverythingWhereThereIsRoom) {
  EXPECT_EQ(progress_bar(report(500, 2000), 110),
            " 500/2000  [==========>                             ]  loss 2.3457  12.3 k samples/s  lr 0.0003  83 s left");
}

TEST(ProgressBar, FitsEveryWidthAndKeepsTheCounterLongest) {
  for (int width = 1; width < 200; ++width) {
    const std::string line = progress_bar(report(500, 2000), width);
    EXPECT_LT(line.size(), static_cast<size_t>(std::max(width, 2))) << width;
    EXPECT_EQ(line.substr(0, 9), std::string(" 500/2000").substr(0, std::max(width - 1, 1))) << width;
    EXPECT_EQ(line.find("loss 2.3457") != std::string::npos, width > 22) << width;
  }
  EXPECT_EQ(progress_bar(report(500, 2000), 24), " 500/2000  loss 2.3457");
  EXPECT_NE(progress_bar(report(500, 2000), 80).find('['), std::string::npos);
}

TEST(ProgressBar, IsEmptyAtTheStartAndFullAtTheEnd) {
  EXPECT_NE(progress_bar(report(1, 2000), 110).find("[>   "), std::string::npos);
  EXPECT_NE(progress_bar(report(2000, 2000), 110).find("==]"), std::string::npos);
  EXPECT_EQ(progress_bar(report(1, 0), 110).find("nan"), std::string::npos);
}

TEST(ProgressBar, TokensAndUnknownTime) {
  StepReport r = report(3, 10);
  r.tokens_per_s = 4400;
  r.seconds_left = -1;
  const std::string line = progress_bar(r, 120);
  EXPECT_NE(line.find("4.40 k tokens/s"), std::string::npos) << line;
  EXPECT_EQ(line.find("left"), std::string::npos) << line;
  r.seconds_left = 0.4;
  EXPECT_NE(progress_bar(r, 120).find("  1 s left"), std::string::npos) << progress_bar(r, 120);
  r.seconds_left = 4.2;
  EXPECT_NE(progress_bar(r, 120).find("  5 s left"), std::string::npos) << progress_bar(r, 120);
  r.seconds_left = 130;
  EXPECT_NE(progress_bar(r, 120).find("  2 min 10 s left"), std::string::npos) << progress_bar(r, 120);
  r.step = r.steps;
  EXPECT_EQ(progress_bar(r, 120).find("left"), std::string::npos) << "done";
}

TEST(Progress, TerminalIsRedrawnInPlaceAtMostTenTimesASecondBelowTheHistory) {
  Progress progress({.terminal = true});
  int redraws = 0, lines = 0;
  for (int step = 1; step <= 1000; ++step) {
    const std::string text = progress.step(report(step, 1000), step * 0.001, 80);
    if (text.empty()) continue;
    EXPECT_EQ(text.front(), '\r');
    EXPECT_EQ(text.substr(text.size() - 3), "\x1b[K");
    if (text.find('\n') == std::string::npos) {
      ++redraws;
    } else {
      ++lines;
      EXPECT_TRUE(step == 1 || step % 50 == 0) << step;
      EXPECT_EQ(text.substr(1, 4), "step") << "stays above what is redrawn";
    }
  }
  EXPECT_LE(redraws, 12);
  EXPECT_EQ(lines, 21);
}

TEST(Progress, LastStepIsAlwaysDrawn) {
  for (const bool terminal : {true, false}) {
    Progress progress({.terminal = terminal});
    EXPECT_NE(progress.step(report(1, 2), 0.0, 80), "");
    EXPECT_NE(progress.step(report(2, 2), 0.0001, 80).find("2/2"), std::string::npos);
  }
}

TEST(Progress, EvaluationStandsAboveTheBar) {
  Progress progress({.terminal = true});
  progress.step(report(200, 2000), 0.0, 80);
  const std::string text = progress.evaluation({.step = 200, .steps = 2000, .loss = 0.5, .accuracy = 0.8123, .seconds = 2}, 80);
  EXPECT_EQ(text.rfind("\revaluation after step 200: loss 0.5000  accuracy 81.23 %  (2.00 s)\x1b[K\n\r", 0), 0u) << text;
  EXPECT_NE(text.find(" 200/2000"), std::string::npos);
}

TEST(Progress, LinesComeAfterRoundNumbersOfSteps) {
  Progress progress({.terminal = false});
  std::vector<int> steps;
  for (int step = 1; step <= 2400; ++step) {
    if (!progress.step(report(step, 2400), step * 0.02, 80).empty()) steps.push_back(step);
  }
  ASSERT_EQ(steps.size(), 25u);
  EXPECT_EQ(steps[0], 1);
  for (size_t i = 1; i < steps.size(); ++i) EXPECT_EQ(steps[i], 100 * static_cast<int>(i));
}

TEST(Progress, LogHasPlainLinesAtSensibleIntervals) {
  struct Case {
    const char* what;
    int steps;
    double step_s;
    int least, most;
  };
  const Case cases[] = {{"many fast steps", 10'000, 0.001, 20, 22},
                        {"a few slow steps", 10, 40.0, 10, 10},
                        {"an ordinary run", 2000, 0.05, 20, 22},
                        {"a long run", 1000, 10.0, 500, 502},
                        {"a long run of quick steps", 1'000'000, 0.05, 2000, 2002},
                        {"over before one looks", 100, 0.0001, 20, 22}};
  for (const Case& c : cases) {
    Progress progress({.terminal = false});
    int lines = 0;
    for (int step = 1; step <= c.steps; ++step) {
      const std::string text = progress.step(report(step, c.steps), step * c.step_s, 80);
      if (text.empty()) continue;
      ++lines;
      EXPECT_EQ(text.find_first_of("\r\x1b"), std::string::npos);
      EXPECT_EQ(text.find('\n'), text.size() - 1);
    }
    EXPECT_GE(lines, c.least) << c.what;
    EXPECT_LE(lines, c.most) << c.what;
  }
}

TEST(Progress, LineAndEndOfLine) {
  StepReport one = report(5, 20);
  EXPECT_EQ(progress_line(one), "step  5/20  loss 2.3457  12.3 k samples/s  lr 0.0003  83 s left");
  one.norm = 0.81234;
  EXPECT_EQ(progress_line(one), "step  5/20  loss 2.3457  norm 0.812  12.3 k samples/s  lr 0.0003  83 s left");
  one.seconds_left = 130;
  one.steps = 200'000;
  EXPECT_EQ(progress_line(one), "step      5/200000  loss 2.3457  norm 0.812  12.3 k samples/s  lr 0.0003") << "80 columns";
  one.samples_per_s = 3.27;
  EXPECT_NE(progress_line(one).find("  3.27 samples/s"), std::string::npos) << progress_line(one);
  one.loss = 26964664;
  EXPECT_NE(progress_line(one).find("loss 2.696e+07"), std::string::npos) << progress_line(one);
  EXPECT_EQ(evaluation_line({.step = 5, .steps = 20, .loss = 1.5, .accuracy = {}, .seconds = 0.25}),
            "evaluation after step 5: loss 1.5000  (250 ms)");
  EXPECT_EQ(
      evaluation_line({.set = "night", .step = 5, .steps = 20, .loss = 1.5, .accuracy = 0.5, .top5 = 0.875, .seconds = 0.25}),
      "evaluation of night after step 5: loss 1.5000  accuracy 50.00 %  top-5 87.50 %  (250 ms)");
  EXPECT_EQ(evaluation_line({.step = 5, .steps = 20, .loss = 1.5, .perplexity = 4.481689, .seconds = 0.25}),
            "evaluation after step 5: loss 1.5000  perplexity 4.482  (250 ms)");
  EXPECT_EQ(evaluation_line({.step = 5, .loss = 1.5, .seconds = 0.25, .averaged = true}),
            "evaluation of the average after step 5: loss 1.5000  (250 ms)");
  EXPECT_EQ(evaluation_line({.set = "night", .step = 5, .loss = 1.5, .seconds = 0.25, .averaged = true}),
            "evaluation of the average on night after step 5: loss 1.5000  (250 ms)");
  Progress terminal({.terminal = true}), log({.terminal = false});
  EXPECT_EQ(terminal.end_line(), "") << "nothing drawn yet";
  terminal.step(report(1, 2), 0, 80);
  log.step(report(1, 2), 0, 80);
  EXPECT_EQ(terminal.end_line(), "\n");
  EXPECT_EQ(terminal.end_line(), "");
  EXPECT_EQ(log.end_line(), "");
}

TEST(FinalTable, HoldsTimeRateLossAccuracyMemoryAndCommunication) {
  EXPECT_EQ(final_table(final_report()),
            "  model          cnn, 3.30 M parameters, 2 ranks with 1 thread each\n"
            "  time           2 min 05 s (2000 steps)\n"
            "  rate           12.3 k samples/s\n"
            "  loss           0.2512\n"
            "  evaluation     loss 0.2712\n"
            "  accuracy       91.23 %\n"
            "  peak memory    195 to 201 MB per rank\n"
            "  communication  3.4 % of the time, 1.00 MiB per rank over shm\n");
}

TEST(FinalTable, WarnsOfALossThatHasGoneUpTenfold) {
  FinalReport r = final_report();
  r.least_loss = 2.3;
  r.late_loss = 22.9;
  EXPECT_EQ(final_table(r).find("warning"), std::string::npos);
  r.late_loss = 23.0;
  EXPECT_NE(final_table(r).find("\nwarning: the loss has risen from 2.3 to 23: this training diverges.\n"), std::string::npos)
      << final_table(r);
}

TEST(LossTrend, MeansOverATenthOfTheSteps) {
  LossTrend few(6), many(1000);
  for (const double loss : {2.0, 0.5, 30.0}) few.add(loss);
  EXPECT_EQ(few.least(), 0.5);
  EXPECT_EQ(few.late(), 30.0);
  for (int step = 0; step < 1000; ++step) many.add(step == 500 ? 0.001 : step == 999 ? 100.0 : 2.0);
  EXPECT_NEAR(many.least(), 1.9, 0.01) << "one batch alone is no least";
  EXPECT_NEAR(many.late(), 6.9, 0.01) << "nor a last";
}

TEST(FinalTable, ShowsEveryEvaluationAndTheBest) {
  FinalReport r = final_report();
  r.evaluation->top5 = 0.995;
  r.best = {.loss = BestValue{0.25, 900}, .accuracy = BestValue{0.9223, 1200}};
  r.other_evaluations = {{.set = "night", .loss = 0.5, .accuracy = 0.75}};
  EXPECT_NE(final_table(r).find("  accuracy       91.23 %\n"
                                "  top-5          99.50 %\n"
                                "  best           accuracy 92.23 % after step 1200\n"
                                "  night          loss 0.5000  accuracy 75.00 %\n"),
            std::string::npos)
      << final_table(r);
  r.evaluation->averaged = true;
  r.other_evaluations = {{.set = "night", .loss = 0.5, .averaged = true}, {.loss = 0.6}, {.set = "night", .loss = 0.7}};
  EXPECT_NE(final_table(r).find("  evaluation     loss 0.2712  (of the average of the weights)\n"), std::string::npos)
      << final_table(r);
  EXPECT_NE(final_table(r).find("  night          loss 0.5000\n"
                                "  not averaged   loss 0.6000\n"
                                "  night, not averaged loss 0.7000\n"),
            std::string::npos)
      << final_table(r);
  r.evaluation->perplexity = 1.3115;
  EXPECT_NE(final_table(r).find("  perplexity     1.312\n"), std::string::npos) << final_table(r);
  EXPECT_NE(final_table(r).find("  best           loss 0.2500 after step 900\n"), std::string::npos) << final_table(r);
}

TEST(BestEvaluation, IsTheFirstThatHadIt) {
  BestEvaluation best;
  const double losses[] = {0.5, 0.3, 0.4, 0.3}, shares[] = {0.1, 0.1, 0.6, 0.2};
  for (int i = 0; i < 4; ++i) best.add({.step = i, .loss = losses[i], .accuracy = shares[i]});
  EXPECT_EQ(best.loss->step, 1);
  EXPECT_EQ(best.loss->value, 0.3);
  EXPECT_EQ(best.accuracy->step, 2);
  EXPECT_EQ(best.accuracy->value, 0.6);
}

TEST(FinalTable, OneRankWithoutEvaluation) {
  FinalReport r = final_report();
  r.world = 1;
  r.evaluation.reset();
  r.peak_rss_mb = {195.4};
  const std::string table = final_table(r);
  EXPECT_NE(table.find("1 rank with 1 thread each"), std::string::npos) << table;
  EXPECT_NE(table.find("195 MB per rank"), std::string::npos) << table;
  EXPECT_NE(table.find("none (one rank)"), std::string::npos) << table;
  EXPECT_EQ(table.find("evaluation"), std::string::npos) << table;
}

TEST(FinalTable, OfGpusNamesTheirMemoryBesideTheHosts) {
  FinalReport r = final_report();
  EXPECT_NE(final_table(r).find("  peak memory    195 to 201 MB per rank\n"), std::string::npos) << final_table(r);
  r.peak_device_mb = {1042.0, 1042.0};
  const std::string table = final_table(r);
  EXPECT_NE(table.find("  peak on device 1042 MB per rank\n  peak on host   195 to 201 MB per rank\n"), std::string::npos)
      << table;
  EXPECT_EQ(nlohmann::json::parse(summary_json(r)).at("peak_device_mb").size(), 2u);
}

TEST(Summary, HasEveryKeyAndSurvivesNumbersThatAreNone) {
  FinalReport r = final_report();
  r.loss = std::nan("");
  r.best.loss = BestValue{0.25, 900};
  r.other_evaluations = {{.set = "night", .loss = 0.5, .top5 = 0.75}};
  const std::string text = summary_json(r);
  EXPECT_EQ(text.back(), '\n');
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json.at("model"), "cnn");
  EXPECT_EQ(json.at("parameters"), 3'300'000);
  EXPECT_EQ(json.at("world"), 2);
  EXPECT_EQ(json.at("layout").at("dp"), 2);
  EXPECT_EQ(json.at("threads_per_rank"), 1);
  EXPECT_EQ(json.at("steps"), 2000);
  EXPECT_TRUE(json.at("loss").is_null());
  EXPECT_DOUBLE_EQ(json.at("evaluation").at("loss"), 0.2712);
  EXPECT_DOUBLE_EQ(json.at("evaluation").at("accuracy"), 0.9123);
  EXPECT_TRUE(json.at("evaluation").at("perplexity").is_null());
  EXPECT_EQ(json.at("best").at("loss").at("step"), 900);
  EXPECT_TRUE(json.at("best").at("accuracy").is_null());
  EXPECT_DOUBLE_EQ(json.at("other_evaluations").at("night").at("top5"), 0.75);
  EXPECT_DOUBLE_EQ(json.at("samples_per_s"), 12'345);
  EXPECT_DOUBLE_EQ(json.at("tokens_per_s"), 0);
  EXPECT_DOUBLE_EQ(json.at("first_step_s"), 0.5);
  EXPECT_DOUBLE_EQ(json.at("step_ms").at("p50"), 5);
  EXPECT_DOUBLE_EQ(json.at("step_ms").at("p95"), 7);
  EXPECT_DOUBLE_EQ(json.at("step_communication_share"), 0.07);
  EXPECT_EQ(json.at("peak_rss_mb").size(), 2u);
  EXPECT_EQ(json.at("traffic_bytes").size(), 2u);
  EXPECT_EQ(json.at("weights_sha256"), "abc");
  EXPECT_TRUE(json.at("job").is_null());
  EXPECT_EQ(json.at("user"), "ann");
  EXPECT_EQ(json.at("hosts"), (nlohmann::json{"a", "b"}));
  EXPECT_DOUBLE_EQ(json.at("core_hours"), 12.5);
  EXPECT_TRUE(json.at("average_sha256").is_null());
  EXPECT_FALSE(json.at("evaluation").at("averaged"));
  r.average_sha256 = "def";
  r.evaluation->averaged = true;
  const auto averaged = nlohmann::json::parse(summary_json(r));
  EXPECT_EQ(averaged.at("average_sha256"), "def");
  EXPECT_TRUE(averaged.at("evaluation").at("averaged"));
  EXPECT_DOUBLE_EQ(averaged.at("other_evaluations").at("night, not averaged").at("loss"), 0.5);
  r.evaluation.reset();
  EXPECT_TRUE(nlohmann::json::parse(summary_json(r)).at("evaluation").is_null());
}

}  // namespace
}  // namespace weft
