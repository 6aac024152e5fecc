// Images from all kinds of files, and samples made from them: exact values without augmentation; with it, equal for all readers
// of a sample of an epoch.
#include "weft/data/images/image_set.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <set>

#include "tests/data/expect_input_error.h"
#include "tests/data/images/image_files.h"
#include "tests/data/temp_folder.h"
#include "weft/data/images/cifar.h"
#include "weft/data/images/decode_image.h"
#include "weft/data/images/image_folder.h"
#include "weft/data/images/resample.h"

namespace weft::image_set_test {
namespace {

using test::expect_input_error;
using test::gradient;
using test::TempFolder;

/// Pictures of the test, in memory.
class Pictures final : public ImageSource {
 public:
  Pictures(int64_t count, int64_t height, int64_t width, int64_t channels)
      : count_(count), picture_{height, width, channels, gradient(height, width, channels)} {}
  int64_t size() const override { return count_; }
  int64_t label(int64_t index) const override { return index % 3; }
  std::string name(int64_t index) const override { return "picture " + std::to_string(index); }
  DecodedCrop decode(int64_t /*index*/, ChooseCrop choose) const override { return crop_picture(picture_, choose); }

 private:
  int64_t count_;
  Picture picture_;
};

TEST(ImageSet, SamplesAreThePixelsScaled) {
  const auto set = open_image_set(std::make_shared<Pictures>(4, 6, 5, 3),
                                  {.height = 8, .width = 7, .mean = {0.1, 0.2, 0.3}, .stddev = {0.5, 0.6, 0.7}});
  const Batch batch = set->get({3, 1}, 0);
  ASSERT_EQ(batch.inputs[0].sizes(), (at::IntArrayRef{2, 3, 8, 7}));
  EXPECT_EQ(batch.target[0].item<int64_t>() * 10 + batch.target[1].item<int64_t>(), 1);
  const test::Pixels pixels = gradient(6, 5, 3);
  const double mean[] = {0.1, 0.2, 0.3}, stddev[] = {0.5, 0.6, 0.7};
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t y = 0; y < 8; ++y) {
      for (int64_t x = 0; x < 7; ++x) {
        const bool inside = y >= 1 && y < 7 && x >= 1 && x < 6;
        const double byte = inside ? pixels[((y - 1) * 5 + x - 1) * 3 + c] : 0;
        EXPECT_NEAR(batch.inputs[0][0][c][y][x].item<double>(), (byte / 255.0 - mean[c]) / stddev[c], 1e-6) << c << y << x;
      }
    }
  }
}

TEST(ImageSet, OneChannelFillsThree) {
  const at::Tensor image =
      open_image_set(std::make_shared<Pictures>(1, 8, 8, 1), {.height = 8, .width = 8})->get({0}, 0).inputs[0][0];
  EXPECT_TRUE(at::equal(image[0], image[1]) && at::equal(image[0], image[2]));
}

TEST(ImageSet, AugmentationDependsOnSeedEpochAndSampleAlone) {
  const auto source = std::make_shared<Pictures>(40, 20, 24, 3);
  const auto open = [&](uint64_t seed) {
    return open_image_set(
        source,
        {.height = 16, .width = 16, .augmentation = {.crop_padding = 3, .flip = true, .least_area = 0.3}, .seed = seed});
  };
  const at::Tensor whole = open(1)->get({0, 1, 2, 3, 4, 5, 6, 7}, 2).inputs[0];
  EXPECT_TRUE(at::equal(open(1)->get({5}, 2).inputs[0][0], whole[5])) << "read alone, from another set";
  EXPECT_FALSE(at::equal(open(1)->get({5}, 3).inputs[0][0], whole[5])) << "another epoch";
  EXPECT_FALSE(at::equal(open(2)->get({5}, 2).inputs[0][0], whole[5])) << "another seed";
  EXPECT_FALSE(at::equal(whole[4], whole[5])) << "another sample";
}

