#include "weft/program/buffers.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "weft/base/buffer_sizes.h"
#include "weft/base/math.h"
#include "weft/program/check_program.h"
#include "weft/program/edit.h"

namespace weft {
namespace {

struct Lifetime {
  int begin = 0, end = 0;  // list positions, inclusive
};

using Lifetimes = std::vector<std::vector<Lifetime>>;  // by block, ascending

// Blocks whose lifetimes overlap: a bit per pair.
class Overlaps {
 public:
  Overlaps(const Lifetimes& lifetimes, const std::vector<int>& held)
      : words_(ceil_divide<size_t>(held.size(), 64)), bits_(words_ * held.size(), 0), alive_(words_, 0), open_(held.size(), 0) {
    std::vector<std::pair<Lifetime, int>> births;
    for (size_t i = 0; i < held.size(); ++i) {
      for (const Lifetime& x : lifetimes[held[i]]) births.emplace_back(x, static_cast<int>(i));
    }
    const auto sooner = [](const auto& a, const auto& b) { return a.first.begin < b.first.begin; };
    std::stable_sort(births.begin(), births.end(), sooner);
    for (const auto& [interval, i] : births) add(interval, i);
  }

  bool operator()(int i, int j) const { return has(bits_.data() + words_ * i, j) || has(bits_.data() + words_ * j, i); }

 private:
  static bool has(const uint64_t* row, int i) { return (row[i / 64] >> (i % 64) & 1) != 0; }

  void add(const Lifetime& interval, int i) {
    for (; !deaths_.empty() && deaths_.top().first < interval.begin; deaths_.pop()) {
      const int dead = deaths_.top().second;
      if (--open_[dead] == 0) alive_[dead / 64] &= ~(uint64_t{1} << (dead % 64));
    }
    for (size_t word = 0; word < words_; ++word) bits_[words_ * i + word] |= alive_[word];
    alive_[i / 64] |= uint64_t{1} << (i % 64);
    ++open_[i];
    deaths_.emplace(interval.end, i);
  }

  using Death = std::pair<int, int>;  // end and number
  size_t words_;
  std::vector<uint64_t> bits_, alive_;
  std::vector<int> open_;  // open intervals
  std::priority_queue<Death, std::vector<Death>, std::greater<>> deaths_;
};

std::vector<int> colour(const Lifetimes& lifetimes, const std::vector<int>& held) {
  const Overlaps overlap(lifetimes, held);
  std::vector<int> colours(lifetimes.size(), -1);
  for (int i = 0; i < static_cast<int>(held.size()); ++i) {
    std::vector<bool> taken(held.size() + 1, false);
    for (int j = 0; j < i; ++j) {
      if (overlap(i, j)) taken[colours[held[j]]] = true;
    }
    int& own = colours[held[i]] = 0;
    while (taken[own]) ++own;
  }
  return colours;
}

bool begins_micro_batch(const Instruction& x) {
  return x.op == Op::load || (x.op == Op::receive && x.what == Payload::activation);
}

// Position where a reduction that starts at some position is guaranteed to have ended.
class Ends {
 public:
  Ends(const InstructionList& list, int in_flight) : in_flight_(in_flight), end_(static_cast<int>(list.size())) {
    for (int i = 0; i < end_; ++i) {
      if (adds_gradients(list[i].op)) backwards_.push_back(i);
      if (begins_micro_batch(list[i])) begins_.push_back(i);
    }
  }

  // Position of the `in_flight`-th backward after `at`, or the next micro-batch's if earlier: its forwards leave time.
  int of(int at) const {
    if (in_flight_ == 0) return at;
    const auto backward = std::upper_bound(backwards_.begin(), backwards_.end(), at);
    const auto begin = std::upper_bound(begins_.begin(), begins_.end(), at);
    const int last = backwards_.end() - backward >= in_flight_ ? backward[in_flight_ - 1] : end_;
    return std::min(last, begin == begins_.end() ? end_ : *begin);
  }

 private:
  int in_flight_, end_;
  std::vector<int> backwards_, begins_;
};

// Lifetimes from the first write after a reduction to the end of the next one.
std::vector<Lifetime> between_reductions(const std::vector<int>& writes, const std::vector<int>& reductions, const Ends& ends,
                                         int list_end) {
  std::vector<Lifetime> result;
  auto write = writes.begin();
  for (const int reduction : reductions) {
    if (write != writes.end() && *write < reduction) result.push_back({*write, ends.of(reduction)});
    write = std::upper_bound(write, writes.end(), reduction);
  }
  if (write != writes.end()) result.push_back({*write, list_end});
  return result;
}

}  // namespace

std::vector<int> weight_buffers(const InstructionList& list, const Program& program) {
  if (program.shard_level != ShardLevel::parameters) return {};
  check_blocks(list, program);
  Lifetimes lifetimes(program.num_blocks());
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    if (list[i].op == Op::gather) lifetimes[list[i].first].push_back({i, i});
    if (list[i].op == Op::release && !lifetimes[list[i].first].empty()) lifetimes[list[i].first].back().end = i;
  }
  return colour(lifetimes, held_blocks(list, program.block_uses));
}

std::vector<int> gradient_buffers(const InstructionList& list, const Program& program, int in_flight) {
  if (program.shard_level < ShardLevel::gradients) return {};
  check_blocks(list, program);
  Lifetimes lifetimes(program.num_blocks());
  const std::vector<int> held = held_blocks(list, program.block_uses);
  const Positions writes = gradient_writes(list, program.block_uses);
  const Ends ends(list, in_flight);
  Positions reductions(program.num_blocks());
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    if (list[i].op == Op::reduce_scatter) reductions[list[i].first].push_back(i);
  }
  for (const int block : held) {
    if (program.block_numel[block] == 0) continue;  // never reduced
    lifetimes[block] = between_reductions(writes[block], reductions[block], ends, static_cast<int>(list.size()));
  }
  return colour(lifetimes, held);
}

int64_t buffer_bytes(const std::vector<int>& buffer_of_block, const std::vector<int64_t>& block_bytes) {
  if (buffer_of_block.empty()) return std::accumulate(block_bytes.begin(), block_bytes.end(), int64_t{0});
  const std::vector<int64_t> sizes = buffer_sizes(buffer_of_block, [&](size_t block) { return block_bytes[block]; });
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
}

}  // namespace weft
