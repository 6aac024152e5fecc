// Writes Parquet files into a folder, for buckets_test.py: text-0.parquet and text-1.parquet (text "body"), train.parquet and
// val.parquet (images of one colour, 8 x 8, and their "label").
#include <fmt/format.h>

#include <cstdio>
#include <fstream>

#include "tests/data/images/image_files.h"
#include "tests/support/parquet/write_parquet.h"

namespace {

using weft::test::Column;

std::string text(int file) {
  Column body{"body", "string", {}};
  for (int64_t i = 0; i < 300; ++i)
    body.cells.emplace_back(fmt::format("document {} of file {} says {}", i, file, i * i * 7919));
  return weft::test::parquet_of({body}, {.rows_per_group = 50});
}

std::string images(int64_t first, int64_t count) {
  Column image{"image", "struct<bytes, path>", {}}, label{"label", "int64", {}};
  for (int64_t i = first; i < first + count; ++i) {
    image.cells.emplace_back(weft::test::png_of(weft::test::Pixels(8 * 8 * 3, static_cast<uint8_t>(4 * i)), 8, 8, 3));
    label.cells.emplace_back(i % 2);
  }
  return weft::test::parquet_of({image, label}, {.rows_per_group = 8});
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) {
    std::fprintf(stderr, "usage: parquet_sample FOLDER\n");
    return 2;
  }
  const std::string folder = words[1];
  const auto write = [&](const std::string& name, const std::string& bytes) {
    std::ofstream(folder + "/" + name, std::ios::binary) << bytes;
  };
  for (const int file : {0, 1}) write(fmt::format("text-{}.parquet", file), text(file));
  write("train.parquet", images(0, 48));
  write("val.parquet", images(48, 16));
}
