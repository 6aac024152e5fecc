#include "weft/program/edit.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

namespace weft {
namespace {

void add(std::vector<int>& positions, int at) {
  if (positions.empty() || positions.back() != at) positions.push_back(at);
}

void add_with_used(Positions& positions, int block, const std::vector<std::vector<int>>& uses, int at) {
  add(positions[block], at);
  for (const int used : uses[block]) add(positions[used], at);
}

bool reads_weights(Op op) { return op == Op::forward || op == Op::backward || op == Op::backward_input; }

}  // namespace

InstructionList insert(InstructionList list, std::vector<Insertion> insertions) {
  if (insertions.empty()) return list;
  std::vector<int> begin(list.size() + 2, 0);  // start of the insertions at each place
  for (const Insertion& each : insertions) {
    assert(each.after >= -1 && each.after < static_cast<int>(list.size()));
    ++begin[each.after + 2];
  }
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<int> order(insertions.size());
  for (int i = 0; i < static_cast<int>(insertions.size()); ++i) order[begin[insertions[i].after + 1]++] = i;
  InstructionList result;
  result.reserve(list.size() + insertions.size());
  auto next = order.begin();
  for (int at = -1; at < static_cast<int>(list.size()); ++at) {
    if (at >= 0) result.push_back(std::move(list[at]));
    for (; next != order.end() && insertions[*next].after == at; ++next) {
      result.push_back(std::move(insertions[*next].instruction));
    }
  }
  return result;
}

bool reads_weights(const Instruction& x, int block, const std::vector<std::vector<int>>& uses) {
  return reads_weights(x.op) && (x.first == block || std::count(uses[x.first].begin(), uses[x.first].end(), block) > 0);
}

Positions weight_reads(const InstructionList& list, const std::vector<std::vector<int>>& uses) {
  Positions positions(uses.size());
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    if (reads_weights(list[i].op)) add_with_used(positions, list[i].first, uses, i);
  }
  return positions;
}

Positions gradient_writes(const InstructionList& list, const std::vector<std::vector<int>>& uses) {
  Positions positions(uses.size());
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    const Instruction& x = list[i];
    if (adds_gradients(x.op)) add_with_used(positions, x.first, uses, i);
    for (int block = x.first; x.op == Op::combine && block < x.last; ++block) add(positions[block], i);
  }
  return positions;
}

int last_position(const Positions& positions, int first, int last) {
  int latest = -1;
  for (int block = first; block < last; ++block) {
    if (!positions[block].empty()) latest = std::max(latest, positions[block].back());
  }
  return latest;
}

std::vector<int> held_blocks(const InstructionList& list, const std::vector<std::vector<int>>& uses) {
  std::vector<bool> held(uses.size(), false);
  for (const Instruction& x : list) {
    if (x.op != Op::forward) continue;
    held[x.first] = true;
    for (int used : uses[x.first]) held[used] = true;
  }
  std::vector<int> blocks;
  for (int block = 0; block < static_cast<int>(held.size()); ++block) {
    if (held[block]) blocks.push_back(block);
  }
  return blocks;
}

}  // namespace weft
