// Records in parts: whole lines of limited parts, of which only the last changes; resumed, begun anew, and after failures. On
// disk here; tests/buckets has an object store.
#include "weft/train/save/bucket_records.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/data/temp_folder.h"
#include "weft/base/error.h"
#include "weft/report/records/record_parts.h"
#include "weft/report/records/record_text.h"

namespace weft::bucket_records_test {
namespace {

StepRecord step(int64_t number) { return {.step = number, .time_s = 0, .values = {{"loss", 0.5}}}; }

class Parts : public testing::Test {
 protected:
  BucketRecordsOptions options(int64_t steps_done, std::chrono::milliseconds period = {}) const {
    return {.place = folder_.path(), .steps_done = steps_done, .lock = {}, .part_bytes = 150, .period = period};
  }
  /// Records steps as a process of the run that takes over after `from`, and is killed.
  void run(int64_t from, int64_t to) const {
    BucketRecords records(options(from));
    records.add(EventRecord{.kind = "start", .step = from, .time_s = 0, .text = "begun"});
    records.flush();
    for (int64_t number = from + 1; number <= to; ++number) records.add(step(number));
    records.flush();
  }
  std::vector<std::string> files(int records, const char* name) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.file(records_name(records)))) {
      names.push_back(entry.path().filename());
    }
    std::vector<std::string> files;
    for (const int part : parts_among(names, name)) files.push_back(records_name(records) + "/" + part_name(name, part));
    return files;
  }
  std::string text(int records, const char* name = "metrics.jsonl") const {
    std::string all;
    for (const std::string& file : files(records, name)) {
      const std::string part = folder_.read(file);
      EXPECT_TRUE(part.ends_with('\n')) << file;
      EXPECT_LE(part.size(), 150U) << file;
      all += part;
    }
    return all;
  }
  static std::string lines(int64_t last) {
    std::string all;
    for (int64_t number = 1; number <= last; ++number) all += record_text(step(number)) + "\n";
    return all;
  }

  test::TempFolder folder_;
};

TEST_F(Parts, HaveEachStepOnceWhereverARunResumes) {
  for (const int64_t from : {0, 1, 4, 5, 9, 10}) {
    run(0, 10);
    run(from, 20);
    const int newest = from == 0 ? 2 : 1;
    EXPECT_EQ(text(newest), lines(20)) << from;
    EXPECT_EQ(std::ranges::count(text(newest, "events.jsonl"), '\n'), from == 0 ? 1 : 2);
    if (from == 0) {
      EXPECT_EQ(text(1), lines(10)) << "begun anew";
    }
    std::filesystem::remove_all(folder_.file("records-1"));
    std::filesystem::remove_all(folder_.file("records-2"));
  }
}

TEST_F(Parts, AreLeftAloneOnceTheyAreFull) {
  BucketRecords records(options(0));
  for (int64_t number = 1; number <= 5; ++number) records.add(step(number));
  records.flush();
  const std::vector<std::string> before = files(1, "metrics.jsonl");
  ASSERT_GE(before.size(), 2U);
  folder_.write(before.front(), "mark\n");
  for (int64_t number = 6; number <= 9; ++number) records.add(step(number));
  records.flush();
  EXPECT_EQ(folder_.read(before.front()), "mark\n");
  EXPECT_GT(files(1, "metrics.jsonl").size(), before.size());
}

TEST_F(Parts, AreWrittenInTheirPeriodAndWhenAskedFor) {
  BucketRecords records(options(0, std::chrono::hours(1)));
  records.add(step(1));
  records.flush();
  EXPECT_EQ(text(1), lines(1)) << "the first at once";
  records.add(step(2));
  records.flush();
  EXPECT_EQ(text(1), lines(1));
  records.flush_asked();
  EXPECT_EQ(text(1), lines(2));
}

TEST_F(Parts, KeepLinesThatCannotBeWrittenYet) {
  BucketRecords records(options(0));
  records.add(step(1));
  records.flush();
  std::filesystem::remove_all(folder_.file("records-1"));
  folder_.write("records-1", "in the way");
  for (const int64_t number : {2, 3}) {
    records.add(step(number));
    EXPECT_THROW(records.flush(), Error);
  }
  std::filesystem::remove(folder_.file("records-1"));
  records.flush();
  EXPECT_EQ(text(1), lines(3));
}

}  // namespace
}  // namespace weft::bucket_records_test
