// train(): whole runs from a recipe on data made here, alone and on threads as ranks.
#include "weft/train/run/train.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "tests/data/temp_folder.h"
#include "tests/support/run_ranks.h"
#include "tests/train/run/train_on_ranks.h"
#include "weft/base/error.h"
#include "weft/checkpoint/digest.h"
#include "weft/checkpoint/safetensors.h"
#include "weft/recipe/read/read_recipe.h"

namespace weft::train_test {
namespace {

std::string big_endian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

/// `count` images of 28 x 28: the class is which third of the rows is bright.
void write_images(const test::TempFolder& folder, const std::string& prefix, int count) {
  std::string images =
      std::string("\0\0\x08\x03", 4) + big_endian(static_cast<uint32_t>(count)) + big_endian(28) + big_endian(28);
  std::string labels = std::string("\0\0\x08\x01", 4) + big_endian(static_cast<uint32_t>(count));
  for (int i = 0; i < count; ++i) {
    const int label = i * 7 % 3;
    for (int p = 0; p < 28 * 28; ++p) {
      images.push_back(static_cast<char>((p / 28 * 3 / 28 == label ? 200 : 20) + (i * 31 + p * 17) % 40));
    }
    labels.push_back(static_cast<char>(label));
  }
  folder.write(prefix + "-images-idx3-ubyte", images);
  folder.write(prefix + "-labels-idx1-ubyte", labels);
}

class Train : public ::testing::Test {
 protected:
  Train() : threads_(at::get_num_threads()) {
    write_images(folder_, "train", 60);
    write_images(folder_, "t10k", 25);
    std::string text;
    for (int i = 0; i < 100; ++i) text += fmt::format("line {} of a text that repeats itself\n", i);
    folder_.write("text", text);
  }
  ~Train() override { at::set_num_threads(threads_); }

  Recipe images(const std::vector<std::string>& overrides = {}) const {
    return parse_recipe(fmt::format(R"(
model = {{ name = "mlp", width = 32, layers = 1, classes = 3 }}
data = {{ name = "images", path = "{}" }}
batch = {{ global = 12 }}
optimizer = {{ lr = 0.01 }}
run = {{ steps = 7, evaluate_every = 3, threads = 1 }})",
                                    folder_.path().string()),
                        "images.toml", overrides);
  }
  Recipe text(const std::vector<std::string>& overrides = {}) const {
    return parse_recipe(fmt::format(R"(
model = {{ name = "gpt", layers = 1, heads = 2, width = 16, context = 16 }}
data = {{ name = "text", path = "{}" }}
batch = {{ global = 8 }}
optimizer = {{ lr = 1e-3, clip = 1.0 }}
run = {{ steps = 4, evaluate_every = 4, threads = 1, reproducible_slots = 4 }})",
                                    folder_.file("text")),
                        "text.toml", overrides);
  }

  test::TempFolder folder_;
  int threads_;
};

/// Differences invisible to a trainer: shapes and instructions are the same.
TEST_F(Train, RanksWithDifferentRecipesFailWhenTheyStart) {
  struct Case {
    const char* override;
    std::string says;
  };
  folder_.write("other", std::string(3800, 'x'));
  for (const Case& c :
       {Case{"model.heads=4", "; rank 0 has model.heads: 2, rank 1 has model.heads: 4; start all ranks"},
        Case{"model.dropout=0.5", "rank 1 has model.dropout: 0.5"}, Case{"run.steps=5", "rank 1 has run.steps: 5"},
        Case{"run.evaluate_every=2", "rank 1 has run.evaluate_every: 2"},
        Case{"run.target=loss <= 9", "rank 1 has run.target: loss <= 9"},
        Case{"data.evaluation=0.2", "rank 1 has data.evaluation: 0.2"}, Case{nullptr, "; rank 0 has training data: "}}) {
    const std::string change = c.override != nullptr ? c.override : "data.path=" + folder_.file("other");
    try {
      test::run_ranks(2, [&](const World& world) { train(world.rank() == 1 ? text({change}) : text(), world); });
      ADD_FAILURE() << change << " passes, but should say: " << c.says;
    } catch (const test::RankError& error) {
      EXPECT_NE(std::string(error.what()).find(c.says), std::string::npos) << change << ": " << error.what();
    }
  }
}

