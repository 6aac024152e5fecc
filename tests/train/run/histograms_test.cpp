// Histograms of weights and gradients: the same in every layout, of what the step has left, and no bit of the training changes.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/data/temp_folder.h"
#include "tests/support/refusal.h"
#include "tests/train/jobs.h"
#include "tests/train/run/train_on_ranks.h"
#include "tests/train/weights_of.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/report/records/float_counts.h"
#include "weft/train/trainer/parameter_histograms.h"

namespace weft::histograms_test {
namespace {

/// "2 gradients/NAME" and the numbers of its histogram.
using Histograms = std::map<std::string, std::vector<double>>;

std::vector<double> numbers_of(const ValueHistogram& values) {
  std::vector<double> all = {values.min, values.max, values.count, values.sum, values.squares};
  all.insert(all.end(), values.limits.begin(), values.limits.end());
  all.insert(all.end(), values.counts.begin(), values.counts.end());
  return all;
}

struct Case {
  const char* name;
  int ranks = 1;
  std::vector<std::string> overrides = {};
};

class RunsWithHistograms : public testing::Test {
 protected:
  RunsWithHistograms() : threads_(at::get_num_threads()) {
    std::string text;
    for (int i = 0; i < 200; ++i) text += fmt::format("line {} of a text that repeats itself\n", i);
    folder_.write("text", text);
  }
  ~RunsWithHistograms() override { at::set_num_threads(threads_); }

  Recipe recipe(const std::vector<std::string>& overrides) const {
    return parse_recipe(fmt::format(R"(
model = {{ name = "gpt", layers = 2, heads = 2, width = 32, context = 16, dropout = 0.1 }}
data = {{ name = "text", path = "{}" }}
batch = {{ global = 8, micro = 1 }}
optimizer = {{ name = "adamw", lr = 1e-3, clip = 0.5 }}
run = {{ steps = 5, evaluate_every = 2, threads = 1, reproducible_slots = 4, reproducible_tp = 2, folder = "{}", tensorboard = true }}
)",
                                    folder_.file("text"), folder_.file("run")),
                        "text.toml", overrides);
  }
  /// Trains with histograms every two steps.
  FinalReport run(const Case& c, Histograms& found) {
    std::vector<std::string> overrides = c.overrides;
    overrides.emplace_back("run.histograms_every=2");
    TrainOptions options;
    options.sinks = {[&](const Record& record) {
      if (const auto* one = std::get_if<HistogramRecord>(&record)) {
        found[fmt::format("{} {}", one->step, one->name)] = numbers_of(one->values);
      }
      if (const auto* step = std::get_if<StepRecord>(&record)) norms_[step->step] = *value_of(step->values, "grad_norm");
    }};
    return test::train_on_ranks(c.ranks, recipe(overrides), options);
  }

