#include "weft/program/buffers.h"

#include <algorithm>

#include "weft/program/edit.h"

namespace weft {
namespace {

struct Interval {
  int begin = 0, end = 0;  // list positions, both included
};

using Lifetimes = std::vector<std::vector<Interval>>;  // of each block, ascending

bool overlap(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  for (const Interval& x : a) {
    for (const Interval& y : b) {
      if (x.begin <= y.end && y.begin <= x.end) return true;
    }
  }
  return false;
}

std::vector<int> colour(const Lifetimes& lifetimes, const std::vector<int>& held) {
  std::vector<int> colours(lifetimes.size(), -1);
  for (const int block : held) {
    std::vector<bool> taken(held.size() + 1, false);
    for (const int other : held) {
      if (other < block && overlap(lifetimes[block], lifetimes[other])) taken[colours[other]] = true;
    }
    colours[block] = 0;
    while (taken[colours[block]]) ++colours[block];
  }
  return colours;
}

bool begins_micro_batch(const Instruction& x) {
  return x.op == Op::load || (x.op == Op::receive && x.what == Matter::activation);
}

// The position of the `count`-th backward after `at`, at most that of the next micro-batch, whose forwards leave time enough.
int later_backward(const InstructionList& list, int at, int count) {
  int i = at;
  while (count > 0 && ++i < static_cast<int>(list.size()) && !begins_micro_batch(list[i]))
    count -= adds_gradients(list[i].op) ? 1 : 0;
  return i;
}

}  // namespace

std::vector<int> weight_buffers(const InstructionList& list, const Program& program) {
  if (program.shard_level != ShardLevel::parameters) return {};
  Lifetimes lifetimes(program.num_blocks());
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    if (list[i].op == Op::gather) lifetimes[list[i].first].push_back({i, i});
    if (list[i].op == Op::release) lifetimes[list[i].first].back().end = i;
  }
  return colour(lifetimes, held_blocks(list, program.block_uses));
}

std::vector<int> gradient_buffers(const InstructionList& list, const Program& program, int in_flight) {
  if (program.shard_level < ShardLevel::gradients) return {};
  Lifetimes lifetimes(program.num_blocks());
  const std::vector<int> held = held_blocks(list, program.block_uses);
  for (const int block : held) {
    if (program.block_numel[block] == 0) continue;  // nobody reduces it
    bool open = false;
    for (int i = 0; i < static_cast<int>(list.size()); ++i) {
      const Instruction& x = list[i];
      if (!open && writes_gradients(x, block, block + 1, program.block_uses)) {
        lifetimes[block].push_back({i, static_cast<int>(list.size())});
        open = true;
      }
      if (!open || x.op != Op::reduce_scatter || x.first != block) continue;
      lifetimes[block].back().end = later_backward(list, i, in_flight);
      open = false;
    }
  }
  return colour(lifetimes, held);
}

int64_t buffer_bytes(const std::vector<int>& buffer_of_block, const std::vector<int64_t>& block_bytes) {
  std::vector<int64_t> sizes;
  for (size_t block = 0; block < block_bytes.size(); ++block) {
    if (!buffer_of_block.empty() && buffer_of_block[block] < 0) continue;
    const size_t buffer = buffer_of_block.empty() ? block : static_cast<size_t>(buffer_of_block[block]);
    if (sizes.size() <= buffer) sizes.resize(buffer + 1, 0);
    sizes[buffer] = std::max(sizes[buffer], block_bytes[block]);
  }
  int64_t total = 0;
  for (int64_t size : sizes) total += size;
  return total;
}

}  // namespace weft
