// Mixup: draws and results, which depend on nothing but (seed, epoch, sample).
#include "weft/data/images/mixup.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/refusal.h"
#include "weft/data/loader.h"

namespace weft::mixup_test {
namespace {

constexpr int64_t kSize = 23, kClasses = 5;

/// Image i is i everywhere, plus 100 per epoch; its label is i % 5.
class Numbered : public Dataset {
 public:
  int64_t size() const override { return kSize; }
  Batch get(const std::vector<int64_t>& indices, int64_t epoch) const override {
    Batch batch;
    const auto count = static_cast<int64_t>(indices.size());
    batch.inputs = {at::zeros({count, 1, 2, 2}, at::kFloat)};
    batch.target = at::zeros({count}, at::kLong);
    for (int64_t i = 0; i < count; ++i) {
      batch.inputs[0][i].fill_(static_cast<double>(indices[i] + 100 * epoch));
      batch.target[i].fill_(indices[i] % kClasses);
    }
    return batch;
  }
};

MixupOptions options(double alpha) { return {.alpha = alpha, .classes = kClasses, .seed = 3}; }

TEST(Mixup, IsTheWeightedMeanOfTwoSamplesAndTheirLabels) {
  const auto mixed = mix_up(std::make_shared<Numbered>(), options(1.0));
  const Batch batch = mixed->get({4, 7, 22}, 2);
  ASSERT_EQ(batch.target.sizes(), (at::IntArrayRef{3, kClasses}));
  int64_t place = 0;
  for (const int64_t sample : {4, 7, 22}) {
    const MixupDraw draw = draw_mixup(options(1.0), kSize, 2, sample);
    const double own = static_cast<double>(sample) + 200, other = static_cast<double>(draw.partner) + 200;
    EXPECT_NEAR(batch.inputs[0][place][0][1][1].item<double>(), draw.weight * own + (1 - draw.weight) * other, 1e-4);
    const at::Tensor expected = at::zeros({kClasses}, at::kDouble);
    expected[sample % kClasses] += draw.weight;
    expected[draw.partner % kClasses] += 1 - draw.weight;
    EXPECT_TRUE(at::allclose(batch.target[place].to(at::kDouble), expected, 0, 1e-6)) << sample;
    ++place;
  }
}

/// Every sample is a bad one, named by its number.
class AllSkipped : public Numbered {
 public:
  Batch get(const std::vector<int64_t>& indices, int64_t epoch) const override {
    Batch batch = Numbered::get(indices, epoch);
    for (const int64_t index : indices) batch.skipped.push_back(std::to_string(index));
    return batch;
  }
};

TEST(Mixup, ReportsTheSkippedOnesOfBothSamples) {
  const Batch batch = mix_up(std::make_shared<AllSkipped>(), options(1.0))->get({4, 7}, 2);
  std::vector<std::string> expected = {"4", "7"};
  for (const int64_t sample : {4, 7}) expected.push_back(std::to_string(draw_mixup(options(1.0), kSize, 2, sample).partner));
  EXPECT_EQ(batch.skipped, expected);
}

TEST(Mixup, WeightsFollowTheBetaDistribution) {
  for (const double alpha : {0.001, 0.2, 1.0, 4.0}) {
    constexpr int kDraws = 20000;
    double sum = 0, squares = 0;
    std::vector<int> partners(kSize);
    for (int64_t i = 0; i < kDraws; ++i) {
      const MixupDraw draw = draw_mixup(options(alpha), kSize, i / 100, i % 100);
      EXPECT_TRUE(draw.weight >= 0.0 && draw.weight <= 1.0) << draw.weight;
      sum += draw.weight;
      squares += (draw.weight - 0.5) * (draw.weight - 0.5);
      ++partners.at(static_cast<size_t>(draw.partner));
    }
    EXPECT_NEAR(sum / kDraws, 0.5, 0.015) << alpha;
    EXPECT_NEAR(squares / kDraws, 1.0 / (4.0 * (2.0 * alpha + 1.0)), 0.004) << alpha;
    for (const int count : partners) EXPECT_NEAR(count, kDraws / kSize, 150);
  }
}

TEST(Mixup, IsIndependentOfWorkersRanksAndMicroBatches) {
  const auto mixed = mix_up(std::make_shared<Numbered>(), options(0.4));
  const auto run = [&](int ranks, int64_t micro, int workers) {
    at::Tensor images, targets;
    std::vector<std::unique_ptr<Loader>> loaders;
    for (int rank = 0; rank < ranks; ++rank) {
      loaders.push_back(std::make_unique<Loader>(
          mixed, Sampler(kSize, {.seed = 4}),
          LoaderOptions{.global_batch = 8, .micro_batch = micro, .shard = rank, .num_shards = ranks, .workers = workers}));
    }
    for (int step = 0; step < 9; ++step) {  // three epochs
      for (const auto& loader : loaders) {
        for (int j = 0; j < loader->micro_batches_per_step(); ++j) {
          const Batch batch = loader->next();
          images = images.defined() ? at::cat({images, batch.inputs[0]}) : batch.inputs[0];
          targets = targets.defined() ? at::cat({targets, batch.target}) : batch.target;
        }
      }
    }
    return std::pair(images, targets);
  };
  const auto [images, targets] = run(1, 8, 0);
  for (const int ranks : {1, 2, 4}) {
    for (const int workers : {0, 1, 4}) {
      const auto [others, other_targets] = run(ranks, 8 / ranks / (workers == 1 ? 2 : 1), workers);
      EXPECT_TRUE(at::equal(others, images)) << ranks << " ranks, " << workers << " workers";
      EXPECT_TRUE(at::equal(other_targets, targets)) << ranks << " ranks, " << workers << " workers";
    }
  }
}

/// Has invalid labels.
class Mislabelled : public Numbered {
  Batch get(const std::vector<int64_t>& indices, int64_t epoch) const override {
    Batch batch = Numbered::get(indices, epoch);
    batch.target.fill_(kClasses);
    return batch;
  }
};

/// Has images whose memory the host cannot read, as on a GPU.
class Elsewhere : public Numbered {
  Batch get(const std::vector<int64_t>& indices, int64_t epoch) const override {
    Batch batch = Numbered::get(indices, epoch);
    batch.inputs[0] = batch.inputs[0].to(at::kMeta);
    return batch;
  }
};

TEST(Mixup, RejectsIncompatibleSamples) {
  for (const double alpha : {0.0, -1.0, 1e-320, 4.5, std::nan("")}) {
    EXPECT_NE(test::refusal([&] { mix_up(std::make_shared<Numbered>(), options(alpha)); }).find("must be at least 0.001"),
              std::string::npos);
  }
  const auto mixed = mix_up(std::make_shared<Mislabelled>(), options(1.0));
  EXPECT_EQ(test::refusal([&] { mixed->get({0}, 0); }), "mixup: label 5 is not one of 5 classes");
  EXPECT_EQ(test::refusal([&] { mix_up(std::make_shared<Elsewhere>(), options(1.0))->get({0}, 0); }),
            "mixup: samples must be float32 images with labels [n] int64, on the CPU");
}

}  // namespace
}  // namespace weft::mixup_test