/// The picture has a different value in each pixel, so a sample shows where it came from.
TEST(ImageSet, MovesByEveryOffsetAndFlipsHalf) {
  constexpr int64_t kSamples = 400;
  class Point final : public ImageSource {
   public:
    int64_t size() const override { return kSamples; }
    int64_t label(int64_t /*index*/) const override { return 0; }
    std::string name(int64_t /*index*/) const override { return "point"; }
    DecodedCrop decode(int64_t /*index*/, ChooseCrop choose) const override {
      Picture picture{8, 8, 1, test::Pixels(64, 0)};
      picture.pixels[3 * 8 + 2] = 255;  // row 3, pixel 2
      return crop_picture(picture, choose);
    }
  };
  const auto set = open_image_set(std::make_shared<Point>(), {.channels = 1,
                                                              .height = 8,
                                                              .width = 8,
                                                              .mean = {0.0},
                                                              .stddev = {1.0},
                                                              .augmentation = {.crop_padding = 2, .flip = true}});
  std::set<std::pair<int64_t, int64_t>> places;
  int64_t flipped = 0;
  for (int64_t i = 0; i < kSamples; ++i) {
    const int64_t at = set->get({i}, 0).inputs[0].flatten().argmax().item<int64_t>();
    places.insert({at / 8, at % 8});
    flipped += at % 8 > 4 ? 1 : 0;
  }
  std::set<std::pair<int64_t, int64_t>> expected;
  for (int64_t y = 1; y <= 5; ++y) {
    for (int64_t x = 0; x <= 7; ++x) expected.insert({y, x});  // 2 - 2 ... 2 + 2, also mirrored
  }
  EXPECT_EQ(places, expected);
  EXPECT_NEAR(static_cast<double>(flipped), 0.3 * kSamples, 0.1 * kSamples) << "pixels 5 to 7 of 3 to 7";
}

TEST(ImageSet, ReadsFoldersOfClassesInJpegAndPng) {
  const TempFolder folder;
  for (const char* part : {"ant", "bee/inner", ".hidden"}) std::filesystem::create_directories(folder.path() / part);
  const test::Pixels colour = gradient(40, 30, 3), grey = gradient(40, 30, 1);
  folder.write("ant/b.jpg", test::jpeg_of(colour, 40, 30, 3));
  folder.write("ant/a.PNG", test::png_of(colour, 40, 30, 3));
  folder.write("ant/notes.txt", "no image");
  folder.write("bee/inner/c.jpeg", test::jpeg_of(grey, 40, 30, 1));
  const auto source = open_image_folder(folder.path().string(), {});
  EXPECT_EQ(image_classes(folder.path().string()), (std::vector<std::string>{"ant", "bee"}));
  ASSERT_EQ(source->size(), 3);
  EXPECT_EQ(source->name(0), folder.file("ant/a.PNG"));
  EXPECT_EQ(source->label(1) * 10 + source->label(2), 1);
  const at::Tensor images =
      open_image_set(source, {.height = 40, .width = 30, .mean = {0.0}, .stddev = {1.0}})->get({0, 1, 2}, 0).inputs[0];
  for (int64_t i = 0; i < 40 * 30 * 3; ++i) {
    const int64_t c = i % 3, x = i / 3 % 30, y = i / 90;
    EXPECT_NEAR(images[0][c][y][x].item<float>(), colour[i] / 255.0, 1e-6);
    EXPECT_NEAR(images[1][c][y][x].item<float>(), colour[i] / 255.0, 0.03) << "of a JPEG";
    EXPECT_NEAR(images[2][c][y][x].item<float>(), grey[i / 3] / 255.0, 0.03) << "of a grey one";
  }
}

