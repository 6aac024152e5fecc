// Accounting information: the job from each manager's variables, and the user.
#include "weft/base/accounting.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/environment_variables.h"

namespace weft::accounting_test {
namespace {

TEST(Accounting, NamesTheJobLikeItsManager) {
  const std::pair<std::vector<std::pair<std::string, std::string>>, std::string> cases[] = {
      {{}, ""},
      {{{"SLURM_JOB_ID", "4711"}}, "slurm 4711"},
      {{{"SLURM_JOB_ID", "4713"}, {"SLURM_ARRAY_JOB_ID", "4711"}, {"SLURM_ARRAY_TASK_ID", "2"}}, "slurm 4711_2"},
      {{{"PBS_JOBID", "12.head"}}, "pbs 12.head"},
      {{{"LSB_JOBID", "99"}}, "lsf 99"},
      {{{"JOB_ID", "7"}, {"SGE_TASK_ID", "undefined"}}, "sge 7"},
      {{{"JOB_ID", "7"}}, ""},
      {{{"SLURM_JOB_ID", "4711"}, {"WEFT_JOB", "night run"}}, "night run"},
  };
  for (const auto& [variables, expected] : cases) {
    const test::EnvironmentVariables set(variables);
    EXPECT_EQ(cluster_job(), expected);
  }
  EXPECT_FALSE(user_name().empty());
}

}  // namespace
}  // namespace weft::accounting_test
