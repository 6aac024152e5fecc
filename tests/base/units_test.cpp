#include "weft/base/units.h"

#include <gtest/gtest.h>

#include <cmath>

namespace weft {
namespace {

TEST(Units, bytes) {
  struct Case {
    int64_t bytes;
    const char* text;
  };
  const Case cases[] = {{0, "0 B"},
                        {1, "1 B"},
                        {1023, "1023 B"},
                        {1024, "1.00 KiB"},
                        {1536, "1.50 KiB"},
                        {25 << 20, "25.0 MiB"},
                        {195 << 20, "195 MiB"},
                        {1000 << 20, "1000 MiB"},
                        {(1 << 30) - 1, "1.00 GiB"},
                        {-2048, "-2.00 KiB"},
                        {5LL << 40, "5.00 TiB"}};
  for (const Case& c : cases) EXPECT_EQ(format_bytes(c.bytes), c.text) << c.bytes;
}

TEST(Units, counted) {
  EXPECT_EQ(counted(0, "rank"), "0 ranks");
  EXPECT_EQ(counted(1, "rank"), "1 rank");
  EXPECT_EQ(counted(2, "micro-batch", "es"), "2 micro-batches");
}

TEST(Units, flops_and_counts) {
  EXPECT_EQ(format_flops(0), "0 FLOP");
  EXPECT_EQ(format_flops(950), "950 FLOP");
  EXPECT_EQ(format_flops(1.2e9), "1.20 GFLOP");
  EXPECT_EQ(format_flops(999.9e9), "1.00 TFLOP");
  EXPECT_EQ(format_flops(6e20), "600 EFLOP");
  EXPECT_EQ(format_count(950), "950");
  EXPECT_EQ(format_count(3.274), "3.27");
  EXPECT_EQ(format_count(41.64), "41.6");
  EXPECT_EQ(format_count(999.2), "999");
  EXPECT_EQ(format_count(999.7), "1.00 k");
  EXPECT_EQ(format_count(3.3e6), "3.30 M");
  EXPECT_EQ(format_count(60000), "60.0 k");
}

TEST(Units, durations) {
  struct Case {
    double seconds;
    const char* text;
  };
  const Case cases[] = {{0, "0 s"},           {9e-6, "9.00 us"},     {3.6e-3, "3.60 ms"}, {0.9999, "1.00 s"},
                        {41.04, "41.0 s"},    {59.99, "1 min 00 s"}, {125, "2 min 05 s"}, {3599.6, "1 h 00 min"},
                        {3720, "1 h 02 min"}, {-2.5, "-2.50 s"},     {5e-9, "5.00 ns"},   {INFINITY, "unknown"}};
  for (const Case& c : cases) EXPECT_EQ(format_duration(c.seconds), c.text) << c.seconds;
}

}  // namespace
}  // namespace weft
