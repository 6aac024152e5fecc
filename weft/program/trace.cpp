#include "weft/program/trace.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "weft/program/ranks.h"

namespace weft {
namespace {

constexpr int kThreadsOfALane = 1000;  // more than a lane ever has at a time

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

class Writer {
 public:
  explicit Writer(const Program& program) : program_(program), ranks_(program) {}

  std::string take() { return text_ + "\n]\n"; }

  void rank(int rank, int alike) {
    const std::string like = alike > 1 ? fmt::format(" and {} like it", alike - 1) : "";
    const std::string place = ranks_.mesh().pp > 1 ? fmt::format(" (pipeline rank {})", ranks_.place(rank).pp) : "";
    const std::string title = fmt::format("rank {}{}{}", rank, like, place);
    metadata("process_name", rank, 0, fmt::format("\"name\":{}", quoted(title)));
    metadata("process_sort_index", rank, 0, fmt::format("\"sort_index\":{}", rank));
  }

  // `row` counts those of the lane that run beside one another.
  void thread(int rank, Lane lane, int row) {
    const std::string title = row == 0 ? std::string(name(lane)) : fmt::format("{} {}", name(lane), row + 1);
    metadata("thread_name", rank, thread_of(lane, row), fmt::format("\"name\":{}", quoted(title)));
    metadata("thread_sort_index", rank, thread_of(lane, row), fmt::format("\"sort_index\":{}", thread_of(lane, row)));
  }

  void event(const TimedInstruction& timed, int row) {
    const Instruction& x = program_.of(timed.rank)[timed.index];
    const int64_t start = nanoseconds(timed.start_s);
    const double duration = static_cast<double>(nanoseconds(timed.end_s) - start);
    next();
    fmt::format_to(
        std::back_inserter(text_),
        R"({{"name":{},"cat":"{}","ph":"X","ts":{:.3f},"dur":{:.3f},"pid":{},"tid":{},"args":{{"instruction":{}{}}}}})",
        quoted(title_of(x)), name(x.op), static_cast<double>(start) / 1e3, duration / 1e3, timed.rank, thread_of(x.lane, row),
        timed.index, arguments_of(x));
  }

 private:
  static int thread_of(Lane lane, int row) { return static_cast<int>(lane) * kThreadsOfALane + row; }

  void next() { text_ += text_.empty() ? "[\n" : ",\n"; }

  void metadata(const char* what, int rank, int thread, const std::string& arguments) {
    next();
    fmt::format_to(std::back_inserter(text_), R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{{}}}}})", what, rank, thread,
                   arguments);
  }

  bool is_on_blocks(const Instruction& x) const { return x.first < x.last && x.last <= program_.num_blocks(); }

  // "forward h.2", "update h.0 .. head": what is alike in all micro-batches has one name.
  std::string title_of(const Instruction& x) const {
    std::string title(name(x.op));
    if (is_on_blocks(x)) title += " " + program_.block_names[x.first];
    if (is_on_blocks(x) && x.last > x.first + 1) title += " .. " + program_.block_names[x.last - 1];
    return title;
  }

  std::string arguments_of(const Instruction& x) const {
    std::string result;
    const auto add = [&result](const char* key, const std::string& value) { result += fmt::format(",\"{}\":{}", key, value); };
    if (is_on_blocks(x)) add("block", fmt::to_string(x.first));
    if (is_on_blocks(x) && x.last > x.first + 1) add("last_block", fmt::to_string(x.last - 1));
    if (takes_micro_batch(x)) add("micro_batch", fmt::to_string(x.micro));
    if (x.flops > 0.0) add("flops", fmt::format("{}", x.flops));
    if (x.wire_bytes > 0) add("bytes_sent", fmt::to_string(x.wire_bytes));
    if (is_collective(x)) add("axis", quoted(name(x.axis)));
    if (is_transfer(x.op)) add("peer", fmt::to_string(x.peer));
    return result;
  }

  const Program& program_;
  Ranks ranks_;
  std::string text_;
};

void write_rank(const Program& program, const TimedInstruction* begin, const TimedInstruction* end, Writer& writer) {
  writer.rank(begin->rank, begin->alike);
  for (Lane lane : {Lane::compute, Lane::comm, Lane::copy}) {
    std::vector<TimedInstruction> on_lane;
    std::vector<Interval> intervals;
    for (const TimedInstruction* t = begin; t != end; ++t) {
      if (program.of(t->rank)[t->index].lane != lane || nanoseconds(t->end_s) <= nanoseconds(t->start_s)) continue;
      on_lane.push_back(*t);
      intervals.push_back({t->start_s, t->end_s});
    }
    const std::vector<int> rows = stack(intervals);
    int named = 0;
    for (size_t i = 0; i < on_lane.size(); ++i) {
      while (named <= rows[i]) writer.thread(begin->rank, lane, named++);
      writer.event(on_lane[i], rows[i]);
    }
  }
}

}  // namespace

std::string trace_json(const Program& program, const std::vector<TimedInstruction>& timed) {
  if (timed.empty()) return "[]\n";
  check_timed(program, timed);
  Writer writer(program);
  for (size_t begin = 0; begin < timed.size();) {
    size_t end = begin;
    while (end < timed.size() && timed[end].rank == timed[begin].rank) ++end;
    write_rank(program, timed.data() + begin, timed.data() + end, writer);
    begin = end;
  }
  return writer.take();
}

}  // namespace weft
