#include "weft/program/verify/inner_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "weft/program/axes.h"
#include "weft/program/check_program.h"
#include "weft/program/defect.h"
#include "weft/program/ranks.h"
#include "weft/program/verify/step_index.h"

namespace weft {
namespace {

class InnerCheck {
 public:
  explicit InnerCheck(const Program& program) : program_(program) {}

  void run() const {
    for (const int rank : first_ranks(program_)) {
      if (rank >= 0) check_bytes_declared(rank);
    }
    const Ranks ranks(program_);
    std::set<std::pair<int, int>> compared;
    for (int rank = 0; rank < program_.world_size(); ++rank) {
      const int first = first_neighbour(ranks, rank);
      if (program_.list_of_rank[first] == program_.list_of_rank[rank]) continue;
      if (compared.emplace(program_.list_of_rank[first], program_.list_of_rank[rank]).second) compare(first, rank);
    }
  }

 private:
  /// First of the ranks that take part in calls inside a rank's blocks.
  int first_neighbour(const Ranks& ranks, int rank) const {
    const AxisSet axes = inner_axes(program_);
    MeshCoordinate at = ranks.coordinate(rank);
    if (axes.has(kReplicaAxis)) at.dp = 0;
    if (axes.has(kShardAxis)) at.shard = 0;
    at.cp = at.tp = 0;
    return ranks.rank_at(at);
  }

  bool meets_others(const Instruction& x) const {
    return is_collective(x) || is_transfer(x.op) || !program_.inner_calls(x).empty();
  }

  static bool alike(const Instruction& a, const Instruction& b) {
    return a.op == b.op && a.first == b.first && a.last == b.last && a.micro == b.micro && a.axes == b.axes &&
           a.what == b.what && a.peer == b.peer;
  }

  std::vector<int> meetings(int rank) const {
    const InstructionList& list = program_.of(rank);
    std::vector<int> result;
    for (int i = 0; i < static_cast<int>(list.size()); ++i) {
      if (meets_others(list[i])) result.push_back(i);
    }
    return result;
  }

  std::string text(int rank, const std::vector<int>& meetings, size_t k) const {
    if (k >= meetings.size()) return fmt::format("rank {} runs no more", rank);
    const Instruction& x = program_.of(rank)[meetings[k]];
    return fmt::format("rank {} runs {} (instruction {})", rank, describe(x, program_.block_names), meetings[k]);
  }

  void compare(int rank, int other) const {
    const std::vector<int> ours = meetings(rank), theirs = meetings(other);
    for (size_t k = 0; k < std::max(ours.size(), theirs.size()); ++k) {
      const bool both = k < ours.size() && k < theirs.size();
      if (both && alike(program_.of(rank)[ours[k]], program_.of(other)[theirs[k]])) continue;
      throw VerifyError(Defect::order_mismatch, other,
                        fmt::format("ranks {} and {} meet inside blocks ({}), but {} where {}; both must run the "
                                    "same in the same order",
                                    rank, other, name(inner_axes(program_)), text(rank, ours, k), text(other, theirs, k)));
    }
  }

  // Checks declared bytes: a compute instruction sends only what its inner calls send.
  void check_bytes_declared(int rank) const {
    const InstructionList& list = program_.of(rank);
    for (int i = 0; i < static_cast<int>(list.size()); ++i) {
      const Instruction& x = list[i];
      if (x.op != Op::forward && x.op != Op::loss && !is_backward(x.op)) continue;
      int64_t bytes = 0;
      for (const InnerCall& call : program_.inner_calls(x)) bytes += call.wire_bytes;
      if (bytes == x.wire_bytes) continue;
      fail_at(program_, rank, i, Defect::bad_bytes,
              fmt::format("it declares {} bytes sent, but calls inside it send {}", x.wire_bytes, bytes));
    }
  }

  const Program& program_;
};

}  // namespace

void check_inner(const Program& program) { InnerCheck(program).run(); }

}  // namespace weft
