// Trains a tiny recipe on a repetitive text, in a temporary folder of the test.
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

  /// Command line: `weft train`, the recipe and further arguments.
  std::vector<std::string> train(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"train", (folder_ / "r.toml").string(), "--set",
                                    "data.path=" + (folder_ / "text").string()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  TemporaryFolder folder_;
};

}  // namespace weft
