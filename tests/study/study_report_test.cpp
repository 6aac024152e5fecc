// A study's report from given summaries: outcomes, the best of each batch, table, JSON, chart.
#include "weft/study/study_report.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/data/temp_folder.h"
#include "weft/base/error.h"
#include "weft/report/summary.h"

namespace weft::study_report_test {
namespace {

StudyPoint point(const std::string& optimizer, int64_t batch, double rate, int64_t every = 1) {
  return {.optimizer = optimizer, .batch = batch, .rate = rate, .steps = 1000, .evaluate_every = every};
}

/// A summary as a run would write it.
std::string summary(int64_t steps_done, std::optional<int64_t> target_step, double loss, double accuracy,
                    bool stopped = false) {
  FinalReport report;
  report.steps = 1000;
  report.steps_done = steps_done;
  report.target = "accuracy >= 0.9";
  report.target_step = target_step;
  report.learning_rate = 0.4;
  report.seconds = 12;
  report.stopped = stopped;
  report.evaluation = EvaluationReport{.step = steps_done, .steps = 1000, .loss = loss, .accuracy = accuracy, .seconds = 1};
  return summary_json(report);
}

PointResult result(const StudyPoint& of, const std::string& text) { return parse_point(of, text, "p.json"); }

Study study() {
  Study study{.recipe = "r.toml", .target = "accuracy >= 0.9", .ranks = 2};
  study.results = {result(point("sgd", 32, 0.1, 100), summary(800, 800, 0.3, 0.9)),
                   result(point("sgd", 32, 0.2, 100), summary(600, 600, 0.3, 0.9)),
                   result(point("sgd", 32, 0.4, 100), summary(100, std::nullopt, NAN, 0.1)),
                   result(point("lars", 32, 0.1, 100), summary(1000, std::nullopt, 0.5, 0.8)),
                   result(point("lars", 32, 0.2, 100), summary(1000, std::nullopt, 0.4, 0.85)),
                   result(point("sgd", 64, 0.1, 50), summary(400, 400, 0.3, 0.91)),
                   result(point("sgd", 64, 0.2, 50), summary(400, 400, 0.2, 0.91)),
                   result(point("lars", 64, 0.1, 50), summary(500, 500, 0.3, 0.9)),
                   {.point = point("lars", 64, 0.2, 50), .outcome = PointOutcome::failed, .reason = "out of memory"},
                   {.point = point("sgd", 128, 0.1)},
                   {.point = point("lars", 128, 0.1)}};
  return study;
}

TEST(StudyResult, SaysWhatBecameOfAPoint) {
  const StudyPoint of = point("sgd", 32, 0.1, 100);
  const PointResult reached = result(of, summary(600, 600, 0.3, 0.9));
  EXPECT_EQ(reached.outcome, PointOutcome::reached);
  EXPECT_EQ(reached.steps, 600);
  EXPECT_EQ(reached.samples(), 600 * 32);
  EXPECT_EQ(reached.least_steps(), 501);
  EXPECT_EQ(reached.learning_rate, 0.4);
  EXPECT_EQ(outcome_text(reached), "reached after 600 steps (19.2 k samples), 12.0 s");
  EXPECT_EQ(result(point("sgd", 32, 0.1, 1), summary(600, 600, 0.3, 0.9)).least_steps(), 600);
  EXPECT_EQ(result(of, summary(1000, 1000, 0.3, 0.9)).least_steps(), 901) << "the last evaluation, of 1000 steps";
  EXPECT_EQ(outcome_text(result(of, summary(1000, std::nullopt, 0.5, 0.8))), "not reached in 1000 steps, 12.0 s");
  EXPECT_EQ(outcome_text(result(of, summary(100, std::nullopt, NAN, 0.1))), "diverged");
  EXPECT_EQ(outcome_text(result(of, diverged_summary("the \"loss\" is nan"))), "diverged: the \"loss\" is nan");
  EXPECT_EQ(outcome_text(result(of, summary(300, std::nullopt, 0.5, 0.8, true))), "not run") << "it was cut off";
  for (const char* text : {"", "{}", "no JSON", "[1]"}) EXPECT_THROW(result(of, text), InputError) << text;
}

TEST(StudyResult, IsReadFromItsFolder) {
  const test::TempFolder folder;
  const StudyPoint of = point("sgd", 32, 0.1);
  EXPECT_EQ(read_point(of, folder.path().string()).outcome, PointOutcome::missing);
  folder.write("sgd-b32-lr0.1.json", summary(600, 600, 0.3, 0.9));
  EXPECT_EQ(read_point(of, folder.path().string()).outcome, PointOutcome::reached);
}

TEST(StudyResult, TheBestReachedTheTargetFirstOrCameNearest) {
  const Study all = study();
  const auto rate = [&](const char* optimizer, int64_t batch) {
    const PointResult* best = best_of(all.results, optimizer, batch, TargetMetric::accuracy);
    return best == nullptr ? 0.0 : best->point.rate;
  };
  EXPECT_EQ(rate("sgd", 32), 0.2) << "fewest steps";
  EXPECT_EQ(rate("sgd", 64), 0.2) << "as many steps, less loss";
  EXPECT_EQ(rate("lars", 32), 0.2) << "nearest";
  EXPECT_EQ(rate("lars", 64), 0.1) << "the other failed";
  EXPECT_EQ(rate("sgd", 128), 0.0) << "not run";
}

TEST(StudyResult, TheNearestIsSoByWhatTheTargetIsAbout) {
  const std::vector<PointResult> results = {result(point("sgd", 32, 0.1), summary(1000, std::nullopt, 0.5, 0.8)),
                                            result(point("sgd", 32, 0.2), summary(1000, std::nullopt, 0.6, 0.85))};
  EXPECT_EQ(best_of(results, "sgd", 32, TargetMetric::accuracy)->point.rate, 0.2);
  EXPECT_EQ(best_of(results, "sgd", 32, TargetMetric::loss)->point.rate, 0.1);
}

TEST(StudyReport, TableHasARowForEachBatchAndOptimizer) {
  EXPECT_EQ(study_table(study()), R"(r.toml: steps to accuracy >= 0.9, the best of each batch's rates
    batch  optimizer  rate            steps to target    samples   accuracy      loss  rates
       32  sgd        0.2 (0.4)            501 to 600     19.2 k    90.00 %    0.3000  2 reached, 1 diverged
       32  lars       0.2 (0.4)           not in 1000          -    85.00 %    0.4000  2 not reached
       64  sgd        0.2 (0.4)            351 to 400     25.6 k    91.00 %    0.2000  2 reached
       64  lars       0.1 (0.4)            451 to 500     32.0 k    90.00 %    0.3000  1 reached, 1 failed
      128  sgd        -                             -          -          -         -  1 not run
      128  lars       -                             -          -          -         -  1 not run
"a to b": the evaluation after b steps reached the target; the one after a - 1 did not.
sgd: at batch 64 the best rate is the largest that was tried; a larger one may be better
lars: at batch 64 the best rate is the least that was tried; a smaller one may be better
lars: at batch 32 the best rate is the largest that was tried; a larger one may be better
)");
}

TEST(StudyReport, JsonHasEveryPoint) {
  const auto json = nlohmann::json::parse(study_json(study()));
  EXPECT_EQ(json.at("target"), "accuracy >= 0.9");
  EXPECT_EQ(json.at("ranks"), 2);
  const auto& sgd = json.at("series").at(0);
  EXPECT_EQ(sgd.at("optimizer"), "sgd");
  const auto& row = sgd.at("rows").at(0);
  EXPECT_EQ(row.at("batch"), 32);
  EXPECT_EQ(row.at("best").at("lr"), 0.2);
  EXPECT_EQ(row.at("best").at("steps_to_target"), 600);
  EXPECT_EQ(row.at("best").at("steps_to_target_at_least"), 501);
  EXPECT_EQ(row.at("best").at("samples_to_target"), 19200);
  EXPECT_EQ(row.at("points").size(), 3u);
  EXPECT_EQ(row.at("points").at(2).at("outcome"), "diverged");
  EXPECT_TRUE(row.at("points").at(2).at("loss").is_null());
  EXPECT_TRUE(sgd.at("rows").at(2).at("best").is_null());
  const auto& failed = json.at("series").at(1).at("rows").at(1).at("points").at(1);
  EXPECT_EQ(failed.at("outcome"), "failed");
  EXPECT_EQ(failed.at("reason"), "out of memory");
  EXPECT_TRUE(failed.at("steps_to_target").is_null());
}

TEST(StudyReport, PictureHasALineAndPerfectScalingForEachOptimizer) {
  const std::string svg = study_chart(study());
  for (const char* words : {"Steps to accuracy &gt;= 0.9", "r.toml, 2 ranks", ">sgd<", ">perfect scaling, sgd<", ">lars<",
                            ">perfect scaling, lars<", ">not reached within these steps<", ">steps to target<"}) {
    EXPECT_NE(svg.find(words), std::string::npos) << words;
  }
  Study none = study();
  for (PointResult& one : none.results) one.outcome = PointOutcome::diverged;
  EXPECT_EQ(study_chart(none), "");
}

}  // namespace
}  // namespace weft::study_report_test
