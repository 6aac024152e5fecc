#include "weft/program/axis_set.h"

#include <utility>

namespace weft {

std::string name(AxisSet axes) {
  if (axes.empty()) return "none";
  constexpr std::pair<AxisSet, const char*> kWords[] = {
      {kPipelineAxis, "pp"}, {kReplicaAxis, "dp"}, {kShardAxis, "shard"}, {kContextAxis, "cp"}, {kTensorAxis, "tp"}};
  std::string result;
  for (const auto& [axis, word] : kWords) {
    if (!axes.meets(axis)) continue;
    if (!result.empty()) result += "+";
    if (axis == kShardAxis && !axes.has(kShardAxis)) result += axes.has(kInnerAxis) ? "inner " : "outer ";
    result += word;
  }
  return result;
}

}  // namespace weft
