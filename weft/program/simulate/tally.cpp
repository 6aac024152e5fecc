#include "weft/program/simulate/tally.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "weft/program/limits.h"

namespace weft {
namespace {

// Bytes in flight, for an instruction.
struct Moving {
  double begin_s, end_s;
  int index;
};
using Intervals = std::vector<Moving>;

// Seconds within [begin, end] covered by an interval; sorts the intervals. Each adds to the instruction in flight that began
// first.
double covered(Intervals& intervals, double begin, double end, std::vector<Span>& spans) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Moving& a, const Moving& b) { return std::pair(a.begin_s, a.end_s) < std::pair(b.begin_s, b.end_s); });
  double sum = 0.0;
  for (const Moving& moving : intervals) {
    const double first = std::max(moving.begin_s, begin);
    const double last = std::min(moving.end_s, end);
    if (last <= first) continue;
    sum += last - first;
    spans[static_cast<size_t>(moving.index)].exposed_s += last - first;
    begin = last;
  }
  return sum;
}

class Exposure {
 public:
  Exposure(const InstructionList& list, SimulatedRank& rank) : list_(list), rank_(rank) {}

  // Adds instruction `i`, in list order; `own_s` is its own work.
  void add(int i, double own_s) {
    const Instruction& x = list_[i];
    for (int wait : x.waits) {
      if (list_[wait].lane != Lane::compute) note(wait);
    }
    if (rank_.spans[i].holds_lane) note(i);
    if (x.lane != Lane::compute) return;
    const Span& span = rank_.spans[i];
    close(span.start_s - span.held_s);
    free_s_ = span.start_s + own_s + span.slowed_s;
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
    if (span.end_s > free_s_) moving_.push_back({span.begin_s, span.end_s, i});
  }
  void close(double until) {
    total_s_ += covered(moving_, free_s_, until, rank_.spans);
    moving_.clear();
  }

  const InstructionList& list_;
  SimulatedRank& rank_;
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
    ComputingTimes own = work.times(x);
    const double alone_s = own.total();
    own.overhead += rank.spans[i].beside_s;
    const double own_s = own.total();
    rank.computing += own;
    span.add(i, x.op, own_s);
    rank.busy_s += own_s;
    rank.launch_s += rank.spans[i].held_s + rank.spans[i].slowed_s;
    exposure.add(i, own_s);
    rank.flops += x.flops;
    if (x.op != Op::forward) continue;
    auto once = ran[static_cast<size_t>(x.first) * program.micro_batches + x.micro];
    if (once) {
      rank.recompute_flops += x.flops;
      rank.recompute_s += alone_s;
    }
    once = true;
  }
  rank.exposed_s = exposure.total();
}

}  // namespace weft
