#include "weft/program/simulate/late_sums.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

bool sums_gradients(const Instruction& x) { return x.op == Op::reduce_scatter || (x.op == Op::reduce && tied_block(x) < 0); }

/// Original indices in the new order.
std::vector<int> with_late_sums(const InstructionList& list) {
  const auto is_pass = [](const Instruction& x) { return is_backward(x.op) || is_transfer(x.op); };
  const auto end = std::find_if(list.rbegin(), list.rend(), is_pass).base();  // after the last
  std::vector<int> order(list.size());
  for (int i = 0; i < static_cast<int>(list.size()); ++i) order[i] = i;
  std::stable_partition(order.begin(), order.begin() + (end - list.begin()),
                        [&list](int i) { return !sums_gradients(list[i]); });
  return order;
}

InstructionList in_order(const InstructionList& list, const std::vector<int>& order) {
  std::vector<int> place(list.size());
  for (int i = 0; i < static_cast<int>(order.size()); ++i) place[order[i]] = i;
  InstructionList result;
  result.reserve(list.size());
  for (const int i : order) {
    Instruction x = list[i];
    for (int& wait : x.waits) wait = place[wait];
    std::sort(x.waits.begin(), x.waits.end());
    result.push_back(std::move(x));
  }
  return result;
}

}  // namespace

LateSums::LateSums(const Program& program) : program_(program) {
  if (program.shard_level >= ShardLevel::gradients) return;
  for (InstructionList& list : program_.lists) {
    order_.push_back(with_late_sums(list));
    list = in_order(list, order_.back());
  }
}

void LateSums::restore(Simulation& simulation) const {
  if (order_.empty()) return;
  for (SimulatedRank& rank : simulation.ranks) {
    const std::vector<int>& order = order_[program_.list_of_rank[rank.rank]];
    std::vector<Span> spans(rank.spans.size());
    for (size_t i = 0; i < spans.size(); ++i) spans[order[i]] = rank.spans[i];
    rank.spans = std::move(spans);
  }
}

}  // namespace weft
