// Training on randomly augmented images: the same bits with any number of ranks and workers, also when these share a
// micro-batch, and when resumed in the middle of an epoch.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/data/images/image_files.h"
#include "tests/data/temp_folder.h"
#include "tests/train/run/train_on_ranks.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/train/run/train.h"

namespace weft::augmented_data_test {
namespace {

using Keys = std::vector<std::string>;

struct Case {
  std::string name;
  Keys keys;
};

/// 20 images of 112 x 112: a micro-batch of 4 has two shares (micro_batches.h).
class AugmentedData : public ::testing::TestWithParam<Case> {
 protected:
  AugmentedData() {
    for (const std::string part : {"train", "val"}) {
      for (int i = 0; i < 20; ++i) {
        test::Pixels pixels = test::gradient(112, 112, 3);
        for (size_t k = 0; k < pixels.size(); k += static_cast<size_t>(i + 3)) pixels[k] = static_cast<uint8_t>(11 * i);
        const std::string name = fmt::format("{}/{}/{:02}.jpg", part, i % 3, i);
        std::filesystem::create_directories((folder_.path() / name).parent_path());
        folder_.write(name, test::jpeg_of(pixels, 112, 112, 3));
      }
    }
  }

  FinalReport run(int ranks, const Keys& more) const {
    Keys all = {"data.path=" + folder_.path().string()};
    all.insert(all.end(), GetParam().keys.begin(), GetParam().keys.end());
    all.insert(all.end(), more.begin(), more.end());
    const Recipe recipe = parse_recipe(
        "model = { name = \"mlp\", layers = 1, width = 4, channels = 3, image_size = 112, classes = 3 }\n"
        "data = { name = \"image-folder\", flip = true }\nbatch = { global = 16, micro = 4 }\n"
        "run = { steps = 4, seed = 3, threads = 1, reproducible_slots = 4, evaluate_every = 4 }",
        "r.toml", all);
    return test::train_on_ranks(ranks, recipe);
  }

  test::TempFolder folder_;
};

TEST_P(AugmentedData, TrainsTheSameOnAnyNumberOfRanksAndWorkers) {
  const FinalReport alone = run(1, {"data.workers=0"});
  for (const auto& [ranks, workers] : {std::pair{1, 1}, {1, 4}, {2, 0}, {2, 4}, {4, 1}, {4, 4}}) {
    const FinalReport other = run(ranks, {fmt::format("data.workers={}", workers)});
    EXPECT_EQ(other.weights_sha256, alone.weights_sha256) << ranks << " ranks, " << workers << " workers";
    EXPECT_EQ(other.evaluation->loss, alone.evaluation->loss) << ranks << " ranks, " << workers << " workers";
  }
  EXPECT_NE(run(1, {"data.flip=false"}).weights_sha256, alone.weights_sha256);
  EXPECT_NE(run(1, {"run.seed=4"}).weights_sha256, alone.weights_sha256);
}

TEST_P(AugmentedData, ResumesInTheMiddleOfAnEpoch) {
  const std::string whole = run(1, {}).weights_sha256;
  FinalReport last;
  for (const auto& [ranks, steps] : {std::pair{1, 1}, {2, 3}, {4, 4}}) {  // 16 and 48 samples, of epochs of 20
    last = run(ranks, {"save.folder=" + folder_.file("saved"), fmt::format("run.steps={}", steps),
                       fmt::format("data.workers={}", ranks)});
  }
  EXPECT_EQ(last.resumed_from, 3);
  EXPECT_EQ(last.weights_sha256, whole);
}

INSTANTIATE_TEST_SUITE_P(Table, AugmentedData,
                         testing::Values(Case{"part", {"data.least_area=0.2"}}, Case{"padding", {"data.crop_padding=9"}},
                                         Case{"mixup", {"data.least_area=0.2", "data.mixup=0.3", "model.label_smoothing=0.1"}}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace weft::augmented_data_test
