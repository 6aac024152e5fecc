// Folders of images as a recipe names them.
#include "weft/train/recipe/open_data.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/data/images/image_files.h"
#include "tests/data/temp_folder.h"
#include "tests/support/refusal.h"
#include "weft/train/recipe/read_recipe.h"

namespace weft::open_data_test {
namespace {

class ImageFolders : public ::testing::Test {
 protected:
  void add(const std::string& place) {
    std::filesystem::create_directories(folder_.path() / place);
    folder_.write(place + "/a.png", test::png_of(test::gradient(8, 8, 3), 8, 8, 3));
  }
  Datasets open(int classes) const {
    return open_data(parse_recipe("model = { name = \"resnet\", depth = 8, channels = 3, image_size = 8, classes = " +
                                      std::to_string(classes) + " }\ndata = { name = \"image-folder\", path = \"" +
                                      folder_.path().string() + "\" }\nbatch = { global = 1 }\nrun = { steps = 1 }",
                                  "r.toml"));
  }

  test::TempFolder folder_;
};

TEST_F(ImageFolders, HaveTheSameClassesInBothParts) {
  for (const char* place : {"train/ant", "train/bee", "val/ant", "val/bee"}) add(place);
  const Datasets good = open(2);
  EXPECT_EQ(good.training->size() * 10 + good.evaluation->size(), 22);
  EXPECT_EQ(good.evaluation->get({1}, 0).target[0].item<int64_t>(), 1);
  add("train/cow");
  EXPECT_NE(test::refusal([&] { open(2); }).find("has 3 classes, but model.classes is 2"), std::string::npos);
  EXPECT_NE(test::refusal([&] { open(3); }).find("none where that has 'cow'"), std::string::npos);
  add("val/cat");
  EXPECT_NE(test::refusal([&] { open(3); }).find("'cat' where that has 'cow'"), std::string::npos);
}

TEST_F(ImageFolders, NeedAPartOfEachKind) {
  add("train/ant");
  EXPECT_NE(
      test::refusal([&] { open(2); }).find("no folder 'val' or 'validation' or 'test' or 'evaluation' in it, for evaluation"),
      std::string::npos);
}

}  // namespace
}  // namespace weft::open_data_test
