// Reading records: the same values in whatever pieces the file comes, whatever is damaged in it.
#include "weft/report/records/read_records.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "weft/report/records/record_text.h"

namespace weft::read_records_test {
namespace {

std::string line(const auto& record) { return record_text(record) + "\n"; }

/// Three steps; the second has a value that the first lacks, and lacks one.
const std::string& text() {
  static const std::string all =
      line(StepRecord{.step = 1, .time_s = 10.5, .values = {{"loss", 1.0 / 3}, {"lr", 0.1}}}) +
      line(StepRecord{.step = 2, .time_s = 11.0, .values = {{"loss", NAN}, {"grad_norm", 7.0}}}) +
      line(EvaluationRecord{.set = "a \"set\"", .step = 2, .time_s = 12.0, .values = {{"accuracy", 0.25}}}) +
      line(StepRecord{.step = 5, .time_s = 13.0, .values = {{"lr", 0.2}, {"loss", 0.5}}});
  return all;
}

std::string shown(const Metrics& metrics) {
  std::string all;
  for (size_t row = 0; row < metrics.steps.size(); ++row) {
    StepRecord record{.step = metrics.steps[row], .time_s = metrics.times_s[row]};
    for (const MetricColumn& column : metrics.columns) record.values.push_back({column.name, column.values.at(row)});
    all += line(record);
  }
  for (const EvaluationRecord& evaluation : metrics.evaluations) all += line(evaluation);
  return all + std::to_string(metrics.damaged_lines);
}

const char* const kShown =
    "{\"step\":1,\"time\":10.500,\"loss\":0.3333333333333333,\"lr\":0.1,\"grad_norm\":null}\n"
    "{\"step\":2,\"time\":11.000,\"loss\":null,\"lr\":null,\"grad_norm\":7}\n"
    "{\"step\":5,\"time\":13.000,\"loss\":0.5,\"lr\":0.2,\"grad_norm\":null}\n"
    "{\"evaluation\":\"a \\\"set\\\"\",\"step\":2,\"time\":12.000,\"accuracy\":0.25}\n";

TEST(MetricsReader, ReadsTheFileInAnyPieces) {
  for (size_t piece = 1; piece <= text().size(); ++piece) {
    MetricsReader reader;
    for (size_t at = 0; at < text().size(); at += piece) reader.add(std::string_view(text()).substr(at, piece));
    ASSERT_EQ(shown(reader.metrics()), kShown + std::string("0")) << piece;
  }
}

/// Some thousand lines: columns that come and go, two of one name in a line, escapes, blanks, evaluations, numbers at their
/// limits, damage of each kind, and a torn line at the end.
std::string long_text() {
  const std::vector<std::string> odd = {"{\"step\":7,\"time\":1,\"loss\":0.5,\"new\":1,",
                                        "{\"step\":1.5,\"time\":1}",
                                        "{\"step\":8,\"loss\":nan}",
                                        "{\"step\":9,\"loss\":inf,\"other\":2}",
                                        "{\"loss\":1,\"step\":2}",
                                        "{\"step\":1,\"step\":2}",
                                        "",
                                        "[1]",
                                        "{\"step\":10,\"time\":1,\"a\\u001b\":2,\"loss\":1e99}",
                                        "{\"step\":11,}",
                                        " { \"step\" : 12, \"loss\" : -0.0 } ",
                                        "{\"step\":13,\"loss\":1,\"loss\":2}",
                                        "{\"step\":14,\"loss\":1.5x}",
                                        "{\"step\":15,\"loss\":\"1\"}",
                                        "{\"step\":16}"};
  std::string all;
  for (int64_t step = 1; step <= 5000; ++step) {
    const double value = 1.0 / static_cast<double>(step);
    StepRecord record{
        .step = step, .time_s = 1e9 + value, .values = {{"loss", value}, {"lr", step % 7 == 0 ? NAN : 1e-300 * value}}};
    if (step % 5 == 0) record.values.insert(record.values.begin(), {"grad_norm", 1e300 * value});
    if (step % 1000 == 900) record.values.push_back({"late/" + std::to_string(step), value});
    all += line(record);
    if (step % 11 == 0) all += line(EvaluationRecord{.set = "a", .step = step, .time_s = 2.0, .values = {{"loss", value}}});
    if (step % 13 == 0) all += odd[static_cast<size_t>(step / 13) % odd.size()] + "\n";
  }
  return all + "{\"step\":5001,\"time\":1";
}

/// All that was read, bit by bit.
std::string bits_of(const Metrics& metrics) {
  std::string all = std::to_string(metrics.damaged_lines);
  const auto add = [&](const auto& values) {
    all += " " + std::to_string(values.size()) + " ";
    all.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0]));
  };
  add(metrics.steps);
  add(metrics.times_s);
  for (const MetricColumn& column : metrics.columns) {
    all += column.name;
    add(column.values);
  }
  for (const EvaluationRecord& evaluation : metrics.evaluations) all += line(evaluation);
  return all;
}

