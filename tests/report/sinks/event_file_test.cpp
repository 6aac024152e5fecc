// Event files: check sums against published vectors; TensorBoard itself reads them in tests/records.
#include "weft/report/sinks/event_file.h"

#include <gtest/gtest.h>

#include <numeric>

namespace weft::event_file_test {
namespace {

TEST(EventFile, HasTheCheckSumsOfRfc3720) {
  std::string rising(32, '\0');
  std::iota(rising.begin(), rising.end(), '\0');
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(crc32c(rising), 0x46dd794eU);
  EXPECT_EQ(crc32c(std::string(rising.rbegin(), rising.rend())), 0x113fdb5cU);
}

}  // namespace
}  // namespace weft::event_file_test
