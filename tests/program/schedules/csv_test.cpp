#include "weft/program/schedules/csv.h"

#include <gtest/gtest.h>

#include <string>

#include "weft/base/error.h"
#include "weft/program/schedules/interleaved.h"
#include "weft/program/schedules/one_f_one_b.h"
#include "weft/program/schedules/zb_v.h"

namespace weft {
namespace {

void expect_same(const Schedule& a, const Schedule& b) {
  EXPECT_EQ(a.micro_batches, b.micro_batches);
  EXPECT_EQ(a.rank_of_stage, b.rank_of_stage);
  EXPECT_EQ(a.tasks, b.tasks);
}

TEST(CsvSchedule, a_written_schedule_is_read_back) {
  for (const Schedule& schedule :
       {one_f_one_b_schedule({.ranks = 4, .micro_batches = 12}), zb_v_schedule({.ranks = 3, .chunks = 2, .micro_batches = 5}),
        interleaved_schedule({.ranks = 2, .chunks = 3, .micro_batches = 4})}) {
    expect_same(csv_schedule(to_csv(schedule)), schedule);
  }
}

TEST(CsvSchedule, the_text_is_a_timeline) {
  EXPECT_EQ(to_csv(one_f_one_b_schedule({.ranks = 2, .micro_batches = 3})),
            "F0.0, F0.1,     ,     , B0.0,     , F0.2, B0.1,     ,     , B0.2\n"
            "    , F1.0, B1.0,     , F1.1, B1.1,     , F1.2, B1.2\n");
}

TEST(CsvSchedule, idle_cells_comments_and_blank_lines_say_nothing) {
  expect_same(csv_schedule("# mine\n\nF0.0,,,B0.0\r\n , F1.0, I1.0, W1.0,\n"), csv_schedule("F0.0,B0.0\nF1.0,I1.0,W1.0"));
}

TEST(CsvSchedule, errors_name_the_defect) {
  struct Case {
    std::string text, says;
  };
  const std::vector<Case> cases = {
      {"", "no rows"},
      {"# nothing\n", "no rows"},
      {"F0.0,X0.0\n", "row of rank 0, cell 2: 'X0.0' is not a task"},
      {"F0.0,B0.0\nF1.0,,B1\n", "row of rank 1, cell 3: 'B1' is not a task"},
      {"F0.0,B0.-1\n", "'B0.-1' is not a task"},
      {"F0.0,B0.99999999999\n", "'B0.99999999999' is not a task"},
      {"F0.0,B0.0,F2.0,B2.0\n", "stage 1 is in no row"},
      {"F0.0,B0.0,F200000.0,B2.0\n", "number both from 0 without gaps"},
      {"F0.0,B0.0\nF0.1,B0.1\n", "rank 1: forward of stage 0, micro-batch 1 belongs to rank 0"},
      {"F0.0,B0.0,F0.1\n", "rank 0: backward of stage 0, micro-batch 1 is missing"},
  };
  for (const Case& one : cases) {
    try {
      csv_schedule(one.text);
      ADD_FAILURE() << "passes, but should say: " << one.says;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(one.says), std::string::npos) << error.what() << "\nshould say: " << one.says;
    }
  }
}

}  // namespace
}  // namespace weft