TEST(MetricsReader, ReadsTheSameBitsOnAnyNumberOfThreads) {
  const std::string text = long_text();
  MetricsReader whole;
  whole.add(text);
  const std::string expected = bits_of(whole.metrics());
  EXPECT_GT(text.size(), size_t{400} << 10);
  EXPECT_EQ(whole.metrics().damaged_lines, 9 * 25 + 6);
  EXPECT_EQ(whole.metrics().columns.size(), 9U);  // no "new", no "other": a damaged line adds nothing
  for (const size_t threads : {1, 2, 3, 8}) {
    for (const size_t piece : {text.size(), text.size() / 2, size_t{200'001}, size_t{70'000}}) {
      MetricsReader reader({}, threads);
      for (size_t at = 0; at < text.size(); at += piece) reader.add(std::string_view(text).substr(at, piece));
      ASSERT_TRUE(bits_of(reader.metrics()) == expected) << threads << " threads, pieces of " << piece;
    }
  }
}

TEST(MetricsReader, RoundsNumbersOnce) {
  for (const std::string text : {"0", "-0", "7", "0.1", "-0.3333333333333333", "123456789012345", "1234567890123456",
                                 "0.1234567890123", "0.12345678901234", "9007199254740993", "99999999999999.9", "1e-5",
                                 "1.5E+3", "4.9e-324", "1764583200.01", "2.2250738585072011e-308", "1e400"}) {
    MetricsReader reader;
    reader.add("{\"step\":1,\"x\":" + text + "}\n");
    const double read = reader.metrics().columns.at(0).values.at(0);
    const double expected = text == "1e400" ? std::numeric_limits<double>::quiet_NaN() : std::strtod(text.c_str(), nullptr);
    EXPECT_EQ(std::bit_cast<uint64_t>(read), std::bit_cast<uint64_t>(expected)) << text;
  }
}

TEST(MetricsReader, ReadsTheValuesAskedFor) {
  MetricsReader reader({"lr"});
  reader.add(text());
  ASSERT_EQ(reader.metrics().columns.size(), 1U);
  const std::vector<double>& lr = *reader.metrics().column("lr");
  EXPECT_TRUE(lr.size() == 3 && lr[0] == 0.1 && std::isnan(lr[1]) && lr[2] == 0.2);
  EXPECT_EQ(reader.metrics().column("loss"), nullptr);
  EXPECT_EQ(reader.metrics().steps.size(), 3U);
}

TEST(MetricsReader, LeavesDamagedLinesOut) {
  MetricsReader reader;
  reader.add("no JSON\n\n[1]\n{\"loss\":1}\n{\"step\":\"x\"}\n" + text() + "{\"step\":6,\"time\":1");
  EXPECT_EQ(shown(reader.metrics()), kShown + std::string("5"));
}

TEST(MetricsReader, BoundsNamesAndSteps) {
  MetricsReader reader;
  std::string lines;
  for (size_t name = 0; name < kMostNames + 10; ++name) lines += fmt::format("{{\"step\":{},\"x{}\":1}}\n", name + 1, name);
  reader.add(lines + "{\"step\":18446744073709551615,\"loss\":1}\n");
  EXPECT_EQ(reader.metrics().columns.size(), kMostNames);
  EXPECT_TRUE(reader.metrics().has_more_names);
  EXPECT_EQ(reader.metrics().steps.back(), static_cast<int64_t>(kMostNames + 10));
  EXPECT_EQ(reader.metrics().damaged_lines, 1);
}

TEST(MetricsReader, SurvivesDamageAnywhere) {
  for (size_t at = 0; at < text().size(); ++at) {
    for (const char byte : {'\0', '"', '{', '\n', '9', '\xff'}) {
      std::string damaged = text();
      damaged[at] = byte;
      MetricsReader reader;
      reader.add(damaged);
      for (const MetricColumn& column : reader.metrics().columns) {
        ASSERT_EQ(column.values.size(), reader.metrics().steps.size()) << at << " " << byte;
      }
      ASSERT_EQ(reader.metrics().times_s.size(), reader.metrics().steps.size()) << at << " " << byte;
    }
  }
}

TEST(Events, AndNamesReachNoTerminalUnescaped) {
  MetricsReader reader;
  reader.add("{\"step\":1,\"time\":1,\"\x1b[2J\":1}\n{\"step\":2,\"time\":1,\"a\\u001b\":2}\n");
  reader.add("{\"evaluation\":\"\\u001b\",\"step\":1,\"\\u001b\":1}\n");
  std::string all;
  for (const MetricColumn& column : reader.metrics().columns) all += column.name;
  for (const EvaluationRecord& evaluation : reader.metrics().evaluations) all += evaluation.set + evaluation.values.at(0).name;
  const std::string escape = "\\u001b";
  for (const EventRecord& event : parse_events("{\"event\":\"" + escape + "\",\"step\":1,\"time\":1,\"text\":\"" + escape +
                                               "\",\"details\":{\"" + escape + "\":\"" + escape + "\"}}\n")) {
    all += event.kind + event.text + event.details.at(0).first + event.details.at(0).second;
  }
  EXPECT_EQ(all.find('\x1b'), std::string::npos) << all;
  EXPECT_EQ(std::count(all.begin(), all.end(), 'x'), 8) << all;
}

TEST(Events, AreReadBack) {
  const EventRecord save{.kind = "save", .step = 3, .time_s = 1.5, .text = "saved", .details = {{"path", "x \"y\""}}};
  const EventRecord note{.kind = "note", .step = 4, .time_s = 2.0, .text = ""};
  const std::vector<EventRecord> read = parse_events(line(save) + "damaged\n{\"event\":1}\n" + line(note) + "{\"event\":");
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(record_text(read[0]), record_text(save));
  EXPECT_EQ(record_text(read[1]), record_text(note));
}

}  // namespace
}  // namespace weft::read_records_test
