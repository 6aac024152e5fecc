// Images in Parquet files: pixels and labels, lazy reads, order, and errors of files without images.
#include "weft/data/images/parquet_images.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/data/counted_shards.h"
#include "tests/data/expect_input_error.h"
#include "tests/data/images/image_files.h"
#include "tests/data/temp_folder.h"
#include "tests/support/parquet/write_parquet.h"
#include "weft/data/images/grouped_images.h"
#include "weft/data/images/image_set.h"
#include "weft/data/images/mixup.h"

namespace weft::parquet_images_test {
namespace {

using test::Cell;
using test::Column;
using test::expect_input_error;

std::string picture(int64_t colour) { return test::png_of(test::Pixels(8 * 8 * 3, static_cast<uint8_t>(colour)), 8, 8, 3); }

class ParquetImageFiles : public ::testing::Test {
 protected:
  /// File of images of one colour, first, first + 1, ..., whose labels are colour % 10, four per row group.
  std::string write(const std::string& name, int64_t first, int64_t count, const std::string& type = "binary",
                    const std::string& label_type = "int64") const {
    Column images{"image", type, {}}, labels{"label", label_type, {}};
    for (int64_t i = first; i < first + count; ++i) {
      images.cells.emplace_back(picture(i));
      labels.cells.emplace_back(i % 10);
    }
    return folder_.write(name, test::parquet_of({labels, images}, {.rows_per_group = 4}));
  }
  static std::shared_ptr<ImageSource> open(const std::vector<std::string>& paths, const ParquetImages& options = {}) {
    return open_parquet_images(local_shards(paths), options);
  }
  static std::shared_ptr<Dataset> samples_of(const std::shared_ptr<const ImageSource>& source,
                                             BadSample bad = BadSample::refuse) {
    return open_image_set(
        source, {.height = 8, .width = 8, .mean = {0.0}, .stddev = {1.0}, .augmentation = {.flip = true}, .bad = bad});
  }
  static int64_t colour_of(const at::Tensor& image) { return std::lround(image[0][0][0].item<double>() * 255.0); }
  static std::vector<int64_t> colours(const Batch& batch) {
    std::vector<int64_t> all;
    for (int64_t i = 0; i < batch.target.size(0); ++i) all.push_back(colour_of(batch.inputs[0][i]));
    return all;
  }