TEST(ImageSet, OtherFilesAreListedAndNotRead) {
  const TempFolder folder;
  for (const char* part : {"ant/.ipynb_checkpoints", "ant/deep", "__MACOSX/ant", ".cache"}) {
    std::filesystem::create_directories(folder.path() / part);
  }
  const std::string jpeg = test::jpeg_of(gradient(8, 8, 3), 8, 8, 3);
  for (const char* name : {"ant/a.JpG", "ant/b.jfif", "ant/._a.jpg", "ant/.ipynb_checkpoints/a-checkpoint.jpg",
                           "ant/deep/c.webp", "ant/d.BMP", "__MACOSX/ant/._a.jpg", "stray.jpg"}) {
    folder.write(name, jpeg);
  }
  const auto source = open_image_folder(folder.path().string(), {});
  ASSERT_EQ(source->size(), 2);
  EXPECT_EQ(source->name(0) + source->name(1), folder.file("ant/a.JpG") + folder.file("ant/b.jfif"));
  EXPECT_EQ(image_classes(folder.path().string()), std::vector<std::string>{"ant"});
  DataNotes notes = open_image_set(source, {})->passed_over(), expected;
  for (const char* name : {"ant/._a.jpg", "ant/.ipynb_checkpoints", "__MACOSX", ".cache"}) {
    expected.push_back(folder.file(name) + " (hidden)");
  }
  expected.push_back(folder.file("stray.jpg") + " (not in a class folder)");
  for (const char* name : {"ant/deep/c.webp", "ant/d.BMP"}) {
    expected.push_back(folder.file(name) + " (no .jpg, .jpeg, .jfif, .png)");
  }
  std::sort(notes.begin(), notes.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(notes, expected);
  std::filesystem::create_directories(folder.path() / "bee");
  folder.write("bee/a.webp", "RIFF");
  expect_input_error([&] { open_image_folder(folder.path().string(), {}); },
                     {"bee: no image (.jpg, .jpeg, .jfif, .png) in this class, only ", "bee/a.webp, which weft does not read"});
}

/// A part of a JPEG, decoded alone and at a smaller size, equals that part of the whole.
TEST(ImageSet, APartOfAJpegEqualsThatPartOfTheWhole) {
  const int64_t height = 200, width = 160;
  const std::string bytes = test::jpeg_of(gradient(height, width, 3), height, width, 3);
  const std::vector<uint8_t> file(bytes.begin(), bytes.end());
  const Picture picture = decode_image(
                              file, {}, [](int64_t h, int64_t w) { return Crop{0, 0, h, w, h, w}; }, "whole")
                              .picture;
  struct Row {
    Crop crop;
    int64_t most_rows;  ///< rows decoded
  };
  for (const auto& [crop, most_rows] : std::vector<Row>{{{10, 21, 100, 90, 100, 90}, 106},
                                                        {{0, 0, 200, 160, 50, 40}, 50},
                                                        {{57, 33, 140, 120, 30, 30}, 41},
                                                        {{199, 159, 1, 1, 1, 1}, 4},
                                                        {{0, 0, 8, 8, 64, 64}, 12}}) {
    const auto choose = [&c = crop](int64_t, int64_t) { return c; };
    const DecodedCrop part = decode_image(file, {}, choose, "part");
    EXPECT_LE(part.picture.height, most_rows);
    const size_t numel = static_cast<size_t>(3 * crop.out_height * crop.out_width);
    std::vector<float> of_part(numel), of_whole(numel);
    resample_crop(part, false, of_part.data());
    resample_crop(crop_picture(picture, choose), false, of_whole.data());
    for (size_t i = 0; i < numel; ++i) EXPECT_NEAR(of_part[i], of_whole[i], 4.0) << "of 255, at " << i;
  }
}

/// Truncated to 97 %: many parts never reach the gap. A file found to be whole is not read again.
TEST(ImageSet, DamageIsIndependentOfThePartRead) {
  const TempFolder folder;
  std::filesystem::create_directories(folder.path() / "ant");
  const std::string jpeg = test::jpeg_of(gradient(96, 96, 3), 96, 96, 3);
  const auto open = [&](const std::string& bytes, uint64_t seed) {
    folder.write("ant/a.jpg", bytes);
    return open_image_set(open_image_folder(folder.path().string(), {}), {.augmentation = {.least_area = 0.08}, .seed = seed});
  };
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    expect_input_error([&] { open(jpeg.substr(0, jpeg.size() * 97 / 100), seed)->get({0}, 0); }, {"a.jpg: not a whole JPEG"});
    const auto good = open(jpeg, seed), again = open(jpeg, seed);
    for (const int64_t epoch : {0, 1}) {
      const at::Tensor first = good->get({0}, epoch).inputs[0];
      EXPECT_TRUE(at::equal(first, good->get({0}, epoch).inputs[0]) && at::equal(first, again->get({0}, epoch).inputs[0]));
    }
  }
}

