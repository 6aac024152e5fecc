#include "weft/base/slurm_step.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/environment_variables.h"
#include "tests/support/refusal.h"

namespace weft {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;
using test::EnvironmentVariables;

/// Variables of task 2 of three on two hosts, as srun sets them.
Variables step_with(const Variables& changes) {
  Variables all = {{"SLURM_JOB_ID", "71"},
                   {"SLURM_STEP_ID", "3"},
                   {"SLURM_PROCID", "2"},
                   {"SLURM_LOCALID", "0"},
                   {"SLURM_NODEID", "1"},
                   {"SLURM_STEP_NUM_TASKS", "3"},
                   {"SLURM_NTASKS", "8"},
                   {"SLURM_STEP_NODELIST", "n[07-08]"},
                   {"SLURM_JOB_NODELIST", "n[05-08]"},
                   {"SLURM_STEP_TASKS_PER_NODE", "2,1"},
                   {"SLURM_TASKS_PER_NODE", "2(x4)"}};
  for (const auto& [name, value] : changes) {
    std::erase_if(all, [&name = name](const auto& variable) { return variable.first == name; });
    if (!value.empty()) all.emplace_back(name, value);
  }
  return all;
}

TEST(SlurmStep, ReadsTheVariablesOfSrun) {
  const EnvironmentVariables environment(step_with({}));
  const auto step = slurm_step();
  ASSERT_TRUE(step);
  EXPECT_EQ(step->job, "71");
  EXPECT_EQ(step->step, 3);
  EXPECT_EQ(step->task, 2);
  EXPECT_EQ(step->num_tasks, 3) << "the step's, not the job's";
  EXPECT_EQ(step->node, 1);
  EXPECT_EQ(step->hosts, (std::vector<std::string>{"n07", "n08"}));
  EXPECT_EQ(step->tasks_of_host, (std::vector<int>{2, 1}));
  EXPECT_EQ(step->address(), "n07");
  EXPECT_EQ(step->token(), "slurm 71/0.3");
}

TEST(SlurmStep, AcceptsOldNames) {
  const EnvironmentVariables environment({{"SLURM_JOBID", "71"},
                                          {"SLURM_STEP_ID", "0"},
                                          {"SLURM_PROCID", "0"},
                                          {"SLURM_LOCALID", "0"},
                                          {"SLURM_NODEID", "0"},
                                          {"SLURM_NPROCS", "2"},
                                          {"SLURM_NODELIST", "n1"},
                                          {"SLURM_TASKS_PER_NODE", "2"}});
  const auto step = slurm_step();
  ASSERT_TRUE(step);
  EXPECT_EQ(step->num_tasks, 2);
  EXPECT_EQ(step->address(), "127.0.0.1") << "one host";
}

TEST(SlurmStep, OutsideAStepIsEmpty) {
  const Variables batch = step_with({{"SLURM_STEP_ID", ""}});
  for (const Variables& variables : {Variables{}, batch, step_with({{"SLURM_STEP_ID", "4294967291"}}) /* the batch script */,
                                     step_with({{"SLURM_STEP_ID", "4294967290"}}) /* salloc's shell */}) {
    const EnvironmentVariables environment(variables);
    EXPECT_FALSE(slurm_step());
  }
}

TEST(SlurmStep, StepsAndRequeuesMeetAtDifferentPorts) {
  const auto port = [](const Variables& changes) {
    const EnvironmentVariables environment(step_with(changes));
    return slurm_step()->port();
  };
  std::set<int> ports;
  for (int step = 0; step < 200; ++step) ports.insert(port({{"SLURM_STEP_ID", std::to_string(step)}}));
  EXPECT_EQ(ports.size(), 200U);
  EXPECT_GE(*ports.begin(), 23000);
  EXPECT_LT(*ports.rbegin(), 28000);
  EXPECT_EQ(port({{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}}), port({})) << "all tasks agree";
  EXPECT_NE(port({{"SLURM_RESTART_COUNT", "1"}}), port({}));
  EXPECT_NE(port({{"SLURM_JOB_ID", "72"}}), port({}));
  EXPECT_EQ(port({{"MASTER_PORT", "29500"}}), 29500);
  EXPECT_EQ(port({{"MASTER_PORT", "29500"}, {"WEFT_PORT", "29501"}}), 29501);
  std::set<int> open;
  for (int step = 0; step < 50; ++step)
    open.insert(port({{"SLURM_STEP_ID", std::to_string(step)}, {"WEFT_PORTS", "20000-20099"}}));
  EXPECT_EQ(open.size(), 25U);
  EXPECT_EQ(*open.begin(), 20000);
  EXPECT_EQ(*open.rbegin(), 20024);
  EXPECT_NE(test::refusal([&] { port({{"WEFT_PORT", "65536"}}); }).find("WEFT_PORT=65536"), std::string::npos);
}

TEST(SlurmStep, ContradictionsAreNamed) {
  struct Case {
    Variables changes;
    std::string text;
  };
  const Case cases[] = {
      {{{"SLURM_HET_SIZE", "2"}}, "SLURM_HET_SIZE=2: "},
      {{{"SLURM_PROCID", ""}}, "SLURM_PROCID is not"},
      {{{"SLURM_JOB_ID", ""}}, "SLURM_JOB_ID is not"},
      {{{"SLURM_PROCID", "3"}}, "SLURM_PROCID=3 of 3 tasks"},
      {{{"SLURM_NODEID", "2"}}, "SLURM_NODEID=2, but SLURM_STEP_NODELIST names 2 hosts"},
      {{{"SLURM_STEP_TASKS_PER_NODE", "3"}}, "SLURM_STEP_TASKS_PER_NODE lists 1 hosts but SLURM_STEP_NODELIST lists 2"},
      {{{"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}}, "SLURM_STEP_TASKS_PER_NODE=2(x2) lists 4 tasks but the step has 3"},
      {{{"SLURM_STEP_NODELIST", "n[7-"}}, "SLURM_STEP_NODELIST=\"n[7-\": "},
      {{{"SLURM_STEP_NODELIST", ""}, {"SLURM_JOB_NODELIST", ""}}, "SLURM_STEP_NODELIST is not"},
      {{{"SLURM_STEP_NUM_TASKS", "many"}}, "SLURM_STEP_NUM_TASKS='many'"},
      {{{"SLURM_STEP_ID", "x"}}, "SLURM_STEP_ID='x'"},
  };
  for (const Case& test : cases) {
    const EnvironmentVariables environment(step_with(test.changes));
    const std::string text = test::refusal([] { slurm_step(); });
    EXPECT_NE(text.find(test.text), std::string::npos) << test.text << ": " << text;
  }
}

TEST(SlurmStep, TaskResourcesCountOnlyIfTheTaskIsTheRank) {
  const Variables given = step_with({{"SLURM_CPUS_PER_TASK", "4"}, {"SLURM_GPUS_PER_TASK", "a100:2"}});
  {
    const EnvironmentVariables environment(given);
    EXPECT_EQ(slurm_cores_per_task(), 4);
    EXPECT_EQ(slurm_gpus_per_task(), 2);
  }
  Variables of_launcher = given;
  of_launcher.emplace_back("RANK", "1");
  const EnvironmentVariables environment(of_launcher);
  EXPECT_FALSE(slurm_cores_per_task());
  EXPECT_FALSE(slurm_gpus_per_task());
}

}  // namespace
}  // namespace weft
