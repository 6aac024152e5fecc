#include "weft/data/loader.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <limits>
#include <set>
#include <thread>

#include "tests/data/expect_input_error.h"
#include "weft/data/evaluation_loader.h"

namespace weft {
namespace {

/// Sample i is (i, epoch); target i. Can be slow, and can fail at one index.
class Counting : public Dataset {
 public:
  struct Options {
    int64_t fail_at = -1;
    std::chrono::milliseconds delay{0};
  };
  explicit Counting(int64_t size) : Counting(size, Options{}) {}
  Counting(int64_t size, const Options& options) : size_(size), options_(options) {}

  int64_t size() const override { return size_; }
  Batch get(const std::vector<int64_t>& indices, int64_t epoch) const override {
    calls.fetch_add(1);
    std::this_thread::sleep_for(options_.delay);
    const auto count = static_cast<int64_t>(indices.size());
    at::Tensor input = at::empty({count, 2}, at::kFloat), target = at::empty({count}, at::kLong);
    for (int64_t i = 0; i < count; ++i) {
      if (indices[i] == options_.fail_at) throw InputError("sample 7 is broken");
      input.mutable_data_ptr<float>()[2 * i] = static_cast<float>(indices[i]);
      input.mutable_data_ptr<float>()[2 * i + 1] = static_cast<float>(epoch);
      target.mutable_data_ptr<int64_t>()[i] = indices[i];
    }
    return {.inputs = {input}, .target = target};
  }

  mutable std::atomic<int> calls{0};