/// A random part is cut out and then resized, as in torchvision's RandomResizedCrop; the middle of an image is resized first,
/// and pixels next to it count at its edges.
TEST(ImageSet, ACroppedPartIgnoresNeighbouringPixels) {
  const test::Pixels pixels = gradient(20, 16, 3);
  Picture inside{8, 6, 3, {}}, outside{20, 16, 3, test::Pixels(pixels.size(), 255)};
  const Crop place{5, 4, 8, 6, 4, 3};
  for (int64_t y = 0; y < place.height; ++y) {
    const auto* from = pixels.data() + ((place.top + y) * 16 + place.left) * 3;
    inside.pixels.insert(inside.pixels.end(), from, from + place.width * 3);
    std::copy_n(from, place.width * 3, outside.pixels.data() + ((place.top + y) * 16 + place.left) * 3);
  }
  for (const bool alone : {true, false}) {
    Crop crop = place;
    crop.alone = alone;
    std::vector<float> of_part(36), by_itself(36);
    resample_crop(crop_picture(outside, [&](int64_t, int64_t) { return crop; }), false, of_part.data());
    resample_crop(crop_picture(inside, [](int64_t h, int64_t w) { return Crop{0, 0, h, w, 4, 3}; }), false, by_itself.data());
    float most = 0.0F;
    for (size_t i = 0; i < of_part.size(); ++i) most = std::max(most, std::abs(of_part[i] - by_itself[i]));
    EXPECT_EQ(most < 1e-3F, alone) << most;
  }
  class Black final : public ImageSource {
   public:
    int64_t size() const override { return 1; }
    int64_t label(int64_t /*index*/) const override { return 0; }
    std::string name(int64_t /*index*/) const override { return "black"; }
    DecodedCrop decode(int64_t /*index*/, ChooseCrop choose) const override {
      const DecodedCrop crop = crop_picture(Picture{40, 40, 1, test::Pixels(1600, 0)}, choose);
      EXPECT_TRUE(crop.alone);
      return crop;
    }
  };
  open_image_set(std::make_shared<Black>(), {.channels = 1, .augmentation = {.least_area = 0.1}})->get({0}, 0);
}

