// Names of records in buckets, and the lines of a part.
#include "weft/report/records/record_parts.h"

#include <gtest/gtest.h>

namespace weft::record_parts_test {
namespace {

TEST(RecordParts, AreNamedAndFound) {
  EXPECT_EQ(records_name(2) + "/" + part_name("metrics.jsonl", 3), "records-2/metrics-000003.jsonl");
  EXPECT_EQ(newest_records({"records-2", "records-10", "records-x", "records-", "records--3", "step-00000012"}), 10);
  EXPECT_EQ(newest_records({"step-00000012"}), 0);
  EXPECT_EQ(parts_among({"metrics-000010.jsonl", "events-000001.jsonl", "metrics-000002.jsonl", "metrics-.jsonl",
                         "metrics-1234567.jsonl", "metrics.jsonl", "metrics-000003.json"},
                        "metrics.jsonl"),
            (std::vector<int>{2, 10, 1234567}));
}

TEST(RecordParts, HaveWholeLines) {
  EXPECT_EQ(lines_within("ab\ncd\n", 6), 6U);
  EXPECT_EQ(lines_within("ab\ncd\n", 5), 3U);
  EXPECT_EQ(lines_within("ab\ncd\n", 3), 3U);
  EXPECT_EQ(lines_within("ab\ncd\n", 2), 0U);
  EXPECT_EQ(lines_within("ab\ncd\n", 0), 0U);
  EXPECT_EQ(lines_within("", 0), 0U);
}

}  // namespace
}  // namespace weft::record_parts_test
