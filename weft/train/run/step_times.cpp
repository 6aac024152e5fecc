#include "weft/train/run/step_times.h"

#include <algorithm>

namespace weft {
namespace {

/// Since the start. Groups of one name add up.
StepTimes::Parts parts_so_far(const Trainer& trainer, const Loader& loader) {
  StepTimes::Parts parts{.data_s = loader.waits().waited_s};
  for (const Group& group : trainer.groups()) {
    if (group.size() == 1) continue;
    auto& all = parts.communication_s;
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.first == group.name(); });
    auto& own = found == all.end() ? all.emplace_back(group.name(), 0.0) : *found;
    own.second += group.traffic().seconds;
  }
  return parts;
}

}  // namespace

StepTimes::StepTimes(const Trainer& trainer, const Loader& loader, const Mesh& mesh, at::Device device)
    : trainer_(trainer), loader_(loader), stragglers_(mesh, trainer.world_group(), device) {}

void StepTimes::begin() {
  before_ = parts_so_far(trainer_, loader_);
  step_ = Stopwatch();
}

std::vector<std::string> StepTimes::end() {
  const double step_s = step_.seconds();
  last_ = parts_so_far(trainer_, loader_);
  last_.data_s -= before_.data_s;
  double communicated_s = 0.0;
  for (auto& [axis, seconds] : last_.communication_s) {
    const auto earlier = std::find_if(before_.communication_s.begin(), before_.communication_s.end(),
                                      [&name = axis](const auto& one) { return one.first == name; });
    if (earlier != before_.communication_s.end()) seconds -= earlier->second;
    communicated_s += seconds;
  }
  if (++steps_ <= 2) return {};
  counted_s_ += step_s;
  communicated_s_ += communicated_s;
  return stragglers_.add({.data_s = last_.data_s, .compute_s = std::max(0.0, step_s - communicated_s - last_.data_s)},
                         communicated_s);
}

}  // namespace weft
