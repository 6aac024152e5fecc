#include "weft/program/pipeline/check_schedule.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "weft/base/error.h"

namespace weft::check_schedule_test {
namespace {

using enum TaskKind;

// Two ranks; rank 0 splits its backwards.
Schedule good() {
  return {.name = "toy",
          .micro_batches = 2,
          .rank_of_stage = {0, 1},
          .tasks = {{{forward, 0, 0},
                     {forward, 0, 1},
                     {backward_input, 0, 0},
                     {backward_input, 0, 1},
                     {backward_weight, 0, 0},
                     {backward_weight, 0, 1}},
                    {{forward, 1, 0}, {backward, 1, 0}, {forward, 1, 1}, {backward, 1, 1}}}};
}

TEST(CheckSchedule, a_good_one_passes) { EXPECT_NO_THROW(check_schedule(good())); }

TEST(CheckSchedule, errors_name_the_defect) {
  struct Case {
    std::function<void(Schedule&)> spoil;
    std::string says;
  };
  const std::vector<Case> cases = {
      {[](Schedule& s) { s.micro_batches = 0; }, ": 0 micro-batches, needs at least 1"},
      {[](Schedule& s) { s.rank_of_stage[1] = 2; }, "stage 1 is placed on rank 2"},
      {[](Schedule& s) { s.tasks.emplace_back(); }, "rank 2: holds no stage"},
      {[](Schedule& s) { s.rank_of_stage.clear(), s.tasks.clear(); }, "no ranks"},
      {[](Schedule& s) { s.tasks[0][0].stage = 2; }, "rank 0: forward of stage 2, micro-batch 0 does not exist: stages end"},
      {[](Schedule& s) { s.tasks[0][0].stage = 1; }, "rank 0: forward of stage 1, micro-batch 0 belongs to rank 1"},
      {[](Schedule& s) { s.tasks[1][2].micro = 0; }, "rank 1: forward of stage 1, micro-batch 0 appears twice"},
      {[](Schedule& s) { std::swap(s.tasks[0][0], s.tasks[0][1]); },
       "rank 0: forward of stage 0, micro-batch 0 comes after that of micro-batch 1"},
      {[](Schedule& s) { std::swap(s.tasks[0][4], s.tasks[0][5]); },
       "rank 0: backward_weight of stage 0, micro-batch 0 comes after that of micro-batch 1"},
      {[](Schedule& s) { s.tasks[1].pop_back(); }, "rank 1: backward of stage 1, micro-batch 1 is missing"},
      {[](Schedule& s) { s.tasks[0].pop_back(); }, "rank 0: backward_weight of stage 0, micro-batch 1 is missing"},
      {[](Schedule& s) { s.tasks[0][5].kind = backward; }, "rank 0: backward of stage 0, micro-batch 1 is whole, but a part"},
      {[](Schedule& s) { s.tasks[1].erase(s.tasks[1].begin()); }, "rank 1: forward of stage 1, micro-batch 0 is missing"},
      {[](Schedule& s) { std::swap(s.tasks[0][1], s.tasks[0][2]), std::swap(s.tasks[1][1], s.tasks[1][2]); },
       "rank 1: forward of stage 1, micro-batch 1 can never start"},
      {[](Schedule& s) { std::swap(s.tasks[1][0], s.tasks[1][1]); },
       "rank 1: backward of stage 1, micro-batch 0 can never start"},
  };
  for (const Case& one : cases) {
    Schedule schedule = good();
    one.spoil(schedule);
    try {
      check_schedule(schedule);
      ADD_FAILURE() << "passes, but should say: " << one.says;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(one.says), std::string::npos) << error.what() << "\nshould say: " << one.says;
    }
  }
}

}  // namespace
}  // namespace weft::check_schedule_test