 private:
  int64_t size_;
  Options options_;
};

std::vector<int64_t> targets(const Batch& batch) {
  const auto* data = batch.target.const_data_ptr<int64_t>();
  return {data, data + batch.target.size(0)};
}

/// Samples from the shards' loaders in `steps` steps, shard by shard within a step.
std::vector<int64_t> union_of_shards(int64_t size, int64_t global, int64_t micro, int shards, int64_t first_step,
                                     int64_t steps) {
  auto dataset = std::make_shared<Counting>(size);
  const Sampler sampler(size, {.seed = 3});
  std::vector<std::unique_ptr<Loader>> loaders;
  for (int d = 0; d < shards; ++d) {
    loaders.push_back(std::make_unique<Loader>(
        dataset, sampler,
        LoaderOptions{
            .global_batch = global, .micro_batch = micro, .shard = d, .num_shards = shards, .first_step = first_step}));
  }
  std::vector<int64_t> out;
  for (int64_t step = 0; step < steps; ++step) {
    for (auto& loader : loaders) {
      EXPECT_EQ(loader->micro_batches_per_step(), global / micro / shards);
      for (int j = 0; j < loader->micro_batches_per_step(); ++j) {
        const Batch batch = loader->next();
        EXPECT_EQ(batch.first_sample, first_step * global + static_cast<int64_t>(out.size()));
        EXPECT_EQ(batch.target.size(0), micro);
        const auto* input = batch.inputs[0].const_data_ptr<float>();
        for (int64_t i = 0; i < micro; ++i) {
          EXPECT_EQ(input[2 * i + 1], static_cast<float>((batch.first_sample + i) / size)) << "the sample's own epoch";
        }
        for (const int64_t target : targets(batch)) out.push_back(target);
      }
    }
  }
  return out;
}

TEST(Loader, ShardsTogetherGiveTheGlobalBatchInOrderAtAnySplit) {
  constexpr int64_t kSize = 21, kGlobal = 8, kSteps = 12;  // 96 positions: four epochs straddled inside batches
  for (const int64_t first_step : {0, 5}) {
    std::vector<int64_t> expected;
    const Sampler sampler(kSize, {.seed = 3});
    for (int64_t p = first_step * kGlobal; p < (first_step + kSteps) * kGlobal; ++p) expected.push_back(sampler.sample(p));
    for (const int shards : {1, 2, 4, 8}) {
      for (const int64_t micro : {1, 2, 4, 8}) {
        if (kGlobal % (micro * shards) != 0) continue;
        EXPECT_EQ(union_of_shards(kSize, kGlobal, micro, shards, first_step, kSteps), expected)
            << shards << " shards, micro-batch " << micro;
      }
    }
  }
}

TEST(Loader, ARampLeavesNoGapAndRepeatsNothing) {
  constexpr int64_t kSize = 21;
  const BatchRamp ramp = {{2, 3}, {4, 5}};  // then 8: 26 positions before
  auto dataset = std::make_shared<Counting>(kSize);
  const Sampler sampler(kSize, {.seed = 3});
  for (const int64_t first_step : {0, 2, 3, 8, 9}) {
    for (const int shards : {1, 2}) {
      for (const int workers : {0, 2}) {
        const BatchSizes sizes(8, ramp);
        std::vector<std::unique_ptr<Loader>> loaders;
        for (int d = 0; d < shards; ++d) {
          loaders.push_back(std::make_unique<Loader>(dataset, sampler,
                                                     LoaderOptions{.global_batch = 8,
                                                                   .ramp = ramp,
                                                                   .micro_batch = 1,
                                                                   .shard = d,
                                                                   .num_shards = shards,
                                                                   .first_step = first_step,
                                                                   .workers = workers}));
        }
        int64_t position = sizes.samples_before(first_step);
        for (int64_t step = first_step; step < 12; ++step) {
          for (auto& loader : loaders) {
            EXPECT_EQ(loader->next_step(), step);
            const int count = loader->micro_batches_per_step();
            EXPECT_EQ(count, sizes.at(step) / shards);
            for (int j = 0; j < count; ++j, ++position) {
              const Batch batch = loader->next();
              EXPECT_EQ(batch.first_sample, position);
              EXPECT_EQ(targets(batch), std::vector<int64_t>{sampler.sample(position)});
            }
          }
        }
      }
    }
  }
}

TEST(Loader, BeginsAtTheGivenStep) {
  auto dataset = std::make_shared<Counting>(50);
  Loader loader(dataset, Sampler(50, {}), {.global_batch = 4, .micro_batch = 4, .first_step = 3, .first_sample = 7});
  EXPECT_EQ(loader.next().first_sample, 7);
  EXPECT_EQ(loader.next().first_sample, 11);
  EXPECT_EQ(loader.next_step(), 5);
}

TEST(Loader, NamesThePhaseThatDoesNotDivide) {
  test::expect_input_error(
      [] {
        check_batches({.global_batch = 8, .ramp = {{4, 1}, {6, 2}}, .micro_batch = 4});
      },
      {"batch.ramp, phase 2: global = 6 is not a multiple"});
}

TEST(Loader, EverySampleComesOncePerEpoch) {
  for (const int shards : {1, 2, 4}) {
    const auto order = union_of_shards(21, 4, 1, shards, 0, 21);  // 84 positions = 4 epochs
    for (int64_t epoch = 0; epoch < 4; ++epoch) {
      EXPECT_EQ(std::set<int64_t>(order.begin() + epoch * 21, order.begin() + (epoch + 1) * 21).size(), 21u) << shards;
    }
  }
}

TEST(Loader, OneBatchMayHoldSeveralEpochs) {
  const auto order = union_of_shards(3, 8, 8, 1, 0, 3);  // 24 positions = 8 epochs of 3
  for (size_t epoch = 0; epoch < 8; ++epoch) {
    EXPECT_EQ(std::set<int64_t>(order.begin() + epoch * 3, order.begin() + (epoch + 1) * 3).size(), 3u);
  }
}

TEST(Loader, ThrowsTheDatasetsErrorFromNext) {
  auto dataset = std::make_shared<Counting>(10, Counting::Options{.fail_at = 7});
  Loader loader(dataset, Sampler(10, {.shuffle = false}), {.global_batch = 5, .micro_batch = 5});
  EXPECT_EQ(targets(loader.next()), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  for (int again = 0; again < 3; ++again) test::expect_input_error([&] { loader.next(); }, {"sample 7 is broken"});
}

TEST(Loader, GivesUpOnAStuckDataset) {
  auto dataset = std::make_shared<Counting>(4, Counting::Options{.delay = std::chrono::milliseconds(400)});
  Loader loader(dataset, Sampler(4, {}), {.timeout_s = 0.02});
  try {
    loader.next();
    FAIL() << "no error was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("0.02 s"), std::string::npos) << error.what();
  }
}

TEST(Loader, WaitsForAnyNumberOfSeconds) {
  for (const double timeout_s : {1e12, 1e300, std::numeric_limits<double>::infinity()}) {
    auto dataset = std::make_shared<Counting>(4, Counting::Options{.delay = std::chrono::milliseconds(10)});
    Loader loader(dataset, Sampler(4, {}), {.timeout_s = timeout_s});
    EXPECT_NO_THROW(loader.next()) << timeout_s;
  }
}

TEST(Loader, DoesNotWaitForAThreadThatIsStuck) {
  auto dataset = std::make_shared<Counting>(4, Counting::Options{.delay = std::chrono::seconds(2)});
  const auto start = std::chrono::steady_clock::now();
  {
    Loader loader(dataset, Sampler(4, {}), {.timeout_s = 0.02});
    EXPECT_THROW(loader.next(), Error);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  while (dataset.use_count() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(10));  // the abandoned thread ends
}

TEST(Loader, CallsTheCallerWhileItWaits) {
  auto dataset = std::make_shared<Counting>(4, Counting::Options{.delay = std::chrono::seconds(2)});
  const auto start = std::chrono::steady_clock::now();
  int calls = 0;
  const auto enough = [&] {
    if (++calls == 3) throw std::runtime_error("enough");
  };
  {
    Loader loader(dataset, Sampler(4, {}), {.while_waiting = enough});
    EXPECT_THROW(loader.next(), std::runtime_error);
    EXPECT_EQ(calls, 3);
    loader.end(std::chrono::milliseconds(10));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  while (dataset.use_count() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(10));  // the abandoned thread ends
}

TEST(Loader, PreparesAheadAndNoFurther) {
  auto dataset = std::make_shared<Counting>(100);
  Loader loader(dataset, Sampler(100, {}), {.ahead = 3});
  loader.next();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (dataset->calls < 4 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(dataset->calls, 4) << "the one taken, and three more";
}

TEST(Loader, AnyNumberOfWorkersHandsOutTheSameInTheSameOrder) {
  for (const int workers : {0, 1, 2, 5}) {
    auto dataset = std::make_shared<Counting>(23, Counting::Options{.delay = std::chrono::milliseconds(workers > 1 ? 1 : 0)});
    Loader loader(dataset, Sampler(23, {.seed = 4}), {.global_batch = 6, .micro_batch = 3, .workers = workers});
    Loader expected(std::make_shared<Counting>(23), Sampler(23, {.seed = 4}), {.global_batch = 6, .micro_batch = 3});
    for (int i = 0; i < 30; ++i) EXPECT_EQ(targets(loader.next()), targets(expected.next())) << workers << " workers";
    EXPECT_EQ(loader.waits().batches, 30);
    EXPECT_GT(loader.waits().waited_s, 0.0);
  }
}

TEST(Loader, WorkersPrepareNoFurtherThanAhead) {
  auto dataset = std::make_shared<Counting>(100);
  Loader loader(dataset, Sampler(100, {}), {.workers = 4, .ahead = 6});
  loader.next();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (dataset->calls < 7 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(dataset->calls, 7) << "the one taken, and six more";
}

TEST(Loader, AWorkersErrorComesInOrder) {
  for (const int workers : {0, 1, 4}) {
    auto dataset = std::make_shared<Counting>(10, Counting::Options{.fail_at = 7});
    Loader loader(dataset, Sampler(10, {.shuffle = false}), {.global_batch = 2, .micro_batch = 2, .workers = workers});
    for (int i = 0; i < 3; ++i) loader.next();
    for (int again = 0; again < 3; ++again) test::expect_input_error([&] { loader.next(); }, {"sample 7 is broken"});
  }
}

TEST(Loader, PreparesNothingBeforeTheFirstRequest) {
  auto dataset = std::make_shared<Counting>(100);
  {
    const Loader loader(dataset, Sampler(100, {}), {.ahead = 3});
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  EXPECT_EQ(dataset->calls, 0);
}

TEST(Loader, EndsPromptlyWhateverItsThreadIsDoing) {
  for (const auto delay : {0, 20}) {
    for (int taken = 0; taken < 3; ++taken) {
      auto dataset = std::make_shared<Counting>(100, Counting::Options{.delay = std::chrono::milliseconds(delay)});
      auto loader = std::make_unique<Loader>(dataset, Sampler(100, {}), LoaderOptions{.ahead = 2});
      for (int i = 0; i < taken; ++i) loader->next();
      const auto start = std::chrono::steady_clock::now();
      loader.reset();
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
    }
  }
}

TEST(Loader, EndsWhileAThreadTakes) {
  for (const int workers : {1, 2}) {
    auto dataset = std::make_shared<Counting>(100, Counting::Options{.delay = std::chrono::milliseconds(200)});
    Loader loader(dataset, Sampler(100, {}), {.workers = workers});
    auto taker = std::async(std::launch::async, [&] { return loader.next(); });
    while (dataset->calls == 0) std::this_thread::yield();
    auto other = std::async(std::launch::async, [&] { loader.end(std::chrono::seconds(5)); });
    loader.end(std::chrono::seconds(5));
    other.get();
    EXPECT_THROW(taker.get(), Error);
    EXPECT_THROW(loader.next(), Error);
  }
}

TEST(Loader, SeveralThreadsMayTake) {
  auto dataset = std::make_shared<Counting>(400);
  Loader loader(dataset, Sampler(400, {}), {});
  std::vector<std::future<std::vector<int64_t>>> takers;
  for (int t = 0; t < 4; ++t) {
    takers.push_back(std::async(std::launch::async, [&] {
      std::vector<int64_t> out;
      for (int i = 0; i < 100; ++i) out.push_back(loader.next().target.item<int64_t>());
      return out;
    }));
  }
  std::set<int64_t> seen;
  for (auto& taker : takers) {
    for (const int64_t sample : taker.get()) seen.insert(sample);
  }
  EXPECT_EQ(seen.size(), 400u);
}

TEST(Loader, RejectsWhatItCannotSplit) {
  struct Row {
    LoaderOptions options;
    int64_t samples;
    std::vector<std::string> pieces;
  };
  const std::vector<Row> table = {
      {{.global_batch = 30, .micro_batch = 4, .num_shards = 2}, 100, {"batch.global = 30", "4 * 2 = 8", "24 or 32"}},
      {{.global_batch = 5, .micro_batch = 4, .num_shards = 2}, 100, {"batch.global = 5", "the nearest that is: 8"}},
      {{.global_batch = 8, .num_shards = 8}, 5, {"5 samples", "8 data-parallel ranks", "at most 5 ranks"}},
      {{.global_batch = 0}, 5, {"batch.global = 0", "at least 1"}},
      {{.global_batch = 4, .micro_batch = 0}, 5, {"batch.micro = 0", "at least 1"}},
      {{.global_batch = 4, .micro_batch = -2}, 5, {"batch.micro = -2"}},
      {{.global_batch = 4, .shard = 2, .num_shards = 2}, 5, {"shard 2", "2 data-parallel ranks"}},
      {{.num_shards = 0}, 5, {"0 data-parallel ranks"}},
      {{.first_step = -1}, 5, {"-1"}},
      {{.ahead = 0}, 5, {"ahead = 0"}},
      {{.workers = -1}, 5, {"workers = -1"}},
      {{.timeout_s = 0}, 5, {"timeout_s"}},
      {{.timeout_s = -std::numeric_limits<double>::infinity()}, 5, {"timeout_s"}},
      {{.timeout_s = std::numeric_limits<double>::quiet_NaN()}, 5, {"timeout_s"}},
  };
  for (const Row& row : table) {
    test::expect_input_error([&] { Loader(std::make_shared<Counting>(row.samples), Sampler(row.samples, {}), row.options); },
                             row.pieces);
  }
  test::expect_input_error([] { Loader(std::make_shared<Counting>(5), Sampler(6, {}), {}); }, {"6 samples", "5"});
}

/// Dataset whose rows change in length or type each epoch.
class Changing final : public Dataset {
 public:
  explicit Changing(bool in_type) : in_type_(in_type) {}
  int64_t size() const override { return 3; }
  Batch get(const std::vector<int64_t>& indices, int64_t epoch) const override {
    const auto count = static_cast<int64_t>(indices.size());
    const at::ScalarType type = in_type_ && epoch > 0 ? at::kDouble : at::kFloat;
    return {.inputs = {at::zeros({count, in_type_ ? 2 : 2 + epoch}, type)}, .target = at::zeros({count}, at::kLong)};
  }

 private:
  bool in_type_;
};

/// Samples whose memory the host cannot read, as on a GPU.
class Elsewhere final : public Dataset {
 public:
  int64_t size() const override { return 3; }
  Batch get(const std::vector<int64_t>& indices, int64_t) const override {
    const auto count = static_cast<int64_t>(indices.size());
    return {.inputs = {at::empty({count, 2}, at::kMeta)}, .target = at::empty({count}, at::kMeta)};
  }
};

TEST(Loader, JoinsEpochsOfSamplesOnADevice) {
  Loader loader(std::make_shared<Elsewhere>(), Sampler(3, {}), {.global_batch = 2, .micro_batch = 2, .workers = 0});
  for (int i = 0; i < 3; ++i) {
    const Batch batch = loader.next();
    EXPECT_TRUE(batch.inputs[0].is_meta() && batch.target.is_meta()) << i;
    EXPECT_EQ(batch.inputs[0].sizes(), (at::IntArrayRef{2, 2})) << i;
  }
}

TEST(Loader, RefusesRowsThatDifferWithinAMicroBatch) {
  for (const bool in_type : {false, true}) {
    for (const int workers : {0, 1}) {
      Loader loader(std::make_shared<Changing>(in_type), Sampler(3, {}),
                    {.global_batch = 2, .micro_batch = 2, .workers = workers});
      loader.next();
      test::expect_input_error([&] { loader.next(); }, {"sample sizes, types or devices differ"});
    }
  }
}

class Ordered final : public Counting {
 public:
  using Counting::Counting;
  bool is_ordered() const override { return true; }
};

TEST(Loader, KeepsADatasetsOwnOrder) {
  const auto dataset = std::make_shared<Ordered>(4);
  test::expect_input_error([&] { Loader(dataset, Sampler(4, {.seed = 1}), {}); }, {"make it with sampler_of()"});
  EXPECT_EQ(targets(Loader(dataset, sampler_of(*dataset, 1), {.global_batch = 4, .micro_batch = 4}).next()),
            (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(Loader, PinsMemoryIfThereIsAGpu) {
  const auto dataset = std::make_shared<Counting>(5);
  const auto next = [&](bool pinned) { return Loader(dataset, Sampler(5, {}), {.pinned = pinned}).next(); };
  EXPECT_FALSE(next(false).target.is_pinned());
  if (at::hasCUDA()) {
    EXPECT_TRUE(next(true).target.is_pinned());
  } else {
    test::expect_input_error([&] { next(true); }, {"pinned memory needs a GPU"});
  }
}

TEST(EvaluationLoader, SharesHoldEverySampleOnceInOrder) {
  for (const int64_t size : {1, 2, 3, 10, 97}) {
    for (const int shards : {1, 2, 3, 4, 16}) {
      for (const int64_t micro : {1, 4, 7, 200}) {
        auto dataset = std::make_shared<Counting>(size);
        std::vector<int64_t> seen;
        for (int d = 0; d < shards; ++d) {
          EvaluationLoader loader(dataset, micro, d, shards);
          for (int pass = 0; pass < 2; ++pass) {
            Batch batch;
            std::vector<int64_t> share;
            while (loader.next(batch)) {
              EXPECT_LE(batch.target.size(0), micro);
              EXPECT_EQ(batch.first_sample, batch.target[0].item<int64_t>());
              for (const int64_t target : targets(batch)) share.push_back(target);
            }
            EXPECT_FALSE(loader.next(batch)) << "done stays done";
            loader.rewind();
            if (pass == 0) seen.insert(seen.end(), share.begin(), share.end());
            EXPECT_TRUE(std::equal(share.rbegin(), share.rend(), seen.rbegin())) << "rewind repeats the share";
          }
        }
        std::vector<int64_t> expected(size);
        for (int64_t i = 0; i < size; ++i) expected[i] = i;
        EXPECT_EQ(seen, expected) << size << " samples, " << shards << " shards, micro-batch " << micro;
      }
    }
  }
}

TEST(EvaluationLoader, RefusesBadArguments) {
  auto dataset = std::make_shared<Counting>(5);
  test::expect_input_error([&] { EvaluationLoader(dataset, 0, 0, 1); }, {"micro-batch of 0"});
  test::expect_input_error([&] { EvaluationLoader(dataset, 1, 2, 2); }, {"shard 2"});
}

}  // namespace
}  // namespace weft
