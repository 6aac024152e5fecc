// Trainings of a tiny recipe on a text that repeats itself, in a folder that goes with the test.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/cli/command.h"

namespace weft {

class TrainingTest : public testing::Test {
 protected:
  explicit TrainingTest(const char* recipe) {
    std::ofstream(folder_ / "r.toml") << recipe;
    std::ofstream text(folder_ / "text");
    for (int i = 0; i < 400; ++i) text << "line " << i << " of a text that repeats itself\n";
  }
  void TearDown() override { EXPECT_FALSE(processes_left()); }

  /// `weft train` of the recipe with these arguments too.
  std::vector<std::string> train(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"train", (folder_ / "r.toml").string(), "--set",
                                    "data.path=" + (folder_ / "text").string()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  TemporaryFolder folder_;
};

}  // namespace weft
