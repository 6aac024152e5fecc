// Mixtures of datasets: the source at each position, to the sample, and that each source completes before it restarts.
#include "weft/data/mixture.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "tests/data/expect_input_error.h"
#include "weft/data/interleave.h"
#include "weft/data/loader.h"

namespace weft::mixture_test {
namespace {

using test::expect_input_error;

/// Sample i is first + i, its target the epoch; every fifth is reported as bad.
class Numbers : public Dataset {
 public:
  Numbers(int64_t first, int64_t size, at::ScalarType type = at::kLong, int64_t width = 1)
      : first_(first), size_(size), type_(type), width_(width) {}
  int64_t size() const override { return size_; }
  Batch get(const std::vector<int64_t>& indices, int64_t epoch) const override {
    const auto count = static_cast<int64_t>(indices.size());
    Batch batch{.inputs = {at::empty({count, width_}, type_)}, .target = at::full({count}, epoch, at::kLong)};
    for (int64_t i = 0; i < count; ++i) {
      batch.inputs[0][i].fill_(first_ + indices[static_cast<size_t>(i)]);
      if (indices[static_cast<size_t>(i)] % 5 == 4)
        batch.skipped.push_back(std::to_string(first_ + indices[static_cast<size_t>(i)]));
    }
    return batch;
  }
  DataNotes left_out() const override { return {"left out of " + std::to_string(first_)}; }
  DataNotes passed_over() const override { return {"extra " + std::to_string(first_)}; }

