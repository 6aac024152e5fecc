#include "weft/base/parse_bytes.h"

#include <gtest/gtest.h>

namespace weft::parse_bytes_test {
namespace {

TEST(ParseBytes, TakesUnitsOfBothKinds) {
  struct Case {
    const char* text;
    std::optional<double> bytes;
  };
  const Case cases[] = {{"24GiB", 24.0 * (1LL << 30)},
                        {"24 GiB", 24.0 * (1LL << 30)},
                        {"80GB", 80e9},
                        {"1.5e9", 1.5e9},
                        {"512MiB", 512.0 * (1 << 20)},
                        {"7", 7.0},
                        {"", {}},
                        {"GiB", {}},
                        {"0", {}},
                        {"-1GB", {}},
                        {"1 gib", {}},
                        {"1  GB", {}},
                        {"1GB ", {}},
                        {"inf", {}},
                        {"1e308TiB", {}},
                        {"1e400", {}}};
  for (const Case& c : cases) EXPECT_EQ(parse_bytes(c.text), c.bytes) << c.text;
}

}  // namespace
}  // namespace weft::parse_bytes_test
