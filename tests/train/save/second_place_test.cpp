#include "weft/train/save/second_place.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/data/temp_folder.h"
#include "weft/checkpoint/format/checkpoint_folder.h"
#include "weft/checkpoint/storage/open_storage.h"

namespace weft::second_place_test {
namespace {

class SecondPlaceTest : public testing::Test {
 protected:
  static void make(const std::string& folder, int64_t step) {
    const std::unique_ptr<Storage> storage = open_storage(folder);
    complete_checkpoint(*storage, checkpoint_name(step), {});
  }
  std::string finish(std::optional<int64_t> newest, const std::string& failure = "") {
    SecondPlace place({.folder = folder_, .upload = upload_, .failure = failure});
    return place.finish(newest, [] { return false; });
  }
  bool has(int64_t step) const { return is_complete(*open_storage(upload_), checkpoint_name(step)); }

  test::TempFolder files_;
  std::string folder_ = files_.file("a"), upload_ = files_.file("b");
};

/// It could not be reached when the run began, and nothing was left to copy at its end.
TEST_F(SecondPlaceTest, LacksNothingThatIsThere) {
  make(folder_, 5);
  make(upload_, 5);
  EXPECT_EQ(finish(5, "it was away"), "");
  EXPECT_EQ(finish(std::nullopt, "it was away"), "");
}

/// Not one that the run has passed over as damaged.
TEST_F(SecondPlaceTest, HasTheNewestOfTheRun) {
  make(folder_, 5);
  make(folder_, 9);
  EXPECT_EQ(finish(5), "");
  EXPECT_TRUE(has(5));
  EXPECT_FALSE(has(9));
}

TEST_F(SecondPlaceTest, SaysWhatItLacks) {
  upload_ = files_.write("c", "a file") + "/below";
  make(folder_, 5);
  EXPECT_NE(finish(5).find("the newest checkpoint is not in save.upload"), std::string::npos);
}

}  // namespace
}  // namespace weft::second_place_test