  test::TempFolder folder_;
  std::map<int64_t, double> norms_;
  int threads_;
};

class HistogramsOfRuns : public RunsWithHistograms, public testing::WithParamInterface<Case> {
 protected:
  struct Alone {
    std::string sha256;  ///< of the weights, without histograms
    Histograms histograms;
  };
  /// The same for all layouts.
  const Alone& alone() {
    static const Alone one = [this] {
      Alone result{.sha256 = test::train_on_ranks(1, recipe({})).weights_sha256, .histograms = {}};
      EXPECT_EQ(run({"alone"}, result.histograms).weights_sha256, result.sha256);
      return result;
    }();
    return one;
  }
};

TEST_P(HistogramsOfRuns, AreTheSameInEveryLayout) {
  const Alone& expected = alone();
  Histograms found;
  EXPECT_EQ(run(GetParam(), found).weights_sha256, expected.sha256);
  ASSERT_EQ(found.size(), expected.histograms.size());
  for (const auto& [name, numbers] : expected.histograms) EXPECT_EQ(found[name], numbers) << name;
}

INSTANTIATE_TEST_SUITE_P(Layouts, HistogramsOfRuns,
                         testing::Values(Case{"dp", 2, {"layout.dp=2"}}, Case{"dp4", 4, {"layout.dp=4"}},
                                         Case{"zero1", 4, {"layout.shard=4", "layout.shard_level=optimizer"}},
                                         Case{"zero2", 2, {"layout.shard=2", "layout.shard_level=gradients"}},
                                         Case{"zero3", 4, {"layout.shard=4", "layout.shard_level=parameters"}},
                                         Case{"hybrid", 4, {"layout.dp=2", "layout.shard=2", "layout.shard_level=parameters"}},
                                         Case{"offloaded",
                                              2,
                                              {"layout.shard=2", "layout.shard_level=parameters",
                                               "layout.offload_optimizer=host", "layout.offload_parameters=host"}},
                                         Case{"pp", 2, {"layout.pp=2", "layout.schedule=zb-h1"}},
                                         Case{"pp_zero2", 4, {"layout.pp=2", "layout.shard=2", "layout.shard_level=gradients"}},
                                         Case{"tp", 2, {"layout.tp=2"}},
                                         Case{
                                             "tp_zero3", 4, {"layout.tp=2", "layout.shard=2", "layout.shard_level=parameters"}},
                                         Case{"tp_pp", 4, {"layout.tp=2", "layout.pp=2"}}),
                         [](const auto& info) { return info.param.name; });

/// Every parameter's, after every second step; gradients before clipping, whose squares are the norm's.
TEST_F(RunsWithHistograms, AreOfAllParameters) {
  Histograms found;
  run({"alone"}, found);
  std::map<int64_t, double> squares, counts;
  for (const auto& [name, numbers] : found) {
    const int64_t step = std::stoll(name);
    EXPECT_TRUE(step == 2 || step == 4) << name;
    if (name.find(" gradients/") != std::string::npos) squares[step] += numbers[4];
    counts[step] += numbers[2];
  }
  for (const int64_t step : {2, 4}) {
    EXPECT_GT(norms_[step], 0.5) << "clipped";
    EXPECT_NEAR(std::sqrt(squares[step]), norms_[step], 1e-6 * norms_[step]);
    EXPECT_EQ(counts[step], counts[2]);
  }
}

/// Of what the step has left in memory.
TEST(ParameterHistograms, AreOfMasterWeights) {
  test::run_ranks(2, [](const World& world) {
    const Job& job = weft::job("cnn");
    Trainer trainer(Mesh(world, {{"dp", 2}}), job.model(), AdamW{.lr = 0.01},
                    {.global_batch = job.global_batch, .micro_batch = job.global_batch / 2, .histograms_every = 1});
    const int64_t share = job.global_batch / 2;
    trainer.step(slice(job.batch_of(0), world.rank() * share, share));
    const test::Weights weights = test::weights_of(trainer);
    Histograms found;
    parameter_histograms(trainer, [&](const std::string& name, const ValueHistogram& one) { found[name] = numbers_of(one); });
    for (const Param& param : trainer.model().params()) {
      EXPECT_EQ(found.contains("gradients/" + param.name), is_trained(param.group)) << param.name;
      if (!is_trained(param.group)) continue;
      const at::Tensor values = weights.at(param.name).contiguous();
      FloatCounts counts;
      counts.add(values.const_data_ptr<float>(), values.numel());
      EXPECT_EQ(found.at("weights/" + param.name), numbers_of(*counts.histogram())) << param.name;
    }
  });
}

TEST_F(RunsWithHistograms, NeedTensorBoard) {
  EXPECT_EQ(test::refusal([&] {
              recipe({"run.tensorboard=false", "run.histograms_every=3"});
            }),
            "text.toml: run.histograms_every is read only with run.tensorboard; set that too, or leave it out");
}

}  // namespace
}  // namespace weft::histograms_test
