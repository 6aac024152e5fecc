#include "weft/program/passes/reload_ahead.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace weft {

InstructionList reload_ahead(InstructionList list, const OffloadOptions& options) {
  std::array<int, kPayloads.size()> latest{};              // by kind: place of the latest reload in `list`
  std::map<std::tuple<Payload, int, int>, int> offloaded;  // by kind, block and micro-batch
  std::vector<std::vector<int>> behind(list.size());       // reloads that move to behind an instruction
  std::vector<bool> moves(list.size(), false);
  latest.fill(-1);
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    const Instruction& x = list[i];
    if (x.op == Op::offload) offloaded[{x.what, x.first, x.micro}] = i;
    if (x.op != Op::reload || !options.is_beside(x.what)) continue;
    const auto own = offloaded.find({x.what, x.first, x.micro});
    const int before = std::exchange(latest[static_cast<size_t>(x.what)], i);
    if (before < 0) continue;
    moves[i] = true;
    behind[own == offloaded.end() ? before : std::max(before, own->second)].push_back(i);
  }
  InstructionList result;
  result.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    if (!moves[i]) result.push_back(std::move(list[i]));
    for (const int reload : behind[i]) result.push_back(std::move(list[reload]));
  }
  return result;
}

}  // namespace weft
