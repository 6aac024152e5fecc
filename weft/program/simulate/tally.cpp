#include "weft/program/simulate/tally.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "weft/program/limits.h"

namespace weft {
namespace {

using Intervals = std::vector<std::pair<double, double>>;

// Seconds within [begin, end] covered by an interval; sorts the intervals.
double covered(Intervals& intervals, double begin, double end) {
  std::sort(intervals.begin(), intervals.end());
  double sum = 0.0;
  for (const auto& [from, to] : intervals) {
    const double first = std::max(from, begin);
    const double last = std::min(to, end);
    if (last <= first) continue;
    sum += last - first;
    begin = last;
  }
  return sum;
}

class Exposure {
 public:
  Exposure(const InstructionList& list, const SimulatedRank& rank) : list_(list), rank_(rank) {}

  // Adds instruction `i`, in list order; `own_s` is its own work.
  void add(int i, double own_s) {
    const Instruction& x = list_[i];
    for (int wait : x.waits) {
      if (list_[wait].lane != Lane::compute) note(wait);
    }
    if (rank_.spans[i].holds_lane) note(i);
    if (x.lane != Lane::compute) return;
    close(rank_.spans[i].start_s);
    free_s_ = rank_.spans[i].start_s + own_s;
    note(i);  // a collective, or a wait inside a block
  }

  double total() {
    for (int i = 0; i < static_cast<int>(list_.size()); ++i) {
      if (list_[i].lane != Lane::compute) note(i);
    }
    close(rank_.end_s);
    return total_s_;
  }

 private:
  void note(int i) {
    const Span& span = rank_.spans[i];
    if (span.end_s > free_s_) moving_.emplace_back(span.begin_s, span.end_s);
  }
  void close(double until) {
    total_s_ += covered(moving_, free_s_, until);
    moving_.clear();
  }

  const InstructionList& list_;
  const SimulatedRank& rank_;
  double free_s_ = 0.0;  // end of the compute lane's last work
  Intervals moving_;     // awaited bytes in flight after that
  double total_s_ = 0.0;
};

// Begin and end of a rank's forwards and backwards, and its work in between.
class WorkSpan {
 public:
  explicit WorkSpan(SimulatedRank& rank) : rank_(rank) {}

  void add(int i, Op op, double own_s) {
    const bool is_pass = op == Op::forward || is_backward(op);
    if (!has_begun_ && !is_pass) return;
    if (!has_begun_) rank_.first_work_s = rank_.spans[i].start_s;
    has_begun_ = true;
    since_s_ += own_s;
    if (!is_pass) return;
    rank_.last_work_s = std::max(rank_.last_work_s, rank_.spans[i].end_s);
    rank_.span_work_s += since_s_;
    since_s_ = 0.0;
  }

 private:
  SimulatedRank& rank_;
  bool has_begun_ = false;
  double since_s_ = 0.0;  // work since the last forward or backward
};

struct Change {
  double time_s;
  int order;  // list order, start before end: at equal times an earlier instruction's end precedes a later start
  int64_t bytes;
};

}  // namespace

int64_t peak_activation_bytes(const InstructionList& list, const std::vector<Span>& spans) {
  std::vector<Change> starts, ends, changes;
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    const Instruction& x = list[i];
    const int64_t most = peak_bytes(x);
    if (x.op == Op::combine || (most == 0 && x.frees == 0)) continue;
    starts.push_back({spans[i].start_s, 2 * i, most});
    ends.push_back({spans[i].end_s, 2 * i + 1, x.allocates - x.frees - most});
  }
  const auto sooner = [](const Change& a, const Change& b) {
    return std::pair(a.time_s, a.order) < std::pair(b.time_s, b.order);
  };
  for (std::vector<Change>* each : {&starts, &ends}) {  // mostly sorted
    if (!std::is_sorted(each->begin(), each->end(), sooner)) std::sort(each->begin(), each->end(), sooner);
  }
  changes.reserve(starts.size() + ends.size());
  std::merge(starts.begin(), starts.end(), ends.begin(), ends.end(), std::back_inserter(changes), sooner);
  // check_program() keeps live bytes below kMostBytes in list order; lanes of a hand-written list that run ahead may hold more.
  constexpr int64_t kMost = 2 * kMostBytes;
  int64_t live = 0;
  int64_t peak = 0;
  for (const Change& change : changes) {
    live = std::clamp(live + change.bytes, -kMost, kMost);
    peak = std::max(peak, live);
  }
  return peak;
}

void tally(const Program& program, const WorkTime& work, SimulatedRank& rank) {
  const InstructionList& list = program.of(rank.rank);
  for (const Span& span : rank.spans) rank.end_s = std::max(rank.end_s, span.end_s);
  Exposure exposure(list, rank);
  WorkSpan span(rank);
  std::vector<bool> ran(static_cast<size_t>(program.num_blocks()) * program.micro_batches, false);
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    const Instruction& x = list[i];
    const double own_s = work.seconds(x);
    span.add(i, x.op, own_s);
    rank.busy_s += own_s;
    exposure.add(i, own_s);
    rank.flops += x.flops;
    if (x.op != Op::forward) continue;
    auto once = ran[static_cast<size_t>(x.first) * program.micro_batches + x.micro];
    if (once) rank.recompute_flops += x.flops;
    once = true;
  }
  rank.exposed_s = exposure.total();
}

}  // namespace weft