/// Threads where nobody asks for the same bits.
TEST_F(Train, PathsAndThreadsMayDifferBetweenHosts) {
  folder_.write("copy", test::read_file(folder_.file("text")));
  const std::vector<std::string> all = {"run.steps=1", "run.reproducible_slots=0"};
  std::vector<std::string> own = all;
  own.insert(own.end(), {"data.path=" + folder_.file("copy"), "run.threads=2"});
  test::run_ranks(2, [&](const World& world) { train(text(world.rank() == 1 ? own : all), world); });
}

TEST_F(Train, FillsTheReport) {
  const FinalReport report = train(images(), World());
  EXPECT_EQ(report.model, "mlp");
  EXPECT_EQ(report.parameters, 784 * 32 + 32 + 32 * 3 + 3);
  EXPECT_EQ(report.world, 1);
  EXPECT_EQ(report.layout.front(), (std::pair<std::string, int64_t>("pp", 1)));
  EXPECT_EQ(report.backend, "identity");
  EXPECT_EQ(report.threads_per_rank, 1);
  EXPECT_EQ(report.steps, 7);
  EXPECT_LT(report.loss, std::log(3.0));  // three bright bands are soon distinguished
  ASSERT_TRUE(report.evaluation && report.evaluation->accuracy);
  EXPECT_EQ(report.evaluation->step, 7);
  EXPECT_GT(*report.evaluation->accuracy, 0.9);
  EXPECT_GT(report.first_step_s, 0.0);
  EXPECT_GT(report.seconds, 0.0);
  EXPECT_GT(report.samples_per_s, 12.0 * 5.0 / report.seconds);  // five of seven steps count, and no evaluation
  EXPECT_EQ(report.tokens_per_s, 0.0);
  EXPECT_GT(report.step_ms_p50, 0.0);
  EXPECT_GE(report.step_ms_p95, report.step_ms_p50);
  EXPECT_EQ(report.communication_share, 0.0);
  EXPECT_EQ(report.traffic_bytes, std::vector<int64_t>{0});
  ASSERT_EQ(report.peak_rss_mb.size(), 1u);
  EXPECT_GT(report.peak_rss_mb[0], 10.0);
  EXPECT_EQ(report.weights_sha256.size(), 64u);
}

TEST_F(Train, ReportsOfTwoRanksAreOfBoth) {
  std::mutex mutex;
  FinalReport report;
  int steps_told = 0;
  test::run_ranks(2, [&](World world) {
    TrainOptions options;
    options.on_step = [&, rank = world.rank()](const StepReport&) {
      const std::lock_guard lock(mutex);
      EXPECT_EQ(rank, 0);
      ++steps_told;
    };
    FinalReport mine = train(text(), world, options);
    const std::lock_guard lock(mutex);
    if (world.rank() == 0) report = std::move(mine);
  });
  EXPECT_EQ(steps_told, 4);
  EXPECT_EQ(report.world, 2);
  EXPECT_EQ(report.layout[1], (std::pair<std::string, int64_t>("dp", 2)));
  EXPECT_EQ(report.backend, "shm");
  EXPECT_NEAR(report.tokens_per_s, report.samples_per_s * 16.0, 1e-6 * report.tokens_per_s);
  EXPECT_GT(report.communication_share, 0.0);
  EXPECT_LE(report.communication_share, 1.0);
  EXPECT_GT(report.step_communication_share, 0.0);
  EXPECT_LE(report.step_communication_share, 1.0);
  EXPECT_EQ(report.peak_rss_mb.size(), 2u);
  ASSERT_EQ(report.traffic_bytes.size(), 2u);
  // Half of twice the gradients a step, as docs/sharding.md says; padding and losses are a few percent of so small a
  // model.
  const double gradients = 4.0 * static_cast<double>(report.parameters) * 4.0;
  for (const int64_t bytes : report.traffic_bytes) {
    EXPECT_GT(static_cast<double>(bytes), gradients);
    EXPECT_LT(static_cast<double>(bytes), gradients * 1.05);
  }
}

