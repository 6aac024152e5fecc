#include "weft/program/axis_set.h"

#include <array>

#include "weft/program/axis_names.h"

namespace weft {

std::string name(AxisSet axes) {
  if (axes.empty()) return "none";
  constexpr std::array kAxes = {kPipelineAxis, kReplicaAxis, kShardAxis, kContextAxis, kTensorAxis};
  static_assert(kAxes.size() == kAxisNames.size());
  std::string result;
  for (size_t i = 0; i < kAxes.size(); ++i) {
    const AxisSet axis = kAxes[i];
    if (!axes.meets(axis)) continue;
    if (!result.empty()) result += "+";
    if (axis == kShardAxis && !axes.has(kShardAxis)) result += axes.has(kInnerAxis) ? "inner " : "outer ";
    result += kAxisNames[i];
  }
  return result;
}

}  // namespace weft
