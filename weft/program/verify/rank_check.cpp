#include "weft/program/verify/rank_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "weft/program/axes.h"
#include "weft/program/defect.h"

namespace weft {
namespace {

using Indices = std::vector<int>;

bool contains(const Indices& all, int one) { return std::find(all.begin(), all.end(), one) != all.end(); }

class RankCheck {
 public:
  explicit RankCheck(const Program& program) : program_(program), stride_(program.world_size() / program.mesh.pp) {}

  void run() const {
    compare_copies();
    const std::vector<std::set<int>> sharers = earlier_sharers();
    for (int pp = 1; pp < program_.mesh.pp; ++pp) {
      for (const AxisSet axes : {model_axes(program_), total_axes(program_)}) compare_along(pp, axes);
      for (const int other : sharers[pp]) compare_tied(other, pp);
    }
  }

 private:
  void compare_copies() const;
  void compare_along(int pp, AxisSet axes) const;
  void compare_tied(int pp, int other) const;
  std::vector<std::set<int>> earlier_sharers() const;
  bool holds(int pp, int block) const { return contains(program_.holders[block], pp); }

  template <class Wanted>
  Indices issued(int rank, const Wanted& wanted) const;
  template <class Wanted, class Alike>
  void compare(int rank, int other, const Wanted& wanted, const Alike& alike) const;
  std::string text(int rank, const Indices& issued, size_t k) const;

  const Program& program_;
  int stride_;  // ranks per pipeline rank
};

template <class Wanted>
Indices RankCheck::issued(int rank, const Wanted& wanted) const {
  const InstructionList& list = program_.of(rank);
  Indices result;
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    if (wanted(list[i])) result.push_back(i);
  }
  return result;
}

std::string RankCheck::text(int rank, const Indices& issued, size_t k) const {
  if (k >= issued.size()) return fmt::format("rank {} issues no more", rank);
  const std::string what = describe(program_.of(rank)[issued[k]], program_.block_names);
  return fmt::format("rank {} issues {} (instruction {})", rank, what, issued[k]);
}

template <class Wanted, class Alike>
void RankCheck::compare(int rank, int other, const Wanted& wanted, const Alike& alike) const {
  const Indices ours = issued(rank, wanted), theirs = issued(other, wanted);
  for (size_t k = 0; k < std::max(ours.size(), theirs.size()); ++k) {
    const bool both = k < ours.size() && k < theirs.size();
    if (both && alike(program_.of(rank)[ours[k]], program_.of(other)[theirs[k]])) continue;
    throw VerifyError(Defect::order_mismatch, other,
                      fmt::format("collective {} differs between ranks: {}, {}; both must issue the same in the "
                                  "same order",
                                  k, text(rank, ours, k), text(other, theirs, k)));
  }
}

// Compares the joint order of collectives and transfers: if a rank has a transfer before a collective and its copy has it
// after, two pipelines that are each correct can deadlock.
void RankCheck::compare_copies() const {
  std::set<std::pair<int, int>> compared;
  for (int rank = 0; rank < program_.world_size(); ++rank) {
    const int reference = rank / stride_ * stride_;
    if (program_.list_of_rank[reference] == program_.list_of_rank[rank]) continue;
    if (!compared.emplace(program_.list_of_rank[reference], program_.list_of_rank[rank]).second) continue;
    compare(
        reference, rank, [](const Instruction& x) { return is_collective(x) || is_transfer(x.op); },
        [](const Instruction& a, const Instruction& b) {
          const bool same_message = a.what == b.what && a.peer == b.peer && a.micro == b.micro;
          return a.op == b.op && a.first == b.first && a.last == b.last && a.axes == b.axes &&
                 (same_message || !is_transfer(a.op));
        });
  }
}

// Ignores the norm's blocks, which differ between ranks.
void RankCheck::compare_along(int pp, AxisSet axes) const {
  compare(
      0, pp * stride_, [axes](const Instruction& x) { return x.axes == axes && tied_block(x) < 0; },
      [](const Instruction& a, const Instruction& b) { return a.op == b.op; });
}

// For each pipeline rank, the earlier ranks that share a block with it.
std::vector<std::set<int>> RankCheck::earlier_sharers() const {
  std::vector<std::set<int>> result(program_.mesh.pp);
  for (std::vector<int> holders : program_.holders) {
    std::sort(holders.begin(), holders.end());
    for (size_t k = 1; k < holders.size(); ++k) result[holders[k]].insert(holders.begin(), holders.begin() + k);
  }
  return result;
}

void RankCheck::compare_tied(int pp, int other) const {
  const auto both_hold = [&](int block) { return holds(pp, block) && holds(other, block); };
  const auto shared = [&](const Instruction& x) { return tied_block(x) >= 0 && both_hold(x.first); };
  compare(pp * stride_, other * stride_, shared,
          [](const Instruction& a, const Instruction& b) { return a.op == b.op && a.first == b.first; });
}

}  // namespace

void check_ranks(const Program& program) { RankCheck(program).run(); }

}  // namespace weft