 private:
  int64_t first_, size_;
  at::ScalarType type_;
  int64_t width_;
};

TEST(Interleave, EveryPeriodHasTheWeightsAndEveryStretchIsNearThem) {
  const std::vector<std::vector<int64_t>> all = {{1},       {1, 1},          {7, 2, 1}, {1, 2, 7}, {5, 5, 5, 5, 5, 5, 5},
                                                 {1, 1000}, {999, 1, 1, 999}};
  for (const auto& weights : all) {
    const Interleave interleave(weights);
    const int64_t period = std::accumulate(weights.begin(), weights.end(), int64_t{0});
    const double bound = std::max(1.0, static_cast<double>(weights.size()) - 1.0);
    std::vector<int64_t> counts(weights.size(), 0);
    for (int64_t p = 0; p < 3 * period; ++p) {
      const Interleave::Place place = interleave.at(p);
      EXPECT_EQ(place.count, counts[place.source]++) << "each once, without gaps";
      for (size_t k = 0; k < weights.size(); ++k) {
        const double expected = static_cast<double>((p + 1) * weights[k]) / static_cast<double>(period);
        EXPECT_LT(std::abs(static_cast<double>(counts[k]) - expected), bound) << "source " << k << " after position " << p;
      }
      if ((p + 1) % period != 0) continue;
      for (size_t k = 0; k < weights.size(); ++k) EXPECT_EQ(counts[k], (p + 1) / period * weights[k]);
    }
  }
}

/// Large positions, where floating point would be inexact.
TEST(Interleave, IsExactAtAnyPlace) {
  const std::vector<int64_t> weights = {333'333, 1'000'000, 7};
  const Interleave interleave(weights);
  const int64_t period = 1'333'340, far = (int64_t{1} << 61) / period * period;
  std::vector<int64_t> counts(3, 0);
  for (int64_t p = 0; p < period; ++p) {
    const Interleave::Place place = interleave.at(far + p);
    const int64_t before = far / period * weights[place.source];
    ASSERT_EQ(place.count, before + counts[place.source]++) << p;
  }
  EXPECT_EQ(counts, weights);
}

TEST(Interleave, WeightsBecomeWholeNumbers) {
  using Weights = std::vector<int64_t>;
  EXPECT_EQ(whole_weights({0.7, 0.2, 0.1}), (Weights{7, 2, 1}));
  EXPECT_EQ(whole_weights({3, 1}), (Weights{3, 1}));
  EXPECT_EQ(whole_weights({0.000001, 1e6}), (Weights{1, 1'000'000'000'000}));
  EXPECT_EQ(whole_weights({0.3, 0.3}), (Weights{1, 1}));
  for (const double bad : {0.0, -1.0, 1.0 / 3.0, 1e-7, 2e6, std::nan("")}) {
    expect_input_error([&] { whole_weights({bad}); }, {"at most six digits"});
  }
  expect_input_error([] { Interleave(std::vector<int64_t>{}); }, {"no sources"});
  expect_input_error([] { Interleave({1, 0}); }, {"a weight of 0"});
}

std::vector<MixtureSource> three() {
  return {{std::make_shared<Numbers>(0, 50), 0.5, "a"},
          {std::make_shared<Numbers>(1000, 7), 0.3, "b"},
          {std::make_shared<Numbers>(2000, 43), 0.2, "c"}};
}

/// Samples already in training order.
class OrderedNumbers final : public Numbers {
 public:
  using Numbers::Numbers;
  bool is_ordered() const override { return true; }
};

TEST(Mixture, KeepsTheOrderOfAnOrderedSource) {
  const auto mixture =
      open_mixture({{std::make_shared<OrderedNumbers>(0, 10), 1.0, "a"}, {std::make_shared<Numbers>(100, 10), 1.0, "b"}}, 1);
  std::vector<int64_t> of_a, of_b;
  for (int64_t i = 0; i < 20; ++i) {
    const int64_t number = mixture->get({i}, 0).inputs[0][0][0].item<int64_t>();
    (number < 100 ? of_a : of_b).push_back(number);
  }
  EXPECT_EQ(of_a, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_FALSE(std::is_sorted(of_b.begin(), of_b.end()));
}

TEST(Mixture, HasEachSourceInItsShareAndCompleteBeforeItRepeats) {
  const auto mixture = open_mixture(three(), 3);
  ASSERT_EQ(mixture->size(), 100) << "an epoch: as many as all sources have";
  ASSERT_TRUE(mixture->is_ordered());
  const Sampler sampler = sampler_of(*mixture, 3);
  std::map<int64_t, std::vector<int64_t>> seen;  // by source
  for (int64_t epoch = 0; epoch < 7; ++epoch) {
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < 100; ++i) indices.push_back(sampler.sample(epoch * 100 + i));
    const Batch batch = mixture->get(indices, epoch);
    for (int64_t i = 0; i < 100; ++i) {
      const int64_t value = batch.inputs[0][i][0].item<int64_t>();
      std::vector<int64_t>& of_source = seen[value / 1000];
      const int64_t size = value / 1000 == 0 ? 50 : value / 1000 == 1 ? 7 : 43;
      EXPECT_EQ(batch.target[i].item<int64_t>(), static_cast<int64_t>(of_source.size()) / size) << "the source's own epoch";
      of_source.push_back(value);
    }
    EXPECT_EQ(seen[0].size(), static_cast<size_t>(50 * (epoch + 1)));
    EXPECT_EQ(seen[1].size(), static_cast<size_t>(30 * (epoch + 1)));
    EXPECT_EQ(seen[2].size(), static_cast<size_t>(20 * (epoch + 1)));
  }
  for (const auto& [source, values] : seen) {
    const size_t size = source == 0 ? 50 : source == 1 ? 7 : 43;
    std::vector<int64_t> before;
    for (size_t begin = 0; begin + size <= values.size(); begin += size) {
      std::vector<int64_t> pass(values.begin() + static_cast<int64_t>(begin),
                                values.begin() + static_cast<int64_t>(begin + size));
      EXPECT_NE(pass, before) << "shuffled anew";
      before = pass;
      std::sort(pass.begin(), pass.end());
      for (size_t i = 0; i < size; ++i) EXPECT_EQ(pass[i], source * 1000 + static_cast<int64_t>(i)) << "each once";
    }
  }
}

TEST(Mixture, IsIndependentOfBatching) {
  const auto mixture = open_mixture(three(), 3);
  const auto positions = [&](int ranks, int workers, int64_t restart_at) {
    constexpr int64_t kGlobal = 12, kSteps = 20;
    std::map<int64_t, int64_t> values;
    for (int rank = 0; rank < ranks; ++rank) {
      for (const auto& [first, last] : {std::pair<int64_t, int64_t>{0, restart_at}, {restart_at, kSteps}}) {
        Loader loader(mixture, sampler_of(*mixture, 3),
                      {.global_batch = kGlobal,
                       .micro_batch = 3,
                       .shard = rank,
                       .num_shards = ranks,
                       .first_step = first,
                       .workers = workers});
        for (int64_t i = 0; i < (last - first) * loader.micro_batches_per_step(); ++i) {
          const Batch batch = loader.next();
          for (int64_t j = 0; j < 3; ++j) values[batch.first_sample + j] = batch.inputs[0][j][0].item<int64_t>();
        }
      }
    }
    return values;
  };
  const std::map<int64_t, int64_t> one = positions(1, 0, 0);
  ASSERT_EQ(one.size(), 240u);
  EXPECT_EQ(positions(2, 1, 5), one);
  EXPECT_EQ(positions(4, 3, 13), one);
  const Batch first = mixture->get({0, 1, 2, 3, 4, 5}, 0), other = open_mixture(three(), 4)->get({0, 1, 2, 3, 4, 5}, 0);
  EXPECT_FALSE(at::equal(first.inputs[0], other.inputs[0])) << "another seed";
}

TEST(Mixture, ReportsForItsSources) {
  const auto joined = join_datasets(three());
  EXPECT_EQ(texts_of(joined->left_out()), (std::vector<std::string>{"left out of 0", "left out of 1000", "left out of 2000"}));
  EXPECT_EQ(texts_of(joined->passed_over()), (std::vector<std::string>{"extra 0", "extra 1000", "extra 2000"}));
  ASSERT_EQ(joined->size(), 100);
  EXPECT_FALSE(joined->is_ordered());
  const Batch batch = joined->get({99, 0, 50, 57, 49, 56}, 2);
  const std::vector<int64_t> expected = {2042, 0, 1000, 2000, 49, 1006};
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(batch.inputs[0][static_cast<int64_t>(i)][0].item<int64_t>(), expected[i]);
  EXPECT_EQ(batch.skipped, (std::vector<std::string>{"49"}));
  EXPECT_EQ(batch.target[3].item<int64_t>(), 2);
}

/// Samples whose memory the host cannot read, as on a GPU.
class Elsewhere : public Numbers {
 public:
  using Numbers::Numbers;
  Batch get(const std::vector<int64_t>& indices, int64_t epoch) const override {
    Batch batch = Numbers::get(indices, epoch);
    batch.inputs[0] = batch.inputs[0].to(at::kMeta);
    return batch;
  }
};

TEST(Mixture, RefusesSamplesOnADevice) {
  const auto mixture =
      open_mixture({{std::make_shared<Numbers>(0, 5), 1, "a"}, {std::make_shared<Elsewhere>(9, 5), 1, "b"}}, 1);
  expect_input_error([&] { mixture->get({0, 1, 2, 3}, 0); }, {"samples of b are on meta; a source must give them on the CPU"});
}

TEST(Mixture, RefusesSamplesThatDiffer) {
  for (const auto& other : {Numbers(9, 5, at::kFloat), Numbers(9, 5, at::kLong, 2)}) {
    const auto mixture =
        open_mixture({{std::make_shared<Numbers>(0, 5), 1, "a"}, {std::make_shared<Numbers>(other), 1, "b"}}, 1);
    expect_input_error([&] { mixture->get({0, 1, 2, 3}, 0); }, {"samples of b differ in shape or type"});
  }
  expect_input_error([] { join_datasets(three())->get({100}, 0); }, {"sample 100", "there are only 100"});
  expect_input_error([] { open_mixture({{std::make_shared<Numbers>(0, 5), 0.0, "a"}}, 1); }, {"a weight of 0"});
}

}  // namespace
}  // namespace weft::mixture_test
