// Micro-batches that a loader's workers fill together, one share each.
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/data/expect_input_error.h"
#include "weft/data/loader.h"

namespace weft {
namespace {

constexpr int64_t kNumel = 40'000;  // 160 KB per sample: one per share
constexpr int64_t kSize = 23;

/// Sample i: its first and last number are i and the epoch; a few are bad. Early ones take longer, so that shares finish out of
/// order.
class Wide : public Dataset, public FillsRows {
 public:
  struct Options {
    std::vector<int64_t> broken = {};
    bool slow = false;
  };
  Wide() = default;
  explicit Wide(Options options) : options_(std::move(options)) {}

  int64_t size() const override { return kSize; }
  Batch get(const std::vector<int64_t>& indices, int64_t epoch) const override {
    whole_calls.fetch_add(1);
    Batch batch = make_rows(static_cast<int64_t>(indices.size()));
    for (size_t row = 0; row < indices.size(); ++row) {
      fill_row(indices[row], epoch, batch, static_cast<int64_t>(row), batch.skipped);
    }
    return batch;
  }
  Batch make_rows(int64_t count) const override {
    rooms.fetch_add(1);
    return {.inputs = {at::empty({count, kNumel}, at::kFloat)}, .target = at::empty({count}, at::kLong)};
  }
  void fill_row(int64_t index, int64_t epoch, Batch& rows, int64_t row, std::vector<std::string>& skipped) const override {
    if (options_.slow) std::this_thread::sleep_for(std::chrono::milliseconds(row % 3 == 0 ? 3 : 0));
    if (std::find(options_.broken.begin(), options_.broken.end(), index) != options_.broken.end()) {
      throw InputError(fmt::format("sample {} is broken", index));
    }
    float* out = rows.inputs.front().mutable_data_ptr<float>() + row * kNumel;
    out[0] = static_cast<float>(index);
    out[kNumel - 1] = static_cast<float>(epoch);
    rows.target.mutable_data_ptr<int64_t>()[row] = index;
    if (index % 4 == 0) skipped.push_back(fmt::format("{} of {}", index, epoch));
  }

  mutable std::atomic<int> whole_calls{0}, rooms{0};

 private:
  Options options_;
};

/// All of a batch's contents as text.
std::string text_of(const Batch& batch) {
  std::string text = fmt::format("{}:", batch.first_sample);
  const auto* input = batch.inputs.front().const_data_ptr<float>();
  for (int64_t i = 0; i < batch.target.size(0); ++i) {
    text += fmt::format(" {}/{}/{}", input[i * kNumel], input[(i + 1) * kNumel - 1], batch.target.const_data_ptr<int64_t>()[i]);
  }
  for (const std::string& name : batch.skipped) text += ", " + name;
  return text;
}

TEST(LoaderShares, AnyNumberOfWorkersFillsTheSame) {
  for (const int workers : {1, 2, 4, 9}) {
    for (const int ahead : {1, 3}) {
      auto dataset = std::make_shared<Wide>(Wide::Options{.slow = true});
      Loader loader(dataset, Sampler(kSize, {.seed = 4}),
                    {.global_batch = 10, .micro_batch = 5, .workers = workers, .ahead = ahead});
      Loader expected(std::make_shared<Wide>(), Sampler(kSize, {.seed = 4}),
                      {.global_batch = 10, .micro_batch = 5, .workers = 0});
      for (int i = 0; i < 20; ++i) EXPECT_EQ(text_of(loader.next()), text_of(expected.next())) << workers << ", " << ahead;
      EXPECT_EQ(dataset->whole_calls, 0) << "each worker made its own";
      EXPECT_EQ(loader.skipped(), expected.skipped());
    }
  }
}

TEST(LoaderShares, KeepsNoMoreMicroBatchesThanAhead) {
  for (const int workers : {2, 4}) {
    auto dataset = std::make_shared<Wide>();
    Loader loader(dataset, Sampler(kSize, {}), {.global_batch = 5, .micro_batch = 5, .workers = workers, .ahead = 1});
    const int before = dataset->rooms;  // the constructor asks for the row size
    const Batch first = loader.next();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_EQ(dataset->rooms - before, 2) << "the one taken, and one more";
  }
}

TEST(LoaderShares, MoreWorkersThanSharesAreBusy) {
  auto dataset = std::make_shared<Wide>(Wide::Options{.slow = true});
  Loader loader(dataset, Sampler(kSize, {}), {.global_batch = 2, .micro_batch = 2, .workers = 6, .ahead = 1});
  const int before = dataset->rooms;
  loader.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  EXPECT_EQ(dataset->rooms - before, 1 + 3) << "two shares each for six workers";
}

TEST(LoaderShares, ReportsTheFirstBrokenSampleOfAMicroBatchInOrder) {
  for (const int workers : {1, 2, 4}) {
    for (int round = 0; round < 10; ++round) {
      // Samples 15 to 19 are the fourth micro-batch: its first row takes longer than the failing ones after it.
      auto dataset = std::make_shared<Wide>(Wide::Options{.broken = {15, 16, 19}, .slow = true});
      Loader loader(dataset, Sampler(kSize, {.shuffle = false}),
                    {.global_batch = 5, .micro_batch = 5, .workers = workers, .ahead = 2});
      for (int i = 0; i < 3; ++i) EXPECT_EQ(loader.next().first_sample, 5 * i);
      for (int again = 0; again < 2; ++again) test::expect_input_error([&] { loader.next(); }, {"sample 15 is broken"});
    }
  }
}

}  // namespace
}  // namespace weft