TEST_F(Train, EvaluatesWhenDueAndAtTheEndOnce) {
  std::vector<int64_t> steps, evaluations;
  TrainOptions options;
  options.on_step = [&](const StepReport& report) { steps.push_back(report.step); };
  options.on_evaluation = [&](const EvaluationReport& report) {
    EXPECT_EQ(report.steps, 7);
    evaluations.push_back(report.step);
  };
  train(images(), World(), options);
  EXPECT_EQ(steps, (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(evaluations, (std::vector<int64_t>{3, 6, 7}));
}

/// 60 samples in steps of 12: an epoch is 5 steps.
TEST_F(Train, EpochsAreStepsOfTheData) {
  std::vector<int64_t> evaluations;
  std::vector<std::string> notes;
  TrainOptions options;
  options.on_note = [&](const std::string& note) { notes.push_back(note); };
  options.on_evaluation = [&](const EvaluationReport& report) { evaluations.push_back(report.step); };
  EXPECT_EQ(train(images({"run.epochs=2.5", "run.evaluate_every=0.5 epochs"}), World(), options).steps_done, 13);
  EXPECT_EQ(evaluations, (std::vector<int64_t>{3, 5, 8, 10, 13}));
  EXPECT_EQ(notes, (std::vector<std::string>{"2.5 epochs of 60 samples: 13 steps; between evaluations 0.5 epochs: 3 steps"}));
}

/// 25 and 13 images in micro-batches that ranks have more or fewer of.
TEST_F(Train, EvaluatesOnSeveralSetsWithTheSameBitsOnAnyNumberOfRanks) {
  test::TempFolder night;
  write_images(night, "t10k", 13);
  const Recipe recipe = parse_recipe(fmt::format(R"(
model = {{ name = "mlp", width = 16, layers = 1, classes = 7 }}
data = {{ name = "images", path = "{}" }}
batch = {{ global = 12, micro = 3 }}
optimizer = {{ lr = 1e-4 }}
run = {{ steps = 6, evaluate_every = 2, threads = 1, reproducible_slots = 4 }}
[[evaluation]]
name = "night"
path = "{}")",
                                                 folder_.path().string(), night.path().string()),
                                     "images.toml");
  FinalReport expected;
  for (const int ranks : {1, 2, 4}) {
    FinalReport report;
    std::vector<EvaluationReport> printed;
    test::run_ranks(ranks, [&](World world) {
      TrainOptions options;
      if (world.rank() == 0) options.on_evaluation = [&](const EvaluationReport& e) { printed.push_back(e); };
      FinalReport mine = train(recipe, world, options);
      if (world.rank() == 0) report = std::move(mine);
    });
    ASSERT_EQ(printed.size(), 6u);
    EXPECT_EQ(printed[3].set, "night");
    EXPECT_EQ(printed[3].step, 4);
    ASSERT_EQ(report.other_evaluations.size(), 1u);
    const EvaluationReport &own = *report.evaluation, &other = report.other_evaluations[0];
    EXPECT_EQ(std::fmod(*own.accuracy * 25, 1.0), 0.0);
    EXPECT_GT(*own.top5, *own.accuracy);
    EXPECT_FALSE(own.perplexity);
    double least = own.loss;
    for (size_t i = 0; i < printed.size(); i += 2) least = std::min(least, printed[i].loss);
    EXPECT_EQ(report.best.loss->value, least);
    if (ranks == 1) expected = report;
    EXPECT_EQ(own.loss, expected.evaluation->loss) << ranks;
    EXPECT_EQ(own.top5, expected.evaluation->top5) << ranks;
    EXPECT_EQ(other.loss, expected.other_evaluations[0].loss) << ranks;
    EXPECT_EQ(other.accuracy, expected.other_evaluations[0].accuracy) << ranks;
    EXPECT_EQ(report.best.accuracy->step, expected.best.accuracy->step) << ranks;
  }
}

/// A network with its blocks over stages, shards and replicas, on mixed samples with two labels each.
TEST_F(Train, MixupAndLabelSmoothingGiveTheSameBitsOnAnyNumberOfRanks) {
  const std::vector<std::string> mixed = {"data.mixup=0.4",           "model.label_smoothing=0.1",
                                          "run.reproducible_slots=4", "batch.micro=3",
                                          "model.layers=3",           "data.workers=2"};
  const auto recipe = [&](const std::string& layout) {
    std::vector<std::string> all = mixed;
    all.push_back(layout);
    return images(all);
  };
  const FinalReport expected = train(recipe("layout.dp=1"), World());
  EXPECT_NE(expected.weights_sha256, train(recipe("data.mixup=0"), World()).weights_sha256);
  EXPECT_NE(expected.weights_sha256, train(recipe("model.label_smoothing=0"), World()).weights_sha256);
  EXPECT_EQ(expected.weights_sha256, train(recipe("data.workers=0"), World()).weights_sha256);
  const std::vector<std::pair<int, std::string>> layouts = {
      {2, "layout.dp=2"}, {4, "layout.dp=4"}, {2, "layout.pp=2"}, {4, "layout.shard_level=parameters"}};
  for (const auto& [ranks, layout] : layouts) {
    const FinalReport report = test::train_on_ranks(ranks, recipe(layout));
    EXPECT_EQ(report.weights_sha256, expected.weights_sha256) << ranks << " ranks, " << layout;
    EXPECT_EQ(report.loss, expected.loss) << ranks << " ranks, " << layout;
    EXPECT_EQ(report.evaluation->loss, expected.evaluation->loss) << ranks << " ranks, " << layout;
  }
}

/// With weights that hardly move, both evaluate the same network.
TEST_F(Train, EvaluationsKnowNothingOfMixupOrSmoothing) {
  const std::vector<std::string> plain = {"run.steps=1", "optimizer.lr=1e-30", "optimizer.weight_decay=0"};
  std::vector<std::string> mixed = plain;
  mixed.insert(mixed.end(), {"data.mixup=1", "model.label_smoothing=0.5"});
  const FinalReport a = train(images(plain), World()), b = train(images(mixed), World());
  EXPECT_EQ(a.evaluation->loss, b.evaluation->loss);
  EXPECT_EQ(a.evaluation->accuracy, b.evaluation->accuracy);
  EXPECT_NE(a.loss, b.loss);
}

TEST_F(Train, TextHasAPerplexityAndItsOwnSets) {
  folder_.write("other", std::string(3800, 'x'));
  Recipe recipe = text();
  recipe.evaluations = {{"other", folder_.file("other")}};
  const FinalReport report = train(recipe, World());
  EXPECT_DOUBLE_EQ(*report.evaluation->perplexity, std::exp(report.evaluation->loss));
  EXPECT_FALSE(report.evaluation->top5);
  EXPECT_NE(report.other_evaluations.at(0).loss, report.evaluation->loss);
}

TEST_F(Train, DoesNotEvaluateTheLastStepTwice) {
  std::vector<int64_t> evaluations;
  TrainOptions options;
  options.on_evaluation = [&](const EvaluationReport& report) { evaluations.push_back(report.step); };
  train(images({"run.steps=6"}), World(), options);
  EXPECT_EQ(evaluations, (std::vector<int64_t>{3, 6}));
}

/// The evaluations of a run, and its report.
struct Watched {
  std::vector<EvaluationReport> evaluations;
  FinalReport report;
};

Watched watch(const Recipe& recipe, const World& world = World(), TrainOptions options = {}) {
  Watched watched;
  options.on_evaluation = [&](const EvaluationReport& report) { watched.evaluations.push_back(report); };
  watched.report = train(recipe, world, options);
  return watched;
}

/// A loss that the evaluation after step 4 is the first to reach, of those every 2 steps.
std::string loss_target(const std::vector<EvaluationReport>& evaluations) {
  EXPECT_LT(evaluations.at(1).loss, evaluations.at(0).loss);
  return fmt::format("run.target=loss <= {}", (evaluations[0].loss + evaluations[1].loss) / 2);
}

TEST_F(Train, EndsAtTheFirstEvaluationThatReachesTheTarget) {
  const std::vector<std::string> base = {"run.evaluate_every=2", "run.steps=12"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return images(more);
  };
  const Watched whole = watch(with({}));
  const std::string target = loss_target(whole.evaluations);
  for (const int ranks : {1, 2}) {
    Watched found;
    test::run_ranks(ranks, [&](const World& world) {
      const Watched mine = watch(with({target}), world);
      if (world.rank() == 0) found = mine;
    });
    EXPECT_EQ(found.evaluations.size(), 2u);
    EXPECT_EQ(found.report.target_step, 4);
    EXPECT_EQ(found.report.steps_done, 4);
    EXPECT_EQ(found.report.steps, 12);
    EXPECT_EQ("run.target=" + found.report.target, target);
    EXPECT_EQ(found.report.weights_sha256.size(), 64u);
  }
  const Watched missed = watch(with({"run.target=loss <= -1"}));
  EXPECT_EQ(missed.report.steps_done, 12);
  EXPECT_FALSE(missed.report.target_step.has_value());
  EXPECT_EQ(missed.report.weights_sha256, whole.report.weights_sha256) << "a target changes nothing else";
}

TEST_F(Train, ARunThatReachesItsTargetIsSavedAndEnds) {
  const std::vector<std::string> base = {"run.evaluate_every=2", "run.steps=12"};
  const std::string target = loss_target(watch(images(base)).evaluations);
  const auto into = [&](const std::string& name, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {base[0], base[1], target, "save.folder=" + folder_.file(name)});
    return images(more);
  };
  const Watched first = watch(into("a"));
  EXPECT_EQ(first.report.saves, 1) << "of the last step";
  const Watched again = watch(into("a"));
  EXPECT_EQ(again.report.resumed_from, 4);
  EXPECT_EQ(again.report.steps_done, 4);
  EXPECT_EQ(again.report.target_step, 4);
  EXPECT_TRUE(again.evaluations.empty());
  EXPECT_EQ(again.report.weights_sha256, first.report.weights_sha256);
  // Asked to end after step 4, it leaves out the evaluation that would have reached the target.
  int asked = 0;
  TrainOptions options;
  options.on_step = [&](const StepReport& report) { asked = report.step >= 4 ? 1 : 0; };
  options.stop_asked = [&] { return asked == 1; };
  const Watched stopped = watch(into("b"), World(), options);
  EXPECT_TRUE(stopped.report.stopped);
  EXPECT_EQ(stopped.evaluations.size(), 1u);
  EXPECT_FALSE(stopped.report.target_step.has_value());
  const Watched resumed = watch(into("b"));
  EXPECT_EQ(resumed.report.target_step, 4);
  EXPECT_EQ(resumed.report.steps_done, 4);
  EXPECT_EQ(resumed.report.weights_sha256, first.report.weights_sha256);
}

