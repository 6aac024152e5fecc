// Records in files: the text of their lines, and what a resumed, a killed and a new run find and leave.
#include "weft/report/records/record_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>

#include "tests/data/temp_folder.h"
#include "weft/base/storage_error.h"
#include "weft/report/records/record_text.h"

namespace weft::record_files_test {
namespace {

StepRecord step(int64_t number) {
  return {.step = number, .time_s = 0.5 * static_cast<double>(number), .values = {{"loss", 2.0}}};
}

/// A run of steps (first, last], flushed.
void write(const std::string& folder, int64_t first, int64_t last) {
  RecordFiles files(folder, first);
  for (int64_t number = first + 1; number <= last; ++number) files.add(step(number));
  files.flush();
}

std::string lines(int64_t first, int64_t last) {
  std::string text;
  for (int64_t number = first + 1; number <= last; ++number) text += record_text(step(number)) + "\n";
  return text;
}

TEST(RecordText, IsALineOfJson) {
  EXPECT_EQ(record_text(StepRecord{.step = 3,
                                   .time_s = 1764583200.25,
                                   .values = {{"loss", 2.0 / 3}, {"time/step", 2.0 / 3}, {"clipped", 1.0}, {"norm\"x", 0.5}}}),
            R"({"step":3,"time":1764583200.250,"loss":0.6666666666666666,"time/step":0.6666667,"clipped":1,"norm\"x":0.5})");
  EXPECT_EQ(record_text(EvaluationRecord{.set = "new words", .step = 3, .time_s = 1.0, .values = {{"loss", NAN}}}),
            R"({"evaluation":"new words","step":3,"time":1.000,"loss":null})");
  EXPECT_EQ(record_text(EventRecord{.kind = "save", .step = 3, .time_s = 1.0, .text = "a\nb", .details = {{"path", "x\xff"}}}),
            "{\"event\":\"save\",\"step\":3,\"time\":1.000,\"text\":\"a\\nb\",\"details\":{\"path\":\"x\xef\xbf\xbd\"}}");
  EXPECT_EQ(record_text(StepRecord{.step = 1, .time_s = 0, .values = {{"x", std::numeric_limits<double>::infinity()}}}),
            R"({"step":1,"time":0.000,"x":null})");
}

TEST(RecordFiles, GoOnWhereTheRunResumes) {
  const test::TempFolder folder;
  write(folder.path(), 0, 5);
  write(folder.path(), 3, 4);  // steps 4 and 5 are done again
  EXPECT_EQ(folder.read(kMetricsFile), lines(0, 4));
  write(folder.path(), 9, 10);  // from another run's checkpoint: nothing to cut
  EXPECT_EQ(folder.read(kMetricsFile), lines(0, 4) + lines(9, 10));
}

TEST(RecordFiles, AreMadeAnewWhereTheyWereRemoved) {
  const test::TempFolder folder;
  const std::filesystem::path run = folder.path() / "run";
  RecordFiles files(run.string(), 0);
  files.add(step(1));
  files.flush();
  std::filesystem::remove_all(run);
  files.add(step(2));
  EXPECT_THROW(files.flush(), IoError);  // reported once
  files.add(step(3));
  files.flush();
  EXPECT_EQ(folder.read("run/metrics.jsonl"), lines(1, 3));
}

TEST(RecordFiles, LoseOnlyALineThatIsNotWhole) {
  const test::TempFolder folder;
  write(folder.path(), 0, 5);
  const std::string whole = folder.read(kMetricsFile);
  for (const size_t cut : {size_t{1}, size_t{2}, size_t{30}}) {
    std::filesystem::resize_file(folder.file(kMetricsFile), whole.size() - cut);
    write(folder.path(), 5, 5);
    EXPECT_EQ(folder.read(kMetricsFile), lines(0, 4)) << cut;
    std::ofstream(folder.file(kMetricsFile)) << whole;
  }
}

TEST(RecordFiles, OfAnEarlierRunAreSetAside) {
  const test::TempFolder folder;
  for (int run = 1; run <= 3; ++run) write(folder.path(), 0, run);
  EXPECT_EQ(folder.read("metrics-1.jsonl"), lines(0, 1));
  EXPECT_EQ(folder.read("metrics-2.jsonl"), lines(0, 2));
  EXPECT_EQ(folder.read(kMetricsFile), lines(0, 3));
}

TEST(RecordFiles, AreOfOneRunAtATime) {
  const test::TempFolder folder;
  auto first = std::make_unique<RecordFiles>(folder.path(), 0);
  EXPECT_THROW(RecordFiles(folder.path(), 0), HeldError);
  first->add(step(1));
  first->add(step(2));
  first->flush();
  RecordFiles next(folder.path(), 1);  // resumes while the process before it still ends
  next.add(step(2));
  EXPECT_THROW(next.flush(), HeldError);
  first.reset();
  next.flush();
  EXPECT_EQ(folder.read(kMetricsFile), lines(0, 2));
}

TEST(RecordFiles, KeepLinesWhileTheDiskIsFull) {
  const test::TempFolder folder;
  RecordFiles files(folder.path(), 0);
  files.add(step(1));
  files.flush();
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit full = before;
  full.rlim_cur = lines(0, 1).size() + 10;  // a part of the next line fits
  setrlimit(RLIMIT_FSIZE, &full);
  files.add(step(2));
  EXPECT_THROW(files.flush(), IoError);
  files.add(step(3));
  EXPECT_THROW(files.flush(), IoError);
  EXPECT_EQ(folder.read(kMetricsFile), lines(0, 1));
  setrlimit(RLIMIT_FSIZE, &before);
  files.flush();
  EXPECT_EQ(folder.read(kMetricsFile), lines(0, 3));
}

TEST(RecordFiles, AreRefusedWhereTheyCannotBe) {
  const test::TempFolder folder;
  std::ofstream(folder.file("a file")) << "x";
  EXPECT_THROW(check_record_folder(folder.file("a file")), InputError);
  EXPECT_THROW(check_record_folder(folder.file("a file/below")), InputError);
  EXPECT_NO_THROW(check_record_folder(folder.file("new/folders")));
  EXPECT_FALSE(std::filesystem::exists(folder.file("new")));
}

}  // namespace
}  // namespace weft::record_files_test
