// Skipped damaged images: which ones replace them, what remains of truncated files, and what is reported.
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "tests/data/expect_input_error.h"
#include "tests/data/images/image_files.h"
#include "tests/data/temp_folder.h"
#include "weft/data/evaluation_loader.h"
#include "weft/data/images/cifar.h"
#include "weft/data/images/idx_images.h"
#include "weft/data/images/image_folder.h"
#include "weft/data/images/image_set.h"
#include "weft/data/loader.h"

namespace weft::bad_images_test {
namespace {

using Names = std::vector<std::string>;

/// 40 images of 8 x 8 pixels, each of one colour, its number; every seventh is truncated, one is WebP, and one class is empty.
class BadFolder : public ::testing::Test {
 protected:
  static constexpr int64_t kImages = 40;

  BadFolder() {
    for (const char* place : {"ant", "bee", "cow"}) std::filesystem::create_directories(folder_.path() / place);
    for (int64_t i = 0; i < kImages; ++i) {
      const std::string name = (i < 20 ? "ant/" : "cow/") + std::to_string(100 + i) + ".png";
      std::string bytes = test::png_of(test::Pixels(8 * 8 * 3, static_cast<uint8_t>(6 * i)), 8, 8, 3);
      if (i == 10) bytes = "RIFF\x24" + std::string(3, '\0') + "WEBPVP8 ";
      if (i % 7 == 3) bytes.resize(bytes.size() / 2);
      if (i % 7 == 3 || i == 10) bad_.push_back(folder_.file(name));
      folder_.write(name, bytes);
    }
  }

  std::shared_ptr<Dataset> open(BadSample bad) const {
    return open_image_set(open_image_folder(folder_.path().string(), {}, BadData::skip),
                          {.height = 8, .width = 8, .mean = {0.0}, .stddev = {1.0}, .seed = 5, .bad = bad});
  }
  /// Number of the image in a sample.
  static int64_t image(const Batch& batch, int64_t i) {
    return std::lround(batch.inputs[0][i][0][0][0].item<double>() * 255.0 / 6.0);
  }
  static bool is_bad(int64_t image) { return image % 7 == 3 || image == 10; }

