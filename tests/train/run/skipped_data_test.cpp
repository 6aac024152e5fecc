// Runs over a set with damaged images: the skipped data, the training result and the report, on any number of ranks.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "tests/data/images/image_files.h"
#include "tests/data/temp_folder.h"
#include "tests/support/refusal.h"
#include "tests/support/run_ranks.h"
#include "tests/train/run/train_on_ranks.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/train/run/train.h"

namespace weft::skipped_data_test {
namespace {

class SkippedData : public ::testing::Test {
 protected:
  SkippedData() {
    for (const std::string part : {"train", "val"}) {
      for (int i = 0; i < 24; ++i) {
        const std::string name = part + (i % 2 == 0 ? "/ant/" : "/bee/") + std::to_string(100 + i) + ".png";
        std::filesystem::create_directories((folder_.path() / name).parent_path());
        std::string bytes = test::png_of(test::Pixels(8 * 8 * 3, static_cast<uint8_t>(10 * i)), 8, 8, 3);
        if (i == 5 || i == 16) bytes.resize(60);
        folder_.write(name, bytes);
      }
    }
  }

  Recipe recipe(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"data.path=" + folder_.path().string()};
    all.insert(all.end(), more.begin(), more.end());
    return parse_recipe(
        "model = { name = \"mlp\", layers = 1, width = 8, channels = 3, image_size = 8, classes = 2 }\n"
        "data = { name = \"image-folder\", flip = true }\nbatch = { global = 8, micro = 2 }\n"
        "run = { steps = 5, seed = 3, threads = 1, reproducible_slots = 4, evaluate_every = 5 }",
        "r.toml", all);
  }

  FinalReport run(int ranks, int workers) const {
    const Recipe one = recipe({"data.skip_bad=true", "data.workers=" + std::to_string(workers)});
    return test::train_on_ranks(ranks, one);
  }

  test::TempFolder folder_;
};

TEST_F(SkippedData, IsTheSameOnAnyNumberOfRanks) {
  const FinalReport alone = run(1, 0);
  const std::vector<std::string> expected = {folder_.file("train/ant/116.png"), folder_.file("train/bee/105.png"),
                                             folder_.file("val/ant/116.png"), folder_.file("val/bee/105.png")};
  EXPECT_EQ(alone.skipped_data, expected) << "40 samples are more than an epoch of 24";
  for (const auto& [ranks, workers] : {std::pair{2, 1}, {4, 4}}) {
    const FinalReport other = run(ranks, workers);
    EXPECT_EQ(other.skipped_data, expected) << ranks << " ranks";
    EXPECT_EQ(other.weights_sha256, alone.weights_sha256) << ranks << " ranks";
    EXPECT_EQ(other.evaluation->accuracy, alone.evaluation->accuracy) << ranks << " ranks";
  }
  const double counted = 22.0 * *alone.evaluation->accuracy;
  EXPECT_NEAR(counted, std::round(counted), 1e-9) << "of 24 images two do not count";
}

TEST_F(SkippedData, IsRefusedUnlessAskedFor) {
  std::string text;
  test::run_ranks(1, [&](const World& world) { text = test::refusal([&] { train(recipe({}), world); }); });
  EXPECT_NE(text.find("not a whole PNG image"), std::string::npos) << text;
  EXPECT_NE(text.find("fix or remove it, or set data.skip_bad = true"), std::string::npos) << text;
  EXPECT_NE(test::refusal([&] {
              recipe({"data.name=text", "model.name=gpt", "model.heads=2", "data.skip_bad=true"});
            }).find("data.skip_bad skips damaged images and rows; data.name = \"text\" has none"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::skipped_data_test
