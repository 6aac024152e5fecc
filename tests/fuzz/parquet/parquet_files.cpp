#include "tests/data/images/image_files.h"
#include "tests/fuzz/data_inputs.h"
#include "tests/support/parquet/write_parquet.h"

namespace weft::fuzz {

std::vector<std::string> parquet_files() {
  const std::string image = test::png_of(test::gradient(4, 4, 3), 4, 4, 3);
  const test::ParquetLayout layout{.rows_per_group = 2};
  return {test::parquet_of({{"text", "string", {"some text", "more of it", "", "the end"}}}, layout),
          test::parquet_of({{"ids",
                             "list<int32>",
                             {std::vector<int64_t>{1, 2, 3, 299}, std::vector<int64_t>{5}, std::vector<int64_t>{6, 7, 8}}}},
                           layout),
          test::parquet_of({{"image", "struct<bytes, path>", {image, image, image}},
                            {"label", "int64", {int64_t{1}, int64_t{2}, int64_t{3}}}},
                           layout)};
}

}  // namespace weft::fuzz
