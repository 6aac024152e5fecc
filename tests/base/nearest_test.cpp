#include "weft/base/nearest.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Nearest, edit_distance) {
  struct Case {
    const char* a;
    const char* b;
    int distance;
  };
  const Case cases[] = {{"", "", 0},
                        {"abc", "abc", 0},
                        {"", "abc", 3},
                        {"lr", "", 2},
                        {"warmpu", "warmup", 1},
                        {"kitten", "sitting", 3},
                        {"optimiser", "optimizer", 1},
                        {"ab", "ba", 1},
                        {"abc", "xyz", 3}};
  for (const Case& c : cases) {
    EXPECT_EQ(edit_distance(c.a, c.b), c.distance) << c.a << " " << c.b;
    EXPECT_EQ(edit_distance(c.b, c.a), c.distance) << c.b << " " << c.a;
  }
}

TEST(Nearest, finds_the_intended_word) {
  const std::vector<std::string> keys = {"name", "lr", "warmup", "decay", "weight_decay", "momentum"};
  EXPECT_EQ(nearest("warmpu", keys), "warmup");
  EXPECT_EQ(nearest("weightdecay", keys), "weight_decay");
  EXPECT_EQ(nearest("LR", keys), "lr");
  EXPECT_EQ(nearest("momentun", keys), "momentum");
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(Nearest, the_first_of_equals) { EXPECT_EQ(nearest("b", {"a", "c"}), "a"); }

}  // namespace
}  // namespace weft
