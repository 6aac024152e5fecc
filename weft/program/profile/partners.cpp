#include "weft/program/profile/partners.h"

#include <map>
#include <tuple>

#include "weft/program/ranks.h"

namespace weft {

Partners::Partners(const Program& program) : meeting_of_(program.world_size()) {
  const Ranks ranks(program);
  using Line = std::tuple<int, int, int, int>;  // of collectives: axes, tied block, first member; of messages: the two ranks
  std::map<std::pair<Line, int>, int> numbers;  // of meetings, by line and how many came before
  const auto meet = [&](const Line& line, std::map<Line, int>& before, int rank, int index) {
    const auto [found, is_new] = numbers.try_emplace({line, before[line]++}, static_cast<int>(meetings_.size()));
    if (is_new) meetings_.emplace_back();
    meetings_[found->second].push_back({rank, index});
    meeting_of_[rank][index] = found->second;
  };
  for (int rank = 0; rank < program.world_size(); ++rank) {
    const InstructionList& list = program.of(rank);
    meeting_of_[rank].assign(list.size(), -1);
    std::map<Line, int> before;
    std::map<std::pair<AxisSet, int>, int> firsts;  // first members of this rank's groups; -1: it is alone
    for (int i = 0; i < static_cast<int>(list.size()); ++i) {
      const Instruction& x = list[i];
      if (is_transfer(x.op)) {
        const int peer = ranks.rank_of(ranks.column_of(rank), x.peer);
        const bool sends = x.op == Op::send;
        meet({-1, 0, sends ? rank : peer, sends ? peer : rank}, before, rank, i);
      } else if (is_collective(x)) {
        const auto [group, is_new] = firsts.try_emplace({x.axes, tied_block(x)}, -1);
        if (is_new) {
          const std::vector<int> members = ranks.members(rank, x.axes, tied_block(x));
          if (members.size() > 1) group->second = members.front();
        }
        if (group->second >= 0) meet({x.axes.bits(), tied_block(x), group->second, 0}, before, rank, i);
      }
    }
  }
}

const std::vector<RankInstruction>& Partners::of(int rank, int index) const {
  static const std::vector<RankInstruction> kNone;
  const int meeting = meeting_of_[rank][index];
  return meeting < 0 ? kNone : meetings_[meeting];
}

}  // namespace weft
