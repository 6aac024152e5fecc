// The error for Parquet in a build without Arrow.
#include <gtest/gtest.h>

#include "tests/data/expect_input_error.h"
#include "tests/data/temp_folder.h"
#include "weft/data/tokens/parquet_tokens.h"

namespace weft::no_parquet_test {
namespace {

TEST(NoParquet, SaysHowToGetIt) {
  const test::TempFolder folder;
  const std::string file = folder.write("a.parquet", "PAR1");
  test::expect_input_error([&] { open_parquet_tokens(local_shards({file}), {}); },
                           {file + ": this weft is built without Parquet; build it with WEFT_BUCKETS=ON"});
}

}  // namespace
}  // namespace weft::no_parquet_test
