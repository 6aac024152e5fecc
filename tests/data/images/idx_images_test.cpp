#include "weft/data/images/idx_images.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/std.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <numeric>

#include "tests/data/expect_input_error.h"
#include "tests/data/temp_folder.h"
#include "weft/data/images/idx_file.h"

namespace weft {
namespace {

using test::expect_input_error;
using test::TempFolder;

std::string idx(uint32_t magic, const std::vector<uint32_t>& sizes, const std::string& values) {
  std::string out;
  const auto put = [&](uint32_t v) {
    for (const int shift : {24, 16, 8, 0}) out.push_back(static_cast<char>(v >> shift));
  };
  put(magic);
  for (const uint32_t size : sizes) put(size);
  return out + values;
}

std::string gzip(const std::string& bytes) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

constexpr uint32_t kImages = 0x803, kLabels = 0x801;

std::string pixels(int64_t count) {
  std::string out;
  for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<char>(i * 37));
  return out;
}

TEST(Images, ReadsPlainAndGzippedFilesAlike) {
  const TempFolder folder;
  const std::string values = pixels(4 * 2 * 3), labels = std::string("\x03\x00\x09\x01", 4);
  const std::string images_idx = idx(kImages, {4, 2, 3}, values), labels_idx = idx(kLabels, {4}, labels);
  const ImageFiles plain{.images = folder.write("i", images_idx), .labels = folder.write("l", labels_idx)};
  const ImageFiles zipped{.images = folder.write("i.gz", gzip(images_idx)), .labels = folder.write("l.gz", gzip(labels_idx))};
  for (const ImageFiles& files : {plain, zipped}) {
    const auto dataset = open_images(files, {.mean = 0.25, .stddev = 0.5});
    ASSERT_EQ(dataset->size(), 4);
    const Batch batch = dataset->get({2, 0, 2}, 0);
    ASSERT_EQ(batch.inputs.size(), 1u);
    EXPECT_EQ(batch.inputs[0].sizes(), (std::vector<int64_t>{3, 1, 2, 3}));
    EXPECT_EQ(batch.inputs[0].scalar_type(), at::kFloat);
    EXPECT_EQ(batch.target.scalar_type(), at::kLong);
    const auto* out = batch.inputs[0].const_data_ptr<float>();
    const int64_t rows[] = {2, 0, 2};
    for (int64_t r = 0; r < 3; ++r) {
      EXPECT_EQ(batch.target[r].item<int64_t>(), labels[rows[r]]);
      for (int64_t p = 0; p < 6; ++p) {
        const double byte = static_cast<uint8_t>(values[rows[r] * 6 + p]);
        EXPECT_FLOAT_EQ(out[r * 6 + p], static_cast<float>((byte / 255 - 0.25) / 0.5));
      }
    }
  }
}

TEST(Images, FashionMnistIsCompleteAndNormalised) {
  const auto dataset = open_images(mnist_files(kFashionMnistFolder, ImageSplit::evaluation));
  ASSERT_EQ(dataset->size(), 10000);
  std::vector<int64_t> all(10000);
  std::iota(all.begin(), all.end(), 0);
  const Batch batch = dataset->get(all, 0);
  EXPECT_EQ(batch.inputs[0].sizes(), (std::vector<int64_t>{10000, 1, 28, 28}));
  EXPECT_NEAR(batch.inputs[0].mean().item<double>(), 0, 0.02);
  EXPECT_NEAR(batch.inputs[0].std().item<double>(), 1, 0.02);
  std::vector<int> classes(10);
  for (int64_t i = 0; i < 10000; ++i) ++classes[batch.target.const_data_ptr<int64_t>()[i]];
  EXPECT_EQ(classes, std::vector<int>(10, 1000));
}

TEST(Images, TrainingFilesAreNamedTrain) {
  const ImageFiles files = mnist_files(kFashionMnistFolder, ImageSplit::training);
  EXPECT_EQ(files.images, std::string(kFashionMnistFolder) + "/train-images-idx3-ubyte.gz");
  EXPECT_EQ(files.labels, std::string(kFashionMnistFolder) + "/train-labels-idx1-ubyte.gz");
  const TempFolder folder;
  folder.write("t10k-images-idx3-ubyte", "");
  EXPECT_EQ(mnist_files(folder.path().string(), ImageSplit::evaluation).images, folder.file("t10k-images-idx3-ubyte"));
}

TEST(Images, UnpackedCopiesHaveOtherNames) {
  for (const std::string name : {"train-images.idx3-ubyte", "train-images-idx3-ubyte/train-images-idx3-ubyte"}) {
    const TempFolder folder;
    std::filesystem::create_directories((folder.path() / name).parent_path());
    folder.write(name, "");
    folder.write("train-labels.idx1-ubyte.gz", "");
    const ImageFiles files = mnist_files(folder.path().string(), ImageSplit::training);
    EXPECT_EQ(files.images, folder.file(name));
    EXPECT_EQ(files.labels, folder.file("train-labels.idx1-ubyte.gz"));
  }
}

TEST(Images, RejectAMissingSample) {
  const TempFolder folder;
  const auto dataset = open_images({.images = folder.write("i", idx(kImages, {2, 1, 1}, "ab")),
                                    .labels = folder.write("l", idx(kLabels, {2}, std::string(2, '\0')))});
  expect_input_error([&] { dataset->get({2}, 0); }, {"sample 2", "there are only 2"});
  expect_input_error([&] { dataset->get({-1}, 0); }, {"sample -1"});
}

TEST(Images, EveryBadFileIsOneClearLine) {
  const std::string good_images = idx(kImages, {3, 2, 2}, pixels(12)),
                    good_labels = idx(kLabels, {3}, std::string("\0\1\2", 3));
  std::string noisy(100000, '\0');
  uint32_t state = 1;
  for (char& c : noisy) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  const std::string big = gzip(idx(kImages, {1000, 10, 10}, noisy));
  std::string corrupt = big;
  for (size_t i = 50000; i < 50100; ++i) corrupt[i] = '\x55';
  std::string bad_sum = gzip(good_images);
  bad_sum[bad_sum.size() - 8] ^= 1;
  struct Row {
    std::string name, images, labels;
    std::vector<std::string> pieces;
  };
  const std::vector<Row> table = {
      {"plain",
       good_images.substr(0, 20),
       good_labels,
       {"plain", "truncated", "12 bytes", "it has 4", "dataset-fashion-mnist"}},
      {"plain", good_images.substr(0, 9), good_labels, {"plain", "truncated", "9 bytes", "header"}},
      {"plain", good_images.substr(0, 3), good_labels, {"plain", "truncated", "3 bytes"}},
      {"plain", good_images + "x", good_labels, {"plain", "too long", "12 bytes"}},
      {"plain", "", good_labels, {"plain", "is empty"}},
      {"plain", idx(0x0d03, {3, 2, 2}, pixels(12)), good_labels, {"plain", "0x00000d03", "0x00000803", "idx3-ubyte"}},
      {"plain", good_labels, good_labels, {"plain", "0x00000801", "0x00000803"}},
      {"plain", idx(kImages, {0, 2, 2}, ""), good_labels, {"plain", "holds no images"}},
      {"plain", idx(kImages, {0xffffffff, 0xffffffff, 0xffffffff}, ""), good_labels, {"plain", "corrupt header"}},
      {"plain", idx(kImages, {0xffffffff, 28, 28}, "abc"), good_labels, {"plain", "truncated", "it has 3"}},
      {"x.gz", big.substr(0, big.size() / 2), good_labels, {"x.gz", "truncated", "gzip", "dataset-fashion-mnist"}},
      {"x.gz", corrupt, good_labels, {"x.gz", "corrupt gzip", "dataset-fashion-mnist"}},
      {"x.gz", bad_sum, good_labels, {"x.gz", "corrupt gzip"}},
      {"x.gz", good_images, good_labels, {"x.gz", "not gzip"}},
      {"plain",
       good_images,
       idx(kLabels, {3}, std::string("\0\12\2", 3)),
       {"labels", "label 10", "index 1", "[0, 10)", "model.classes"}},
      {"plain", good_images, idx(kLabels, {2}, std::string("\0\1", 2)), {"plain holds 3 images", "labels holds 2 labels"}},
      {"plain", good_images, idx(kLabels, {3}, "\1"), {"labels", "truncated"}},
      {"x.gz",
       "version https://git-lfs.github.com/spec/v1\noid",
       good_labels,
       {"x.gz: it is a Git LFS pointer", "where IDX images are expected", "git lfs pull"}},
      {"x.gz", "<html>403</html>", good_labels, {"x.gz: it is an HTML page"}},
      {"plain", "PK\3\4....", good_labels, {"plain: it is a zip archive"}},
  };
  for (const Row& row : table) {
    const TempFolder folder;
    const ImageFiles files{.images = folder.write(row.name, row.images), .labels = folder.write("labels", row.labels)};
    expect_input_error([&] { open_images(files); }, row.pieces);
  }
}

/// At any size, the header is read and the whole images are kept.
TEST(Images, WholeImagesOfAShortGzipStreamMayStay) {
  std::string noise(1000 * 4, '\0');
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>(i * i >> 5);
  const std::string whole = gzip(idx(kImages, {1000, 2, 2}, noise));
  for (const size_t cut : {size_t{1}, size_t{9}, whole.size() / 2}) {
    const TempFolder folder;
    const std::string path = folder.write("x.gz", whole.substr(0, whole.size() - cut));
    const IdxFile file = read_idx(path, 3, "images", BadData::skip);
    EXPECT_EQ(file.sizes[0] + file.missing, 1000);
    EXPECT_EQ(file.missing > 0, cut >= 9) << cut;
    EXPECT_EQ(std::string(file.values.begin(), file.values.end()), noise.substr(0, file.values.size()));
    expect_input_error([&] { read_idx(path, 3, "images", BadData::refuse); }, {"x.gz", "the gzip stream ends early"});
  }
}

TEST(Images, AMissingFileNamesThePackage) {
  const TempFolder folder;
  const std::string labels = folder.write("l", idx(kLabels, {1}, "\1"));
  expect_input_error([&] { open_images({.images = folder.file("none"), .labels = labels}); },
                     {folder.file("none"), "No such file", "apt-get install dataset-fashion-mnist", "data.path"});
  expect_input_error([&] { open_images({.images = folder.path().string(), .labels = labels}); },
                     {"it is a folder, not a regular file"});
  expect_input_error([&] { open_images({.images = labels, .labels = labels}, {.stddev = 0}); }, {"stddev"});
}

}  // namespace
}  // namespace weft
