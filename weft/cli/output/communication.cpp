#include "weft/cli/output/communication.h"

#include <algorithm>

#include "weft/program/instruction.h"

namespace weft {

std::vector<Communication> communication_of(const Program& program, const SimulatedRank& rank) {
  const InstructionList& list = program.of(rank.rank);
  std::vector<Communication> all;
  for (size_t i = 0; i < list.size(); ++i) {
    const Instruction& x = list[i];
    const bool is_call = is_collective(x) && program.world_size() > 1;
    if (!is_call && (x.lane == Lane::compute || is_collective(x)) && program.inner_calls(x).empty()) continue;
    const Span& span = rank.spans[i];
    all.push_back({describe(x, program.block_names), span.end_s - span.begin_s, span.exposed_s});
  }
  return all;
}

const Communication* most_exposed(const std::vector<Communication>& all) {
  const auto most =
      std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.exposed_s < b.exposed_s; });
  return most == all.end() || most->exposed_s == 0.0 ? nullptr : &*most;
}

}  // namespace weft