  test::TempFolder folder_;
  Names bad_;
};

TEST_F(BadFolder, OthersReplaceBadImages) {
  const auto set = open(BadSample::replace);
  EXPECT_EQ(set->size(), kImages);
  EXPECT_EQ(set->left_out(), DataNotes{folder_.file("bee") + ": no image (.jpg, .jpeg, .jfif, .png) in this class"});
  std::vector<int64_t> all(kImages), stand_ins;
  for (int64_t i = 0; i < kImages; ++i) all[i] = i;
  for (const int64_t epoch : {0, 1}) {
    const Batch batch = set->get(all, epoch);
    for (int64_t i = 0; i < kImages; ++i) {
      const int64_t found = image(batch, i);
      EXPECT_EQ(batch.target[i].item<int64_t>(), found < 20 ? 0 : 2) << "the label is that of the image; the empty class has 1";
      EXPECT_EQ(found == i, !is_bad(i)) << "good ones stay where they are";
      EXPECT_FALSE(is_bad(found)) << i;
      if (is_bad(i)) stand_ins.push_back(found);
    }
    const std::set<std::string> named(batch.skipped.begin(), batch.skipped.end());
    EXPECT_EQ(Names(named.begin(), named.end()), bad_);
    EXPECT_TRUE(at::equal(set->get({10, 3}, epoch).inputs[0][1], batch.inputs[0][3])) << "the same when read alone";
  }
  const auto half = static_cast<int64_t>(stand_ins.size() / 2);
  EXPECT_FALSE(std::equal(stand_ins.begin(), stand_ins.begin() + half, stand_ins.begin() + half)) << "another epoch, others";
}

TEST_F(BadFolder, BadImagesDoNotCountInAnEvaluation) {
  const auto set = open(BadSample::ignore);
  EvaluationLoader loader(set, 7, 0, 1);
  int64_t at = 0, counted = 0;
  for (Batch batch; loader.next(batch);) {
    for (int64_t i = 0; i < batch.target.size(0); ++i, ++at) {
      const int64_t label = batch.target[i].item<int64_t>();
      EXPECT_EQ(label, is_bad(at) ? kIgnore : at < 20 ? 0 : 2);
      counted += label == kIgnore ? 0 : 1;
    }
  }
  EXPECT_EQ(counted, kImages - static_cast<int64_t>(bad_.size()));
  EXPECT_EQ(loader.skipped(), bad_);
}

/// Samples trained on, by position of the run, and those skipped.
struct Trained {
  std::map<int64_t, int64_t> images;
  std::set<std::string> skipped;
};

TEST_F(BadFolder, SkippedImagesAreIndependentOfRanksWorkersAndRestarts) {
  constexpr int64_t kGlobal = 12, kSteps = 5;  // into the second epoch
  const auto set = open(BadSample::replace);
  const auto train = [&](int ranks, int workers, int64_t restart_at) {
    Trained trained;
    for (int rank = 0; rank < ranks; ++rank) {
      for (const auto& [first, last] : {std::pair<int64_t, int64_t>{0, restart_at}, {restart_at, kSteps}}) {
        Loader loader(set, Sampler(kImages, {.seed = 5}),
                      {.global_batch = kGlobal,
                       .micro_batch = 3,
                       .shard = rank,
                       .num_shards = ranks,
                       .first_step = first,
                       .workers = workers});
        for (int64_t i = 0; i < (last - first) * loader.micro_batches_per_step(); ++i) {
          const Batch batch = loader.next();
          for (int64_t j = 0; j < 3; ++j) trained.images[batch.first_sample + j] = image(batch, j);
        }
        for (const std::string& name : loader.skipped()) trained.skipped.insert(name);
      }
    }
    return trained;
  };
  const Trained one = train(1, 0, 0);
  EXPECT_EQ(one.images.size(), static_cast<size_t>(kGlobal * kSteps));
  EXPECT_EQ(Names(one.skipped.begin(), one.skipped.end()), bad_) << "more than an epoch meets them all";
  std::map<int64_t, int64_t> times;
  for (int64_t i = 0; i < kImages; ++i) ++times[one.images.at(i)];
  for (int64_t i = 0; i < kImages; ++i) EXPECT_EQ(times[i] > 0, !is_bad(i)) << "each good image in the first epoch, " << i;
  for (const int ranks : {1, 2, 4}) {
    for (const int workers : {0, 1, 4}) {
      const Trained other = train(ranks, workers, 2);
      EXPECT_EQ(other.images, one.images) << ranks << " ranks, " << workers << " workers";
      EXPECT_EQ(other.skipped, one.skipped) << ranks << " ranks, " << workers << " workers";
    }
  }
}

TEST_F(BadFolder, AFailedReadIsNotABadImage) {
  const auto set = open(BadSample::replace);
  std::filesystem::remove(folder_.file("ant/100.png"));
  test::expect_input_error([&] { set->get({0}, 0); }, {"100.png", "No such file"});
}

std::string cifar_records(const std::vector<int>& labels) {
  std::string records;
  for (const int label : labels) records += static_cast<char>(label) + std::string(3072, static_cast<char>(label));
  return records;
}

TEST(BadCifar, WholeRecordsWithGoodLabelsRemain) {
  const test::TempFolder folder;
  const std::string file = folder.write("test_batch.bin", cifar_records({1, 12, 3, 4}) + "cut off");
  const auto source = open_cifar(folder.path().string(), CifarKind::cifar10, false, BadData::skip);
  ASSERT_EQ(source->size(), 3);
  EXPECT_EQ(source->label(0) * 100 + source->label(1) * 10 + source->label(2), 134);
  EXPECT_EQ(source->name(1), file + ", image 2") << "numbered as in the file";
  const Picture picture = source->decode(1, [](int64_t h, int64_t w) { return Crop{0, 0, h, w, h, w}; }).picture;
  EXPECT_EQ(picture.pixels[0], 3);
  EXPECT_EQ(source->left_out(),
            (DataNotes{file + ": its last 7 bytes, less than an image", file + ", image 1: label 12 is not below 10"}));
  folder.write("test_batch.bin", cifar_records({12}));
  test::expect_input_error([&] { open_cifar(folder.path().string(), CifarKind::cifar10, false, BadData::skip); },
                           {"no usable image"});
}

std::string big_endian(uint32_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
  return out;
}

TEST(BadIdx, WholeImagesWithGoodLabelsRemain) {
  const test::TempFolder folder;
  const std::string pixels(5 * 16, 'p');
  const std::string images = big_endian(0x803) + big_endian(5) + big_endian(4) + big_endian(4) + pixels;
  const std::string labels = big_endian(0x801) + big_endian(5) + std::string("\1\2\7\0\1", 5);
  ImageFiles files{.images = folder.write("images", images.substr(0, images.size() - 3)),
                   .labels = folder.write("labels", labels),
                   .classes = 3};
  test::expect_input_error([&] { open_idx_images(files); }, {"images", "truncated", "or set data.skip_bad = true"});
  files.bad = BadData::skip;
  const auto source = open_idx_images(files);
  ASSERT_EQ(source->size(), 3) << "of five, one is truncated and one has label 7";
  EXPECT_EQ(source->label(0) * 100 + source->label(1) * 10 + source->label(2), 120);
  EXPECT_EQ(source->name(2), files.images + ", image 3");
  EXPECT_EQ(source->left_out(),
            (DataNotes{files.images + ": 1 image at its end, truncated", files.labels + ": label 7 at index 2"}));
  folder.write("labels", labels.substr(0, labels.size() - 4));
  EXPECT_EQ(open_idx_images(files)->size(), 1) << "there is one label";
  folder.write("labels", big_endian(0x801) + big_endian(4) + std::string("\1\2\0\0", 4));
  test::expect_input_error([&] { open_idx_images(files); }, {"5 images", "4 labels"});
}

}  // namespace
}  // namespace weft::bad_images_test