TEST(ImageSet, BadFilesAreNamed) {
  const TempFolder folder;
  std::filesystem::create_directories(folder.path() / "ant");
  const std::string jpeg = test::jpeg_of(gradient(64, 64, 3), 64, 64, 3), png = test::png_of(gradient(64, 64, 3), 64, 64, 3);
  struct Row {
    std::string name, bytes;
    std::vector<std::string> says;
  };
  for (const Row& row : std::vector<Row>{{"cut.jpg", jpeg.substr(0, jpeg.size() / 2), {"cut.jpg", "not a whole JPEG image"}},
                                         {"head.jpg", jpeg.substr(0, 20), {"head.jpg", "not a whole JPEG image"}},
                                         {"cut.png", png.substr(0, png.size() / 2), {"cut.png", "not a whole PNG image"}},
                                         {"empty.jpg", "", {"empty.jpg", "an empty file"}},
                                         {"text.png", "hello", {"text.png", "neither a JPEG nor a PNG image"}},
                                         {"web.jpg", "RIFF....WEBPVP8 ", {"web.jpg", "but WebP, which weft does not read"}},
                                         {"pointer.jpg", "version https://git-lfs.github.com/spec/v1", {"Git LFS"}}}) {
    const TempFolder own;
    std::filesystem::create_directories(own.path() / "ant");
    own.write("ant/" + row.name, row.bytes);
    const auto set = open_image_set(open_image_folder(own.path().string(), {}), {});
    expect_input_error([&] { set->get({0}, 0); }, row.says);
    expect_input_error([&] { set->get({0}, 0); }, {"fix or remove it, or set data.skip_bad = true"});
    const auto even_so = open_image_set(open_image_folder(own.path().string(), {}), {.bad = BadSample::replace});
    expect_input_error([&] { even_so->get({0}, 0); }, {row.name, "100 bad images in a row"});
  }
  std::filesystem::create_directories(folder.path() / "bee");
  folder.write("bee/a.png", png);
  expect_input_error([&] { open_image_folder(folder.path().string(), {}); },
                     {"ant", "no image", "or set data.skip_bad = true"});
  expect_input_error([&] { open_image_folder(folder.file("none"), {}); }, {"none", "No such file"});
  expect_input_error([&] { open_image_folder(folder.file("bee"), {}); }, {"bee", "no folders in it"});
}

TEST(ImageSet, OtherFilesNamedLikeImagesAreErrors) {
  struct Row {
    std::string name;
    std::function<void(const std::string& path)> make;
    std::string says;
  };
  const auto link = [](const std::string& to) {
    return [to](const std::string& path) { std::filesystem::create_symlink(to, path); };
  };
  for (const Row& row : std::vector<Row>{
           {"gone.jpg", link("/nonexistent"), "No such file"},
           {"self.png", link("self.png"), "Too many levels"},
           {"pipe.jpg", [](const std::string& path) { mkfifo(path.c_str(), 0600); }, "not a regular file"},
           {"folder.png", [](const std::string& path) { std::filesystem::create_directory(path); }, "not a regular file"},
           {"loop", link("."), "folders deep; a link in it leads back to it"},
           {"self", link("self"), ""}}) {
    const TempFolder folder;
    std::filesystem::create_directories(folder.path() / "ant");
    folder.write("ant/a.png", test::png_of(gradient(4, 4, 3), 4, 4, 3));
    row.make(folder.file("ant/" + row.name));
    const auto open = [&] { return open_image_folder(folder.path().string(), {}); };
    if (row.says.empty()) {
      EXPECT_EQ(open()->size(), 1) << row.name;
    } else {
      expect_input_error(open, {row.name, row.says});
    }
  }
}

std::string cifar_record(int label, int coarse = -1) {
  std::string record;
  if (coarse >= 0) record.push_back(static_cast<char>(coarse));
  record.push_back(static_cast<char>(label));
  for (int i = 0; i < 3 * 32 * 32; ++i) record.push_back(static_cast<char>((i / 1024 * 80 + i % 32 + label) % 256));
  return record;
}

TEST(Cifar, ReadsBothForms) {
  const TempFolder folder;
  for (int i = 1; i <= 5; ++i) {
    folder.write("data_batch_" + std::to_string(i) + ".bin", cifar_record(i) + cifar_record(9 - i));
  }
  folder.write("test_batch.bin", cifar_record(7));
  const auto ten = open_cifar(folder.path().string(), CifarKind::cifar10, true);
  ASSERT_EQ(ten->size(), 10);
  EXPECT_EQ(ten->label(2) * 10 + ten->label(3), 27);
  EXPECT_EQ(ten->name(3), folder.file("data_batch_2.bin") + ", image 1");
  EXPECT_EQ(open_cifar(folder.path().string(), CifarKind::cifar10, false)->label(0), 7);
  const at::Tensor image = open_image_set(ten, {.mean = {0.0}, .stddev = {1.0}})->get({2}, 0).inputs[0][0];
  EXPECT_NEAR(image[2][5][11].item<double>(), (160 + 11 + 2) / 255.0, 1e-6) << "blue, row 5, pixel 11";

  std::filesystem::create_directories(folder.path() / "cifar-100-binary");
  folder.write("cifar-100-binary/train.bin", cifar_record(99, 19) + cifar_record(3, 4));
  const auto hundred = open_cifar(folder.path().string(), CifarKind::cifar100, true);
  EXPECT_EQ(hundred->label(0) * 1000 + hundred->label(1), 99003) << "the fine label";
}

