#include "weft/launch/slurm/slurm_nodes.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/environment_variables.h"
#include "tests/support/refusal.h"

namespace weft::slurm_nodes_test {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;
using test::EnvironmentVariables;

Variables agent_with(const Variables& changes) {
  Variables all = {{"SLURM_JOB_ID", "71"},
                   {"SLURM_STEP_ID", "0"},
                   {"SLURM_PROCID", "1"},
                   {"SLURM_LOCALID", "0"},
                   {"SLURM_NODEID", "1"},
                   {"SLURM_STEP_NUM_TASKS", "3"},
                   {"SLURM_STEP_NODELIST", "n[1-3]"},
                   {"SLURM_STEP_TASKS_PER_NODE", "1(x3)"}};
  all.insert(all.end(), changes.begin(), changes.end());
  return all;
}

TEST(SlurmNodes, OneTaskPerHostIsItsAgent) {
  const EnvironmentVariables environment(agent_with({}));
  const auto place = slurm_nodes();
  ASSERT_TRUE(place);
  EXPECT_EQ(place->nodes, 3);
  EXPECT_EQ(place->node_rank, 1);
  EXPECT_EQ(place->head_host, "n1");
  EXPECT_TRUE(place->head_port >= 23000 && place->head_port < 28000) << place->head_port;
  EXPECT_EQ(place->token, "slurm 71/0.0");
}

TEST(SlurmNodes, TheEnvironmentMaySayOtherwise) {
  const EnvironmentVariables environment(
      agent_with({{"MASTER_ADDR", "n1-ib"}, {"WEFT_PORT", "7000"}, {"WEFT_TOKEN", "secret"}}));
  const auto place = slurm_nodes();
  ASSERT_TRUE(place);
  EXPECT_EQ(place->head_host, "n1-ib");
  EXPECT_EQ(place->head_port, 7000);
  EXPECT_EQ(place->token, "secret");
}

TEST(SlurmNodes, OneHostNeedsNoOthers) {
  for (const Variables& variables : {Variables{}, agent_with({{"RANK", "0"}}), agent_with({{"SLURM_STEP_ID", "4294967290"}}),
                                     agent_with({{"SLURM_STEP_NUM_TASKS", "1"},
                                                 {"SLURM_PROCID", "0"},
                                                 {"SLURM_NODEID", "0"},
                                                 {"SLURM_STEP_NODELIST", "n1"},
                                                 {"SLURM_STEP_TASKS_PER_NODE", "1"}})}) {
    const EnvironmentVariables environment(variables);
    EXPECT_FALSE(slurm_nodes());
  }
}

TEST(SlurmNodes, SeveralTasksPerHostAreNotAgents) {
  const EnvironmentVariables environment(agent_with({{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_TASKS_PER_NODE", "2,1(x2)"}}));
  EXPECT_EQ(test::refusal([] { slurm_nodes(); }).rfind("srun started 4 tasks on 3 hosts, and -n asks for further ranks", 0),
            0U);
}

}  // namespace
}  // namespace weft::slurm_nodes_test
