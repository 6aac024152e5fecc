// CSV: columns as they come, the rows of a resumed run, text that needs quotes.
#include "weft/report/sinks/csv_sink.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "tests/data/temp_folder.h"
#include "weft/base/error.h"

namespace weft::csv_sink_test {
namespace {

TEST(CsvSink, HasAColumnPerValue) {
  const test::TempFolder folder;
  CsvSink sink(folder.path(), 0);
  sink.add(StepRecord{.step = 1, .time_s = 1.5, .values = {{"loss", 0.5}}});
  sink.flush();
  sink.add(StepRecord{.step = 2, .time_s = 2.5, .values = {{"norm", 7.0}, {"loss", NAN}}});
  sink.add(StepRecord{.step = 3, .time_s = 3.5, .values = {{"loss", 0.25}}});
  sink.add(EvaluationRecord{.set = "a, \"b\"", .step = 3, .time_s = 4.0, .values = {{"accuracy", 0.5}}});
  sink.flush();
  EXPECT_EQ(folder.read("metrics.csv"), "step,time,loss,norm\n1,1.500,0.5\n2,2.500,,7\n3,3.500,0.25,\n");
  EXPECT_EQ(folder.read("evaluations.csv"), "evaluation,step,time,accuracy\n\"a, \"\"b\"\"\",3,4.000,0.5\n");
}

TEST(CsvSink, GoesOnWhereTheRunResumes) {
  const test::TempFolder folder;
  const auto run = [&](int64_t from, int64_t to) {
    CsvSink sink(folder.path(), from);
    for (int64_t step = from + 1; step <= to; ++step) {
      sink.add(StepRecord{.step = step, .time_s = 0, .values = {{"loss", static_cast<double>(10 * from + step)}}});
      sink.add(EvaluationRecord{.set = "x", .step = step, .time_s = 0, .values = {{"loss", 0.5}}});
    }
    sink.flush();
  };
  run(0, 4);
  run(2, 3);
  EXPECT_EQ(folder.read("metrics.csv"), "step,time,loss\n1,0.000,1\n2,0.000,2\n3,0.000,23\n");
  EXPECT_EQ(folder.read("evaluations.csv"), "evaluation,step,time,loss\nx,1,0.000,0.5\nx,2,0.000,0.5\nx,3,0.000,0.5\n");
}

TEST(CsvSink, LeavesAnotherProgramsFileAlone) {
  const test::TempFolder folder;
  folder.write("metrics.csv", "epoch,loss\n1,2\n");
  for (const int64_t steps_done : {0, 3}) EXPECT_THROW(CsvSink(folder.path(), steps_done), InputError);
  EXPECT_EQ(folder.read("metrics.csv"), "epoch,loss\n1,2\n");
}

}  // namespace
}  // namespace weft::csv_sink_test
