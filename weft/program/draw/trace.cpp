#include "weft/program/draw/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "weft/program/ranks.h"

namespace weft {
namespace {

constexpr size_t kChunk = 1 << 20;
constexpr int kThreadsOfALane = 1000;  // more threads than a lane ever needs

int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

/// Writes one event per line, in parts of about a megabyte, so a large trace is never in memory as a whole.
class Writer {
 public:
  Writer(const Program& program, const TraceSink& out) : program_(program), ranks_(program), out_(out) {}

  void finish() {
    text_ += "\n]\n";
    out_(text_);
  }

  void rank(int rank, int alike) {
    const std::string like = alike > 1 ? fmt::format(" and {} like it", alike - 1) : "";
    const std::string place = ranks_.mesh().pp > 1 ? fmt::format(" (pipeline rank {})", ranks_.coordinate(rank).pp) : "";
    metadata("process_name", rank, 0, {{"name", fmt::format("rank {}{}{}", rank, like, place)}});
    metadata("process_sort_index", rank, 0, {{"sort_index", rank}});
  }

  // `row` numbers the overlapping threads of the lane.
  void thread(int rank, Lane lane, int row) {
    const std::string title = row == 0 ? std::string(name(lane)) : fmt::format("{} {}", name(lane), row + 1);
    metadata("thread_name", rank, thread_of(lane, row), {{"name", title}});
    metadata("thread_sort_index", rank, thread_of(lane, row), {{"sort_index", thread_of(lane, row)}});
  }

  /// A slice within a rank's instructions, or on the critical path: a process after those of the ranks.
  void slice(const TraceSlice& x) {
    const int64_t start = nanoseconds(x.start_s);
    add({{"name", x.name},
         {"cat", x.category},
         {"ph", "X"},
         {"ts", microseconds(start)},
         {"dur", microseconds(nanoseconds(x.end_s) - start)},
         {"pid", x.rank == kCriticalPath ? program_.world_size() : x.rank},
         {"tid", thread_of(Lane::compute, x.track)}});
  }

  void critical_path() {
    metadata("process_name", program_.world_size(), 0, {{"name", "critical path"}});
    metadata("process_sort_index", program_.world_size(), 0, {{"sort_index", -1}});
  }

  void event(const TimedInstruction& timed, int row) {
    const Instruction& x = program_.of(timed.rank)[timed.index];
    const int64_t start = nanoseconds(timed.start_s);
    add({{"name", title_of(x)},
         {"cat", name(x.op)},
         {"ph", "X"},
         {"ts", microseconds(start)},
         {"dur", microseconds(nanoseconds(timed.end_s) - start)},
         {"pid", timed.rank},
         {"tid", thread_of(x.lane, row)},
         {"args", arguments_of(x, timed.index)}});
  }

 private:
  using Json = nlohmann::ordered_json;

  static int thread_of(Lane lane, int row) { return static_cast<int>(lane) * kThreadsOfALane + row; }
  static double microseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }

  void add(const Json& event) {
    text_ += is_empty_ ? "[\n" : ",\n";
    text_ += event.dump(-1, ' ', false, Json::error_handler_t::replace);
    is_empty_ = false;
    if (text_.size() < kChunk) return;
    out_(text_);
    text_.clear();
  }

  void metadata(const char* what, int rank, int thread, const Json& arguments) {
    add({{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", thread}, {"args", arguments}});
  }

  bool is_on_blocks(const Instruction& x) const { return x.first < x.last && x.last <= program_.num_blocks(); }

  // "forward h.2", "update h.0 .. head": the same title in all micro-batches.
  std::string title_of(const Instruction& x) const {
    std::string title(name(x.op));
    if (is_on_blocks(x)) title += " " + program_.block_names[x.first];
    if (is_on_blocks(x) && x.last > x.first + 1) title += " .. " + program_.block_names[x.last - 1];
    return title;
  }

  Json arguments_of(const Instruction& x, int index) const {
    Json result = {{"instruction", index}};
    if (is_on_blocks(x)) result["block"] = x.first;
    if (is_on_blocks(x) && x.last > x.first + 1) result["last_block"] = x.last - 1;
    if (takes_micro_batch(x)) result["micro_batch"] = x.micro;
    if (x.flops > 0.0) result["flops"] = x.flops;
    if (x.wire_bytes > 0) result["bytes_sent"] = x.wire_bytes;
    if (is_collective(x)) result["axis"] = name(x.axes);
    if (is_transfer(x.op)) result["peer"] = x.peer;
    return result;
  }

  const Program& program_;
  Ranks ranks_;
  const TraceSink& out_;
  std::string text_;
  bool is_empty_ = true;
};

void write_rank(const Program& program, const TimedInstruction* begin, const TimedInstruction* end, Writer& writer) {
  writer.rank(begin->rank, begin->alike);
  for (Lane lane : {Lane::compute, Lane::comm, Lane::copy}) {
    std::vector<const TimedInstruction*> on_lane;
    std::vector<Interval> intervals;
    for (const TimedInstruction* t = begin; t != end; ++t) {
      if (program.of(t->rank)[t->index].lane != lane || nanoseconds(t->end_s) <= nanoseconds(t->start_s)) continue;
      on_lane.push_back(t);
      intervals.push_back({t->start_s, t->end_s});
    }
    const std::vector<int> rows = stack(intervals);
    int named = 0;
    for (size_t i = 0; i < on_lane.size(); ++i) {
      while (named <= rows[i]) writer.thread(begin->rank, lane, named++);
      writer.event(*on_lane[i], rows[i]);
    }
  }
}

}  // namespace

void write_trace(const Program& program, const std::vector<TimedInstruction>& timed, const TraceSink& out,
                 const std::vector<TraceSlice>& slices) {
  if (timed.empty()) return out("[]\n");
  check_timed(program, timed);
  Writer writer(program, out);
  for (size_t begin = 0; begin < timed.size();) {
    size_t end = begin;
    while (end < timed.size() && timed[end].rank == timed[begin].rank) ++end;
    write_rank(program, timed.data() + begin, timed.data() + end, writer);
    begin = end;
  }
  const auto is_on_path = [](const TraceSlice& x) { return x.rank == kCriticalPath; };
  if (std::any_of(slices.begin(), slices.end(), is_on_path)) writer.critical_path();
  for (const TraceSlice& slice : slices) writer.slice(slice);
  writer.finish();
}

std::string trace_json(const Program& program, const std::vector<TimedInstruction>& timed) {
  std::string text;
  write_trace(program, timed, [&text](std::string_view part) { text += part; });
  return text;
}

}  // namespace weft