TEST_F(Train, SavesTheWeightsItReports) {
  const std::string path = folder_.file("weights.safetensors");
  const FinalReport report = train(text(), World(), {.save_path = path});
  const std::vector<NamedTensor> weights = load_safetensors(path);
  EXPECT_EQ(weights_sha256(weights), report.weights_sha256);
  int64_t elements = 0;
  std::vector<std::string> names;
  for (const NamedTensor& weight : weights) {
    elements += weight.tensor.numel();
    names.push_back(weight.name);
  }
  EXPECT_EQ(elements, report.parameters);
  EXPECT_NE(std::find(names.begin(), names.end(), "h.0.attn.c_attn.weight"), names.end());
}

TEST_F(Train, GivesTheSameBitsTwiceAndOnAnyNumberOfRanks) {
  const FinalReport expected = train(text(), World());
  EXPECT_EQ(train(text(), World()).weights_sha256, expected.weights_sha256);
  EXPECT_NE(train(text({"run.seed=2"}), World()).weights_sha256, expected.weights_sha256);
  const std::vector<std::pair<int, std::string>> layouts = {
      {2, "pp=1"}, {4, "pp=1"}, {2, "pp=2"}, {4, "shard_level=parameters"}};
  for (const auto& [ranks, layout] : layouts) {
    const FinalReport report = test::train_on_ranks(ranks, text({"layout." + layout}));
    EXPECT_EQ(report.weights_sha256, expected.weights_sha256) << ranks << " ranks, " << layout;
    EXPECT_EQ(report.evaluation->loss, expected.evaluation->loss) << ranks << " ranks, " << layout;
  }
}

