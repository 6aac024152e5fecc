// Launcher variables: their scopes, and what remains of them for other programs.
#include "weft/base/launcher_variables.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/environment_variables.h"

namespace weft {
namespace {

using test::EnvironmentVariables;

TEST(LauncherVariables, HaveAScope) {
  EXPECT_TRUE(is_launcher_variable("RANK", VariableScope::place));
  EXPECT_TRUE(is_launcher_variable("TORCHELASTIC_RUN_ID", VariableScope::place));
  EXPECT_FALSE(is_launcher_variable("WEFT_TOKEN", VariableScope::place));
  EXPECT_TRUE(is_launcher_variable("WEFT_TOKEN"));
  for (const char* other : {"OMP_NUM_THREADS", "WEFT_PORT", "RANKS", "TORCHELASTIC", ""})
    EXPECT_FALSE(is_launcher_variable(other));
}

TEST(LauncherVariables, ARankBelongsToTheWorldThatTheLauncherServes) {
  const auto is_one = [](const std::vector<std::pair<std::string, std::string>>& variables) {
    const EnvironmentVariables environment(variables);
    return is_rank_of_launcher();
  };
  EXPECT_TRUE(is_one({{"RANK", "1"}, {"MASTER_PORT", "29500"}, {"WEFT_STORE", "127.0.0.1:4000/29500"}}));
  EXPECT_FALSE(is_one({{"RANK", "1"}, {"MASTER_PORT", "29501"}, {"WEFT_STORE", "127.0.0.1:4000/29500"}}));
  EXPECT_FALSE(is_one({{"MASTER_PORT", "29500"}, {"WEFT_STORE", "127.0.0.1:4000/29500"}}));
  EXPECT_FALSE(is_one({{"RANK", "1"}, {"MASTER_PORT", "29500"}}));
}

TEST(LauncherVariables, LeavingRemovesAllOfAPlace) {
  const auto left = [](std::vector<std::pair<std::string, std::string>> variables) {
    variables.emplace_back("WEFT_TOKEN", "secret");
    variables.emplace_back("WEFT_HOST", "a");
    variables.emplace_back("SLURM_JOB_ID", "7");
    const EnvironmentVariables environment(variables);
    leave_outer_place();
    std::string names;
    for (const auto& [name, value] : variables) names += std::getenv(name.c_str()) != nullptr ? name + " " : "";
    return names;
  };
  EXPECT_EQ(
      left({{"RANK", "1"}, {"LOCAL_RANK", "1"}, {"MASTER_PORT", "29500"}, {"WEFT_STORE", "a:4/29500"}, {"WEFT_BOARD", "4"}}),
      "WEFT_HOST SLURM_JOB_ID ");
  EXPECT_EQ(left({{"WEFT_NODES", "2"}, {"WEFT_NODE_RANK", "1"}, {"WEFT_HEAD", "a:1"}, {"SLURM_STEP_ID", "0"}}),
            "WEFT_TOKEN WEFT_HOST SLURM_JOB_ID ");
}

}  // namespace
}  // namespace weft
