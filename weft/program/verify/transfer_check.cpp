#include "weft/program/verify/transfer_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "weft/program/defect.h"

namespace weft {
namespace {

class TransferCheck {
 public:
  TransferCheck(const Program& program, const std::vector<int>& ranks)
      : program_(program), ranks_(ranks), at_(ranks.size(), 0) {}

  void run() {
    for (int copy = 0; copy < program_.copies; ++copy) check_blocks(copy);
    check_channels();
    check_progress();
  }

 private:
  int size() const { return static_cast<int>(ranks_.size()); }
  const InstructionList& list(int pp) const { return program_.of(ranks_[pp]); }
  std::string text(int pp, int i) const { return describe(list(pp)[i], program_.block_names); }

  void check_blocks(int copy) const;
  struct Channel {
    std::vector<int> sends, receives;  // in list order
  };
  void check_channels() const;
  void check_channel(int from, int to, const Channel& channel) const;
  void check_progress();
  bool meets_others(const Instruction& x) const;
  bool is_member(int pp, const Instruction& x) const;
  bool all_there(int pp) const;
  bool is_partner(int other, int pp) const;
  bool advance(int pp);
  bool step(int pp);
  [[noreturn]] void report_deadlock() const;

  const Program& program_;
  const std::vector<int>& ranks_;
  std::vector<int> at_;  // current instruction of each rank
};

// Exactly one rank runs each block of a copy.
void TransferCheck::check_blocks(int copy) const {
  std::vector<std::vector<int>> runners(program_.num_blocks());
  for (int pp = copy; pp < size(); pp += program_.copies) {
    for (const Instruction& x : list(pp)) {
      if (x.op != Op::forward) continue;
      if (runners[x.first].empty() || runners[x.first].back() != pp) runners[x.first].push_back(pp);
    }
  }
  for (int block = 0; block < program_.num_blocks(); ++block) {
    if (runners[block].size() == 1) continue;
    const int rank = runners[block].empty() ? ranks_[copy] : ranks_[runners[block][1]];
    throw VerifyError(Defect::misplaced_block, rank,
                      runners[block].empty() ? fmt::format("rank {}: no rank of its pipeline runs block {} '{}'", rank, block,
                                                           program_.block_names[block])
                                             : fmt::format("rank {} runs block {} '{}', but so does rank {}", rank, block,
                                                           program_.block_names[block], ranks_[runners[block][0]]));
  }
}

// Checks messages by sender and receiver.
void TransferCheck::check_channels() const {
  std::map<std::pair<int, int>, Channel> channels;
  for (int pp = 0; pp < size(); ++pp) {
    for (int i = 0; i < static_cast<int>(list(pp).size()); ++i) {
      const Instruction& x = list(pp)[i];
      if (x.op == Op::send) channels[{pp, x.peer}].sends.push_back(i);
      if (x.op == Op::receive) channels[{x.peer, pp}].receives.push_back(i);
    }
  }
  for (const auto& [ends, channel] : channels) check_channel(ends.first, ends.second, channel);
}

void TransferCheck::check_channel(int from, int to, const Channel& channel) const {
  const auto& [sends, receives] = channel;
  for (size_t k = 0; k < std::max(sends.size(), receives.size()); ++k) {
    const bool sent = k < sends.size(), received = k < receives.size();
    if (sent && received) {
      const Instruction& a = list(from)[sends[k]];
      const Instruction& b = list(to)[receives[k]];
      if (a.what == b.what && a.first == b.first && a.micro == b.micro) continue;
    }
    const auto side = [&](bool there, int pp, const std::vector<int>& all, const char* none) {
      return there ? fmt::format("rank {} has {} (instruction {})", ranks_[pp], text(pp, all[k]), all[k])
                   : fmt::format("rank {} {}", ranks_[pp], none);
    };
    throw VerifyError(Defect::transfer_mismatch, ranks_[sent ? to : from],
                      fmt::format("message {} from rank {} to rank {}: {}, {}", k, ranks_[from], ranks_[to],
                                  side(sent, from, sends, "sends no more"), side(received, to, receives, "receives no more")));
  }
}

// True if `x` involves other ranks of the line; members of all other collectives run the same list.
bool TransferCheck::meets_others(const Instruction& x) const {
  if (size() == 1) return false;
  return is_transfer(x.op) || x.axes.has(kPipelineAxis);
}

bool TransferCheck::is_member(int pp, const Instruction& x) const {
  if (tied_block(x) < 0) return true;
  const std::vector<int>& holders = program_.holders[x.first];
  return std::find(holders.begin(), holders.end(), pp) != holders.end();
}

// True if `other` must take part in the meeting that `pp` is in now.
bool TransferCheck::is_partner(int other, int pp) const {
  const Instruction& x = list(pp)[at_[pp]];
  return is_transfer(x.op) ? other == x.peer : other != pp && is_member(other, x);
}

bool TransferCheck::all_there(int pp) const {
  const Instruction& x = list(pp)[at_[pp]];
  const bool alone = is_transfer(x.op);
  for (int other = alone ? x.peer : 0; other < (alone ? x.peer + 1 : size()); ++other) {
    if (!is_partner(other, pp)) continue;
    if (at_[other] >= static_cast<int>(list(other).size())) return false;
    const Instruction& y = list(other)[at_[other]];
    const bool same = is_transfer(x.op) ? is_transfer(y.op) && y.op != x.op && y.peer == pp
                                        : y.op == x.op && y.axes == x.axes && tied_block(y) == tied_block(x);
    if (!same) return false;
  }
  return true;
}

// Advances `pp` out of its meeting, with its partners, if possible.
bool TransferCheck::advance(int pp) {
  if (!all_there(pp)) return false;
  const Instruction& x = list(pp)[at_[pp]];
  if (is_transfer(x.op)) {
    ++at_[x.peer];
  } else {
    for (int other = 0; other < size(); ++other) {
      if (other != pp && is_member(other, x)) ++at_[other];
    }
  }
  ++at_[pp];
  return true;
}

bool TransferCheck::step(int pp) {
  if (meets_others(list(pp)[at_[pp]])) return advance(pp);
  ++at_[pp];
  return true;
}

void TransferCheck::check_progress() {
  bool moved = true;
  bool done = false;
  while (moved && !done) {
    moved = false;
    done = true;
    for (int pp = 0; pp < size(); ++pp) {
      const int end = static_cast<int>(list(pp).size());
      while (at_[pp] < end && step(pp)) moved = true;
      done = done && at_[pp] == end;
    }
  }
  if (!done) report_deadlock();
}

void TransferCheck::report_deadlock() const {
  std::string stuck;
  int first = -1;
  for (int pp = 0; pp < size(); ++pp) {
    if (at_[pp] == static_cast<int>(list(pp).size())) continue;
    if (first < 0) first = ranks_[pp];
    stuck += fmt::format("{}rank {} in {} (instruction {})", stuck.empty() ? "" : ", ", ranks_[pp], text(pp, at_[pp]), at_[pp]);
  }
  throw VerifyError(Defect::deadlock, first, fmt::format("each of these waits for another: {}", stuck));
}

}  // namespace

void check_transfers(const Program& program, const std::vector<int>& ranks) { TransferCheck(program, ranks).run(); }

}  // namespace weft