/// The average decides and is saved; the weights are reported too, and equal those of a run without one; on two ranks too.
TEST_F(Train, EvaluatesAndSavesTheAverageOfTheWeights) {
  const std::string path = folder_.file("weights.safetensors");
  const auto run = [&](const std::vector<std::string>& overrides, int ranks = 1) {
    return test::train_on_ranks(ranks, text(overrides), {.save_path = path});
  };
  const std::string every = "run.evaluate_every=1", ema = "optimizer.ema=0.5";
  const FinalReport plain = run({every});
  EXPECT_EQ(plain.average_sha256, "");
  EXPECT_FALSE(plain.evaluation->averaged);
  const FinalReport both = run({every, ema, "run.evaluate=both"});
  EXPECT_EQ(both.weights_sha256, plain.weights_sha256);
  EXPECT_EQ(weights_sha256(load_safetensors(path)), both.average_sha256);
  EXPECT_TRUE(both.evaluation->averaged);
  EXPECT_GT(both.evaluation->loss, plain.evaluation->loss) << "of a loss that falls the average comes later";
  EXPECT_EQ(both.best.loss->value, both.evaluation->loss);
  ASSERT_EQ(both.other_evaluations.size(), 1u);
  EXPECT_FALSE(both.other_evaluations[0].averaged);
  EXPECT_EQ(both.other_evaluations[0].loss, plain.evaluation->loss);
  const FinalReport average = run({every, ema, "layout.shard_level=parameters"}, 2);
  EXPECT_EQ(average.average_sha256, both.average_sha256);
  EXPECT_EQ(average.evaluation->loss, both.evaluation->loss);
  EXPECT_TRUE(average.other_evaluations.empty());
  const FinalReport weights = run({every, ema, "run.evaluate=weights"});
  EXPECT_EQ(weights_sha256(load_safetensors(path)), plain.weights_sha256);
  EXPECT_EQ(weights.average_sha256, both.average_sha256);
  EXPECT_EQ(weights.evaluation->loss, plain.evaluation->loss);
  EXPECT_FALSE(weights.evaluation->averaged);
  // The weights reach it a step before their average.
  const std::string target = fmt::format("run.target=loss <= {:.17g}", plain.evaluation->loss);
  EXPECT_EQ(run({every, target}).target_step, 4);
  EXPECT_FALSE(run({every, target, ema, "run.evaluate=both"}).target_step);
}

TEST_F(Train, TheLearningRateEndsWhereItIsSaidToAndHasItsPeakOnce) {
  for (const std::string decay : {"linear", "cosine"}) {
    std::vector<double> rates;
    TrainOptions options;
    options.on_step = [&](const StepReport& report) { rates.push_back(report.lr); };
    train(images({"optimizer.decay=" + decay, "optimizer.warmup=2", "optimizer.final_lr=0.1"}), World(), options);
    ASSERT_EQ(rates.size(), 7u);
    EXPECT_EQ(rates[0], 0.005);
    EXPECT_EQ(rates[1], 0.01);
    EXPECT_EQ(std::count(rates.begin(), rates.end(), 0.01), 1) << decay;
    EXPECT_EQ(rates.back(), 0.01 * 0.1) << decay;
  }
}

TEST_F(Train, RefusesAPathItCannotWriteToBeforeTraining) {
  int steps = 0;
  TrainOptions options;
  options.save_path = folder_.file("missing") + "/weights.safetensors";
  options.on_step = [&](const StepReport&) { ++steps; };
  EXPECT_THROW(train(text(), World(), options), InputError);
  EXPECT_EQ(steps, 0);
}

}  // namespace
}  // namespace weft::train_test
