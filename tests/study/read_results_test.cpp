// What studies wrote, read back; runs as measurements of scaling; their parts of a report.
#include "weft/study/read_results.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/report/records/record_text.h"
#include "weft/study/report_parts.h"

namespace weft::read_results_test {
namespace {

Study study() {
  Study study{.recipe = "r.toml", .target = "accuracy >= 0.9", .ranks = 2, .results = {}};
  const auto add = [&](const char* optimizer, int64_t batch, PointOutcome outcome, int64_t steps) {
    study.results.push_back(
        {.point = {.optimizer = optimizer, .batch = batch, .rate = 0.1, .steps = 1000, .evaluate_every = 50},
         .outcome = outcome,
         .steps = steps,
         .learning_rate = 0.4,
         .seconds = 12.0});
  };
  add("sgd", 32, PointOutcome::reached, 600);
  add("sgd", 64, PointOutcome::not_reached, 1000);
  add("lars", 32, PointOutcome::failed, 0);
  study.results[0].loss = 0.25;
  study.results[0].accuracy = 0.91;
  study.results[2].reason = "out of memory";
  return study;
}

ScaleStudy scaling() {
  ScaleStudy study{.recipe = "r.toml", .cores = 2, .threads = 1, .results = {}};
  for (const int ranks : {1, 2, 4}) {
    study.results.push_back({.point = {.mode = ScaleMode::weak, .layout = "dp", .ranks = ranks, .batch = 8 * ranks},
                             .samples_per_s = 80.0 * ranks,
                             .tokens_per_s = 800.0 * ranks,
                             .step_ms = 100,
                             .least_step_ms = 90,
                             .most_step_ms = 120,
                             .runs = 3,
                             .communication_share = 0.25,
                             .peak_rss_mb = 512});
  }
  study.results.push_back({.point = {.layout = "pp", .ranks = 2, .batch = 8}, .failure = "refused"});
  return study;
}

TEST(ReadResults, ComeBackAsTheyWere) {
  EXPECT_EQ(study_json(parse_study(study_json(study()), "s.json")), study_json(study()));
  EXPECT_EQ(study_table(parse_study(study_json(study()), "s.json")), study_table(study()));
  EXPECT_EQ(scale_json(parse_scale(scale_json(scaling()), "s.json")), scale_json(scaling()));
  EXPECT_EQ(scale_table(parse_scale(scale_json(scaling()), "s.json")), scale_table(scaling()));
  for (const char* text : {"", "[]", "{}", R"({"recipe":"r","target":"t","ranks":1,"series":[{}],"cores":1})"}) {
    EXPECT_THROW(parse_study(text, "s.json"), InputError) << text;
    EXPECT_THROW(parse_scale(text, "s.json"), InputError) << text;
  }
}

/// A run on so many ranks whose step takes `step_s`.
RunHistory run_of(int ranks, int64_t batch, double step_s, const std::string& lr = "0.1", const std::string& level = "none") {
  RunHistory run{.path = fmt::format("runs/on-{}", ranks)};
  run.events.push_back({.kind = "start",
                        .time_s = 1.0,
                        .details = {{"name", "a"},
                                    {"ranks", fmt::to_string(ranks)},
                                    {"layout.dp", fmt::to_string(ranks)},
                                    {"recipe", "r.toml"},
                                    {"layout.batch", fmt::to_string(batch)},
                                    {"recipe.batch.global", fmt::to_string(batch)},
                                    {"recipe.layout.shard_level", level},
                                    {"recipe.optimizer.lr", lr}}});
  for (int64_t step = 1; step <= 9; ++step) {
    run.reader.add(record_text(StepRecord{.step = step,
                                          .time_s = static_cast<double>(step),
                                          .values = {{"samples", static_cast<double>(step * batch)},
                                                     {"tokens", static_cast<double>(10 * step * batch)},
                                                     {"time/step", step < 3 ? 9.0 : step_s},
                                                     {"communication/dp", step_s / 4},
                                                     {"memory/resident", 3e8}}}) +
                   "\n");
  }
  return run;
}

TEST(ReadResults, RunsThatDifferInTheirRanksAreScaling) {
  const RunHistory one = run_of(1, 8, 1.0), two = run_of(2, 8, 0.5), again = run_of(2, 8, 1.0), more = run_of(4, 8, 0.5);
  const std::optional<ScaleStudy> study = scaling_of({&one, &two, &again, &more});
  ASSERT_TRUE(study);
  EXPECT_EQ(scale_table(*study).substr(0, scale_table(*study).find("strong:")),
            "       layout ranks   batch  tokens/s efficiency     step spread  comm.   memory\n"
            "strong dp         1       8        80    100.0 %   1.00 s      -   25 %   300 MB\n"
            "strong dp         2       8        80     50.0 %   1.00 s   50 %   25 %   300 MB\n"
            "strong dp         4       8       160     50.0 %   500 ms      -   25 %   300 MB\n");
  const RunHistory grown = run_of(2, 16, 1.0), odd = run_of(4, 12, 1.0), other = run_of(2, 8, 1.0, "0.2");
  ASSERT_TRUE(scaling_of({&one, &grown}));
  EXPECT_EQ(scaling_of({&one, &grown})->results.back().point.mode, ScaleMode::weak);
  EXPECT_FALSE(scaling_of({&one, &grown, &odd})) << "the batch neither stays nor grows with the ranks";
  EXPECT_FALSE(scaling_of({&one, &other})) << "another learning rate";
  const RunHistory sharded = run_of(2, 8, 1.0, "0.1", "parameters");
  EXPECT_FALSE(scaling_of({&one, &sharded})) << "another shard level";
  EXPECT_FALSE(scaling_of({&two, &again})) << "one number of ranks";
}

TEST(ReadResults, PartsHaveAChartAndItsTable) {
  const std::vector<ReportPart> parts = scale_parts(scaling(), "note");
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_NE(parts[0].svg.find("tokens per second"), std::string::npos);
  EXPECT_NE(parts[1].svg.find("Efficiency"), std::string::npos);
  EXPECT_EQ(parts[1].table.rows.size(), 4u);
  EXPECT_EQ(parts[1].table.rows[3].back(), "refused");
  EXPECT_EQ(study_part(study()).table.rows.size(), 4u) << "batches and optimizers";
  EXPECT_NE(study_part(study()).svg.find("perfect scaling"), std::string::npos);
  Study none = study();
  none.results.erase(none.results.begin());
  EXPECT_TRUE(study_part(none).svg.empty());
}

}  // namespace
}  // namespace weft::read_results_test