TEST(Cifar, RejectsDamage) {
  const TempFolder folder;
  const auto open = [&] { open_cifar(folder.path().string(), CifarKind::cifar10, false); };
  expect_input_error(open, {"test_batch.bin", "No such file"});
  folder.write("test_batch.bin", cifar_record(7).substr(1));
  expect_input_error(open, {"test_batch.bin", "3072 bytes are not a whole number of images"});
  folder.write("test_batch.bin", "");
  expect_input_error(open, {"test_batch.bin", "0 bytes"});
  folder.write("test_batch.bin", cifar_record(1) + cifar_record(10));
  expect_input_error(open, {"test_batch.bin, image 1", "label 10 is not below 10"});
  folder.write("test_batch.bin",
               "\x80\2}q\1(U\x0b"
               "batch_label");
  expect_input_error(open, {"test_batch.bin: it is a Python pickle", "get the binary form, cifar-10-binary.tar.gz"});
}

TEST(Cifar, OtherFormsAreNamed) {
  const std::vector<std::tuple<CifarKind, std::string, std::string>> rows = {
      {CifarKind::cifar10, "data_batch_1",
       "CIFAR in Python form (pickles), which weft cannot read; get the binary form, cifar-10-binary"},
      {CifarKind::cifar10, "cifar-10-batches-py/data_batch_1", "CIFAR in Python form"},
      {CifarKind::cifar100, "train", "get the binary form, cifar-100-binary.tar.gz, from https://www.cs.toronto.edu"},
      {CifarKind::cifar100, "cifar-100-python/train", "CIFAR in Python form"},
      {CifarKind::cifar10, "cifar-10-binary.tar.gz", "still packed; unpack it there: tar -xzf cifar-10-binary.tar.gz"}};
  for (const auto& [kind, file, says] : rows) {
    const TempFolder folder;
    std::filesystem::create_directories((folder.path() / file).parent_path());
    folder.write(file, "\x80\2}q");
    expect_input_error([&, k = kind] { open_cifar(folder.path().string(), k, true); }, {folder.path().string(), says});
  }
  const TempFolder folder;  // could be a folder of classes
  std::filesystem::create_directory(folder.path() / "train");
  expect_input_error([&] { open_cifar(folder.path().string(), CifarKind::cifar100, true); }, {"train.bin': No such file"});
}

TEST(ImageSet, RefusesOptionsOutOfRange) {
  const auto source = std::make_shared<Pictures>(1, 8, 8, 3);
  const std::vector<std::pair<ImageSetOptions, std::string>> rows = {
      {{.channels = 2}, "2 channels"},
      {{.height = 0}, "0 pixels"},
      {{.mean = {0.1, 0.2}}, "2 means"},
      {{.stddev = {0.0}}, "stddev"},
      {{.augmentation = {.crop_padding = 32}}, "crop_padding"},
      {{.augmentation = {.least_area = 1.5}}, "least_area"},
      {{.middle = 0.0}, "middle"},
  };
  for (const auto& [options, says] : rows) {
    expect_input_error([&, o = options] { open_image_set(source, o); }, {says});
  }
  expect_input_error([&] { open_image_set(source, {.channels = 1})->get({0}, 0); },
                     {"picture 0", "3 channels, samples have 1"});
  expect_input_error([&] { open_image_set(source, {})->get({1}, 0); }, {"sample 1", "there are only 1"});
}

}  // namespace
}  // namespace weft::image_set_test
