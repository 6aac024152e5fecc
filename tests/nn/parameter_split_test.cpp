#include "weft/nn/parameter_split.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

namespace weft::parameter_split_test {
namespace {

struct Case {
  const char* name;
  std::vector<int64_t> shape;
  int64_t dim;
  std::vector<int64_t> segments;
  int parts;
  std::vector<int64_t> part;  ///< shape of the part
};

const Case kCases[] = {
    {"rows of a matrix", {6, 4}, 0, {6}, 2, {3, 4}},
    {"columns of a matrix", {3, 8}, 1, {8}, 4, {3, 2}},
    {"queries, keys and values", {12, 2}, 0, {4, 4, 4}, 2, {6, 2}},
    {"segments of two sizes", {12, 2}, 0, {8, 4}, 4, {3, 2}},
    {"a vector", {8}, 0, {8}, 2, {4}},
    {"a vocabulary that does not divide", {13, 3}, 0, {13}, 4, {4, 3}},
    {"empty parts", {2, 3}, 0, {2}, 4, {1, 3}},
    {"a filter's channels", {4, 2, 3, 3}, 0, {4}, 2, {2, 2, 3, 3}},
    {"one part", {5, 2}, 0, {5}, 1, {5, 2}},
};

TEST(Split, PartsMakeTheWholeAndPaddingIsZero) {
  for (const Case& c : kCases) {
    int64_t numel = 1;
    for (const int64_t size : c.shape) numel *= size;
    const at::Tensor whole = at::arange(1, numel + 1, at::kFloat).view(c.shape);
    const at::Tensor again = at::full(c.shape, -1.0);
    int64_t elements = 0;
    Split split{.dim = c.dim, .segments = c.segments, .parts = c.parts};
    for (split.part = 0; split.part < c.parts; ++split.part) {
      EXPECT_EQ(part_shape(c.shape, split), c.part) << c.name;
      const at::Tensor part = take_part(whole, split);
      EXPECT_EQ(part.sizes().vec(), c.part) << c.name;
      int64_t real = 0;
      for (const SplitRun& run : runs_of(c.shape, split)) real += run.numel;
      EXPECT_EQ(part.ne(0).sum().item<int64_t>(), real) << c.name << ": padding is zero";
      elements += real;
      put_part(again, part, split);
    }
    EXPECT_EQ(elements, numel) << c.name << ": each element in one part";
    EXPECT_TRUE(at::equal(again, whole)) << c.name;
  }
}

}  // namespace
}  // namespace weft::parameter_split_test
