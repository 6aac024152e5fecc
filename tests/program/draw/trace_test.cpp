#include "weft/program/draw/trace.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/program/pipelines.h"
#include "weft/program/simulate/simulate.h"
#include "weft/program/simulate/simulation.h"

namespace weft {
namespace {

using nlohmann::json;

json traced(const Program& program, const Hardware& hardware) {
  return json::parse(trace_json(program, timed_instructions(program, simulate(program, hardware))));
}

json events_of(const json& trace, const std::string& phase) {
  json result = json::array();
  for (const json& event : trace) {
    if (event.at("ph") == phase) result.push_back(event);
  }
  return result;
}

// True if events of one thread do not overlap, to the nanosecond.
void expect_nested(const json& trace) {
  std::map<std::pair<int, int>, std::vector<std::pair<int64_t, int64_t>>> threads;
  const auto nanoseconds = [](const json& us) { return std::llround(us.get<double>() * 1e3); };
  for (const json& event : events_of(trace, "X")) {
    EXPECT_GT(nanoseconds(event.at("dur")), 0);
    threads[{event.at("pid"), event.at("tid")}].emplace_back(nanoseconds(event.at("ts")),
                                                             nanoseconds(event.at("ts")) + nanoseconds(event.at("dur")));
  }
  for (auto& [thread, spans] : threads) {
    std::sort(spans.begin(), spans.end());
    for (size_t i = 1; i < spans.size(); ++i) EXPECT_LE(spans[i - 1].second, spans[i].first) << "thread " << thread.second;
  }
}

TEST(Trace, an_event_for_all_that_takes_time) {
  const Program program = pipeline_program(one_f_one_b_schedule({.ranks = 2, .micro_batches = 4}),
                                           {.blocks = 2, .forward_flops = 1e3, .message_bytes = 7}, {.dp = 2});
  Hardware hardware = slow_device({.latency_s = 1e-3});
  hardware.flops = 1e6;
  const json trace = traced(program, hardware);
  expect_nested(trace);
  std::map<std::string, int> counts;
  for (const json& event : events_of(trace, "X")) ++counts[event.at("cat")];
  EXPECT_EQ(counts["forward"], 2 * 2 * 4);
  EXPECT_EQ(counts["backward"], 2 * 2 * 4);
  EXPECT_EQ(counts["send"], 2 * 4);
  EXPECT_GT(counts["receive"], 0) << "receives that wait for their message";
  EXPECT_EQ(counts.count("load"), 0u);
}

TEST(Trace, events_are_labelled) {
  const Program program =
      pipeline_program(gpipe_schedule({.ranks = 2, .micro_batches = 2}), {.forward_flops = 2, .message_bytes = 7});
  const json trace = traced(program, slow_device({.latency_s = 0.25}));
  const json events = events_of(trace, "X");
  const auto forward = std::find_if(events.begin(), events.end(), [](const json& e) {
    return e["cat"] == "forward" && e["pid"] == 1 && e["args"]["micro_batch"] == 1;
  });
  ASSERT_NE(forward, events.end());
  EXPECT_EQ(forward->at("name"), "forward block1");
  EXPECT_EQ(forward->at("ts"), 4.25e6);
  EXPECT_EQ(forward->at("dur"), 2e6);
  EXPECT_EQ(forward->at("args")["block"], 1);
  EXPECT_EQ(forward->at("args")["flops"], 2);
  EXPECT_EQ(forward->at("args")["instruction"], find(program.of(1), Op::forward, 1));
  const auto send = std::find_if(events.begin(), events.end(), [](const json& e) { return e["cat"] == "send"; });
  EXPECT_EQ(send->at("args")["bytes_sent"], 7);
  EXPECT_EQ(send->at("args")["peer"], 1);
  std::set<std::string> names;
  for (const json& event : events_of(trace, "M")) {
    if (event.at("args").contains("name")) names.insert(event.at("args").at("name"));
  }
  EXPECT_EQ(names.count("rank 1 (pipeline rank 1)"), 1u);
  EXPECT_EQ(names.count("compute"), 1u);
  EXPECT_EQ(names.count("comm"), 1u);
}

TEST(Trace, a_process_names_the_number_of_its_ranks) {
  const Program program = pipeline_program(gpipe_schedule({.ranks = 2, .micro_batches = 2}), {}, {.dp = 4});
  const std::string trace = trace_json(program, timed_instructions(program, simulate(program, slow_device())));
  EXPECT_NE(trace.find("\"rank 4 and 3 like it (pipeline rank 1)\""), std::string::npos) << trace;
}

TEST(Trace, overlapping_instructions_have_threads_of_their_own) {
  const Program program = build_program(equal_blocks(2, {}), {.dp = 2, .micro_batches = 1});
  Program wide = program;
  const int reduce = find(program.of(0), Op::reduce);
  const json trace = json::parse(trace_json(
      wide, {{.rank = 0, .index = reduce, .start_s = 0, .end_s = 3}, {.rank = 0, .index = reduce, .start_s = 1, .end_s = 2}}));
  expect_nested(trace);
  std::set<int> threads;
  for (const json& event : events_of(trace, "X")) threads.insert(event.at("tid").get<int>());
  EXPECT_EQ(threads.size(), 2u);
}

TEST(Trace, any_name_is_text) {
  Program program = build_program(equal_blocks(1, {}), {});
  program.block_names = {"a\"b\\c\n\x01"};
  const json trace = traced(program, slow_device());
  EXPECT_EQ(events_of(trace, "X")[0].at("name"), "forward a\"b\\c\n\x01");
}

TEST(Trace, a_name_that_is_no_utf_8_does_not_stop_it) {
  Program program = build_program(equal_blocks(1, {}), {});
  program.block_names = {"a\xff"};
  EXPECT_EQ(events_of(traced(program, slow_device()), "X")[0].at("name"), "forward a\xef\xbf\xbd");
}

TEST(Trace, a_long_one_comes_in_parts) {
  const Program program = build_program(equal_blocks(1, {}), {});
  std::vector<TimedInstruction> timed;
  for (int i = 0; i < 50'000; ++i)
    timed.push_back({.rank = 0, .index = find(program.of(0), Op::forward), .start_s = 1e-6 * i, .end_s = 1e-6 * (i + 1)});
  std::string text;
  size_t parts = 0, longest = 0;
  write_trace(program, timed, [&](std::string_view part) {
    text += part;
    longest = std::max(longest, part.size());
    ++parts;
  });
  EXPECT_GT(parts, 3u);
  EXPECT_LT(longest, size_t{3} << 19) << "a part stays near a megabyte";
  EXPECT_TRUE(text == trace_json(program, timed));
  const json events = events_of(json::parse(text), "X");
  ASSERT_EQ(events.size(), timed.size());
  EXPECT_EQ(events[12'345].at("ts"), 12345.0) << "microseconds";
}

TEST(Trace, nothing_is_an_array_too) {
  EXPECT_EQ(json::parse(trace_json(build_program(equal_blocks(1, {}), {}), {})).size(), 0u);
}

}  // namespace
}  // namespace weft
