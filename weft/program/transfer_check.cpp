#include "weft/program/transfer_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "weft/program/verify.h"

namespace weft {
namespace {

class TransferCheck {
 public:
  TransferCheck(const Program& program, const std::vector<int>& ranks)
      : program_(program), ranks_(ranks), at_(ranks.size(), 0) {}

  void run() {
    check_blocks();
    for (int from = 0; from < size(); ++from) {
      for (int to = 0; to < size(); ++to) check_channel(from, to);
    }
    check_progress();
  }

 private:
  int size() const { return static_cast<int>(ranks_.size()); }
  const InstructionList& list(int place) const { return program_.of(ranks_[place]); }
  std::string text(int place, int i) const { return describe(list(place)[i], program_.block_names); }

  void check_blocks() const;
  std::vector<int> messages(Op op, int place, int peer) const;
  void check_channel(int from, int to) const;
  void check_progress();
  bool meets_others(const Instruction& x) const;
  bool is_member(int place, const Instruction& x) const;
  std::vector<int> partners(int place) const;
  bool advance(int place);
  bool step(int place);
  [[noreturn]] void report_deadlock() const;

  const Program& program_;
  const std::vector<int>& ranks_;
  std::vector<int> at_;  // the instruction each rank is in
};

void TransferCheck::check_blocks() const {
  std::vector<std::vector<int>> runners(program_.num_blocks());
  for (int place = 0; place < size(); ++place) {
    for (const Instruction& x : list(place)) {
      if (x.op != Op::forward) continue;
      if (runners[x.first].empty() || runners[x.first].back() != place) runners[x.first].push_back(place);
    }
  }
  for (int block = 0; block < program_.num_blocks(); ++block) {
    if (runners[block].size() == 1) continue;
    const int rank = runners[block].empty() ? ranks_[0] : ranks_[runners[block][1]];
    throw VerifyError(Defect::misplaced_block, rank,
                      runners[block].empty() ? fmt::format("rank {}: no rank of its pipeline runs block {} '{}'", rank, block,
                                                           program_.block_names[block])
                                             : fmt::format("rank {} runs block {} '{}', but so does rank {}", rank, block,
                                                           program_.block_names[block], ranks_[runners[block][0]]));
  }
}

std::vector<int> TransferCheck::messages(Op op, int place, int peer) const {
  std::vector<int> result;
  for (int i = 0; i < static_cast<int>(list(place).size()); ++i) {
    if (list(place)[i].op == op && list(place)[i].peer == peer) result.push_back(i);
  }
  return result;
}

void TransferCheck::check_channel(int from, int to) const {
  const std::vector<int> sends = messages(Op::send, from, to), receives = messages(Op::receive, to, from);
  for (size_t k = 0; k < std::max(sends.size(), receives.size()); ++k) {
    const bool sent = k < sends.size(), received = k < receives.size();
    if (sent && received) {
      const Instruction& a = list(from)[sends[k]];
      const Instruction& b = list(to)[receives[k]];
      if (a.what == b.what && a.first == b.first && a.micro == b.micro) continue;
    }
    const auto side = [&](bool there, int place, const std::vector<int>& all, const char* none) {
      return there ? fmt::format("rank {} has {} (instruction {})", ranks_[place], text(place, all[k]), all[k])
                   : fmt::format("rank {} {}", ranks_[place], none);
    };
    throw VerifyError(Defect::transfer_mismatch, ranks_[sent ? to : from],
                      fmt::format("message {} from rank {} to rank {}: {}, {}", k, ranks_[from], ranks_[to],
                                  side(sent, from, sends, "sends no more"), side(received, to, receives, "receives no more")));
  }
}

// True for what involves other ranks of the line; the other collectives' members all run the same list.
bool TransferCheck::meets_others(const Instruction& x) const {
  if (size() == 1) return false;
  return is_transfer(x.op) || x.axis == AxisName::model || x.axis == AxisName::world || x.axis == AxisName::tied;
}

bool TransferCheck::is_member(int place, const Instruction& x) const {
  if (x.axis != AxisName::tied) return true;
  const std::vector<int>& holders = program_.holders[x.first];
  return std::find(holders.begin(), holders.end(), place) != holders.end();
}

// The places that must be in the same meeting as `place` is in now.
std::vector<int> TransferCheck::partners(int place) const {
  const Instruction& x = list(place)[at_[place]];
  if (is_transfer(x.op)) return {x.peer};
  std::vector<int> result;
  for (int other = 0; other < size(); ++other) {
    if (other != place && is_member(other, x)) result.push_back(other);
  }
  return result;
}

// Whether `place` could leave a meeting, and its partners with it.
bool TransferCheck::advance(int place) {
  const Instruction& x = list(place)[at_[place]];
  const std::vector<int> others = partners(place);
  for (const int other : others) {
    if (at_[other] >= static_cast<int>(list(other).size())) return false;
    const Instruction& y = list(other)[at_[other]];
    const bool same = is_transfer(x.op) ? is_transfer(y.op) && y.op != x.op && y.peer == place
                                        : y.op == x.op && y.axis == x.axis && (x.axis != AxisName::tied || y.first == x.first);
    if (!same) return false;
  }
  ++at_[place];
  for (const int other : others) ++at_[other];
  return true;
}

bool TransferCheck::step(int place) {
  if (meets_others(list(place)[at_[place]])) return advance(place);
  ++at_[place];
  return true;
}

void TransferCheck::check_progress() {
  bool moved = true;
  bool done = false;
  while (moved && !done) {
    moved = false;
    done = true;
    for (int place = 0; place < size(); ++place) {
      const int end = static_cast<int>(list(place).size());
      while (at_[place] < end && step(place)) moved = true;
      done = done && at_[place] == end;
    }
  }
  if (!done) report_deadlock();
}

void TransferCheck::report_deadlock() const {
  std::string stuck;
  int first = -1;
  for (int place = 0; place < size(); ++place) {
    if (at_[place] == static_cast<int>(list(place).size())) continue;
    if (first < 0) first = ranks_[place];
    stuck += fmt::format("{}rank {} in {} (instruction {})", stuck.empty() ? "" : ", ", ranks_[place], text(place, at_[place]),
                         at_[place]);
  }
  throw VerifyError(Defect::deadlock, first, fmt::format("none of these can go on before another does: {}", stuck));
}

}  // namespace

void check_transfers(const Program& program, const std::vector<int>& ranks) { TransferCheck(program, ranks).run(); }

}  // namespace weft