  test::TempFolder folder_;
};

TEST_F(ParquetImageFiles, HaveBytesOrStructsAndLabelsOfAnyWidth) {
  for (const char* type : {"binary", "struct<bytes, path>"}) {
    for (const char* label : {"int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"}) {
      SCOPED_TRACE(std::string(type) + " " + label);
      const auto source = open({write("a.parquet", 11, 6, type, label), write("b.parquet", 31, 2, type, label)});
      ASSERT_EQ(source->size(), 8);
      const Batch batch = samples_of(source)->get({0, 5, 7}, 0);
      EXPECT_EQ(colours(batch), (std::vector<int64_t>{11, 16, 32}));
      EXPECT_EQ(batch.target[1].item<int64_t>(), 6);
      EXPECT_EQ(source->name(5), folder_.file("a.parquet") + ", row group 1, row 1");
    }
  }
}

TEST_F(ParquetImageFiles, OpeningReadsOnlyMetadataAndLabels) {
  const auto shards = std::make_shared<test::CountedShards>(std::vector<std::string>{write("a.parquet", 0, 40)});
  const auto source = open_parquet_images(shards, {});
  const auto at_opening = shards->take_reads();
  EXPECT_EQ(at_opening.size(), 1 + 10u) << "the footer, and the labels of each row group";
  source->decode(0, [](int64_t height, int64_t width) { return Crop{0, 0, height, width, height, width}; });
  source->decode(3, [](int64_t height, int64_t width) { return Crop{0, 0, height, width, height, width}; });
  const auto after = shards->take_reads();
  ASSERT_EQ(after.size(), 1u) << "a row group's images in one read";
  EXPECT_EQ(after.begin()->second, 1);
  EXPECT_EQ(at_opening.count(after.begin()->first), 0u);
}

TEST_F(ParquetImageFiles, AreMixedWithinWindowsAndEachComesOncePerEpoch) {
  const std::shared_ptr<const ImageSource> source =
      open({write("a.parquet", 0, 100), write("b.parquet", 100, 101)}, {.cache_bytes = 1 << 20});
  const auto images = samples_of(source);
  const int64_t group = source->grouped()->groups().front().bytes;
  const auto ordered = in_order_of_groups(images, source, {.seed = 3, .window_bytes = 5 * group + group / 2});
  ASSERT_EQ(ordered->size(), 201);
  EXPECT_TRUE(ordered->is_ordered());
  std::vector<std::vector<int64_t>> epochs;
  for (const int64_t epoch : {0, 1}) {
    std::vector<int64_t> indices(201);
    for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i);
    const Batch batch = ordered->get(indices, epoch);
    epochs.push_back(colours(batch));
    for (int64_t i = 0; i < 201; ++i) {
      const int64_t image = epochs.back()[static_cast<size_t>(i)];
      EXPECT_EQ(batch.target[i].item<int64_t>(), image % 10);
      EXPECT_TRUE(batch.inputs[0][i].equal(images->get({image}, epoch).inputs[0][0]))
          << "augmented by its own key, wherever it comes";
    }
    EXPECT_EQ(std::set<int64_t>(epochs.back().begin(), epochs.back().end()).size(), 201u);
    std::set<int64_t> groups;
    for (size_t i = 0; i < 20; ++i) groups.insert(epochs.back()[i] / 4);
    EXPECT_LE(groups.size(), 6u) << "the first window's";
  }
  EXPECT_NE(epochs[0], epochs[1]);
}

TEST_F(ParquetImageFiles, MixupPartnersAreNeighbours) {
  const auto shards = std::make_shared<test::CountedShards>(std::vector<std::string>{write("a.parquet", 0, 200)});
  const std::shared_ptr<const ImageSource> probe = open_parquet_images(shards, {});
  const int64_t window = 5 * probe->grouped()->groups().front().bytes + 8;
  const std::shared_ptr<const ImageSource> source = open_parquet_images(shards, {.cache_bytes = 2 * window});
  const auto mixed = mix_up(in_order_of_groups(samples_of(source), source, {.seed = 3, .window_bytes = window}),
                            {.alpha = 1.0, .classes = 10});
  EXPECT_TRUE(mixed->is_ordered());
  shards->take_reads();
  for (int64_t i = 0; i < 200; i += 4) mixed->get({i, i + 1, i + 2, i + 3}, 0);
  int64_t reads = 0;
  for (const auto& [place, count] : shards->take_reads()) reads += count;
  EXPECT_LE(reads, 50 + 6) << "a partner is in memory already";
}

TEST_F(ParquetImageFiles, BadRowsAreNamedOrSkipped) {
  const Column images{"image", "binary", {picture(1), std::monostate(), std::string("no image"), picture(4)}};
  const auto write_labels = [&](const std::vector<Cell>& cells) {
    return folder_.write("a.parquet", test::parquet_of({images, {"label", "int32", cells}}, {.rows_per_group = 2}));
  };
  const std::pair<std::vector<Cell>, std::string> rows[] = {
      {{int64_t{1}, int64_t{1}, std::monostate(), int64_t{1}}, "row group 1, row 0: its 'label' is null"},
      {{int64_t{1}, int64_t{1}, int64_t{10}, int64_t{1}}, "row group 1, row 0: label 10 is not in [0, 10)"},
      {{int64_t{1}, int64_t{1}, int64_t{-1}, int64_t{1}}, "row group 1, row 0: label -1 is not in [0, 10)"},
  };
  for (const auto& [cells, says] : rows) {
    const std::string file = write_labels(cells);
    expect_input_error([&] { open({file}, {.classes = 10}); }, {file + ", " + says, "or set data.skip_bad = true"});
    const auto source = open({file}, {.classes = 10, .bad = BadData::skip});
    EXPECT_EQ(source->size(), 3);
    EXPECT_EQ(source->left_out(), DataNotes{file + ", " + says});
    EXPECT_EQ(colours(samples_of(source)->get({2}, 0)), std::vector<int64_t>{4});
  }
  const std::string file = write_labels({int64_t{1}, int64_t{1}, int64_t{1}, int64_t{1}});
  expect_input_error([&] { samples_of(open({file}))->get({1}, 0); },
                     {file + ", row group 0, row 1: its 'image' is null; fix or remove it, or set data.skip_bad = true"});
  expect_input_error([&] { samples_of(open({file}))->get({2}, 0); }, {file + ", row group 1, row 0: "});
  const Batch batch = samples_of(open({file}), BadSample::replace)->get({0, 1, 2, 3}, 0);
  EXPECT_TRUE(std::set<int64_t>({1, 4}).count(colour_of(batch.inputs[0][1])) > 0) << "replaced by another";
  EXPECT_EQ(std::set<std::string>(batch.skipped.begin(), batch.skipped.end()),
            (std::set<std::string>{file + ", row group 0, row 1", file + ", row group 1, row 0"}));
}

TEST_F(ParquetImageFiles, ADamagedRowGroupHasBadImages) {
  const std::string file = write("a.parquet", 0, 12);
  std::string bytes = test::read_file(file);
  const size_t place = bytes.find(picture(5).substr(33, 30));  // its pixels, in row group 1
  ASSERT_NE(place, std::string::npos);
  bytes[place + 2] ^= 1;
  folder_.write("a.parquet", bytes);
  const auto source = open({file}, {.bad = BadData::skip});
  ASSERT_EQ(source->size(), 12) << "opening reads no images";
  expect_input_error([&] { samples_of(source)->get({4}, 0); }, {file + ", row group 1: ", "CRC"});
  const Batch batch = samples_of(source, BadSample::ignore)->get({3, 4, 5, 8}, 0);
  EXPECT_EQ(batch.target[1].item<int64_t>(), kIgnore);
  EXPECT_EQ(batch.target[3].item<int64_t>(), 8);
  EXPECT_EQ(batch.skipped.size(), 2u);
}

TEST_F(ParquetImageFiles, ColumnsThatAreNotThereOrOfAnotherTypeAreNamed) {
  const std::string file = folder_.write("a.parquet", test::parquet_of({{"image", "struct<bytes, path>", {picture(1)}},
                                                                        {"label", "string", {std::string("ant")}},
                                                                        {"number", "int64", {int64_t{1}}}}));
  expect_input_error([&] { open({file}, {.column = "img"}); },
                     {file + ": no column 'img', only image, label, number; set data.column"});
  expect_input_error([&] { open({file}); }, {file + ": 'label' is string, but an integer is needed; check data.label_column"});
  expect_input_error(
      [&] { open({file}, {.column = "number"}); },
      {file + ": 'number' is int64, but the bytes of images, or a struct with 'bytes', are needed; check data.column"});
  EXPECT_EQ(open({file}, {.label_column = "number"})->size(), 1);
}

}  // namespace
}  // namespace weft::parquet_images_test
