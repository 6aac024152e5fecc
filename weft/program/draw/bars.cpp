#include "weft/program/draw/bars.h"

#include <algorithm>
#include <set>
#include <utility>

#include "weft/program/ranks.h"

namespace weft {
namespace {

constexpr double kUnseenGap = 2e-4;  // share of the whole time that is invisible

BarKind kind_of(const Instruction& x, bool ran_before) {
  switch (x.op) {
    case Op::forward:
      return ran_before ? BarKind::recompute : BarKind::forward;
    case Op::backward:
      return BarKind::backward;
    case Op::backward_input:
      return BarKind::backward_input;
    case Op::backward_weight:
      return BarKind::backward_weight;
    case Op::gather:
    case Op::gather_gradients:
      return BarKind::gather;
    case Op::reduce_scatter:
    case Op::reduce:
    case Op::reduce_loss:
      return BarKind::reduce;
    case Op::send:
    case Op::receive:
      if (x.what == Payload::weights) return BarKind::gather;
      return x.what == Payload::sum ? BarKind::reduce : BarKind::transfer;
    case Op::offload:
    case Op::reload:
      return BarKind::copy;
    default:
      return BarKind::other;
  }
}

// Stage of each block, numbered within the rank. A stage is a run of blocks that always run one right after another, in forward
// and, reversed, in backward: two stages of a rank may be adjacent in the model.
std::vector<int> chunk_of_block(const InstructionList& list, int num_blocks, int& num_chunks) {
  std::vector<bool> begins(num_blocks, false);
  std::set<std::pair<int, int>> ran;  // block and micro-batch
  const Instruction* forward = nullptr;
  const Instruction* backward = nullptr;
  const auto follows = [](const Instruction& x, const Instruction* previous, int step) {
    return previous != nullptr && previous->micro == x.micro && previous->first == x.first - step;
  };
  for (const Instruction& x : list) {
    if (x.op == Op::forward && ran.insert({x.first, x.micro}).second) {
      if (!follows(x, forward, 1)) begins[x.first] = true;
      forward = &x;
      backward = nullptr;
    } else if (is_backward(x.op)) {
      const bool is_later_part = x.op == Op::backward_weight;
      if (!is_later_part && !follows(x, backward, -1) && ran.count({x.first + 1, x.micro}) != 0) begins[x.first + 1] = true;
      forward = nullptr;
      backward = is_later_part ? nullptr : &x;
    }
  }
  std::vector<int> chunks(num_blocks, 0);
  int chunk = -1;
  for (int block = 0; block < num_blocks; ++block) {
    if (begins[block]) ++chunk;
    chunks[block] = std::max(chunk, 0);
  }
  num_chunks = std::max(chunk + 1, 1);
  return chunks;
}

bool is_on_blocks(BarKind kind) { return kind <= BarKind::backward_weight; }

bool joins(const Bar& bar, const Bar& next, double gap_s) {
  return is_on_blocks(bar.kind) && bar.kind == next.kind && bar.micro == next.micro && bar.chunk == next.chunk &&
         next.start_s - bar.end_s <= gap_s;
}

void add(std::vector<Bar>& bars, const Bar& bar, double gap_s) {
  if (bars.empty() || !joins(bars.back(), bar, gap_s)) return bars.push_back(bar);
  Bar& back = bars.back();
  back.first = std::min(back.first, bar.first);
  back.last = std::max(back.last, bar.last);
  back.end_s = bar.end_s;
  back.edges_s.push_back(bar.start_s);
}

struct RowPlace {
  int rank, alike, pp;
};

class RowMaker {
 public:
  RowMaker(const InstructionList& list, int num_blocks, const RowPlace& place, double gap_s)
      : list_(list),
        gap_s_(gap_s),
        row_{.rank = place.rank, .alike = place.alike, .pp = place.pp, .num_chunks = 1, .compute = {}, .side = {}} {
    chunks_ = chunk_of_block(list, num_blocks, row_.num_chunks);
  }

  void add_one(const TimedInstruction& timed) {
    const Instruction& x = list_[timed.index];
    const bool ran_before = x.op == Op::forward && !ran_.insert({x.first, x.micro}).second;
    if (timed.end_s <= timed.start_s) return;
    Bar bar = {.kind = kind_of(x, ran_before), .micro = takes_micro_batch(x) ? x.micro : -1, .first = x.first, .last = x.last};
    bar.start_s = timed.start_s;
    bar.end_s = timed.end_s;
    if (is_on_blocks(bar.kind)) bar.chunk = chunks_[x.first];
    add(x.lane == Lane::compute ? row_.compute : row_.side, bar, gap_s_);
  }

  BarRow take() { return std::move(row_); }

 private:
  const InstructionList& list_;
  double gap_s_;
  BarRow row_;
  std::vector<int> chunks_;
  std::set<std::pair<int, int>> ran_;  // block and micro-batch
};

}  // namespace

std::vector<BarRow> bar_rows(const Program& program, const std::vector<TimedInstruction>& timed) {
  check_timed(program, timed);
  const Ranks ranks(program);
  const double gap_s = kUnseenGap * end_of(timed);
  std::vector<BarRow> rows;
  for (size_t begin = 0; begin < timed.size();) {
    const int rank = timed[begin].rank;
    const RowPlace place = {.rank = rank, .alike = timed[begin].alike, .pp = ranks.coordinate(rank).pp};
    RowMaker maker(program.of(rank), program.num_blocks(), place, gap_s);
    size_t at = begin;
    for (; at < timed.size() && timed[at].rank == rank; ++at) maker.add_one(timed[at]);
    begin = at;
    rows.push_back(maker.take());
  }
  return rows;
}

std::array<double, kBarKinds.size()> seconds_by_kind(const std::vector<BarRow>& rows) {
  std::array<double, kBarKinds.size()> seconds{};
  double ranks = 0.0;
  for (const BarRow& row : rows) {
    ranks += row.alike;
    for (const auto* bars : {&row.compute, &row.side}) {
      for (const Bar& bar : *bars) seconds[static_cast<size_t>(bar.kind)] += row.alike * (bar.end_s - bar.start_s);
    }
  }
  for (double& one : seconds) one /= std::max(ranks, 1.0);
  return seconds;
}

}  // namespace weft
