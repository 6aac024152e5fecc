#include "weft/plan/cost/group_specs.h"

#include <algorithm>

#include "weft/program/axes.h"

namespace weft {

namespace {

constexpr int64_t kPipelineMessageBytes = 4 << 20;  ///< room for a few activations on their way between stages

/// Axes that join the same ranks share a group.
class Specs {
 public:
  explicit Specs(const Program& program) : program_(program) {}

  void add(AxisSet axes, int64_t message_bytes = 0) {
    const AxisSet ranks = occupied(program_, axes);
    if (ranks.empty() && !specs_.empty()) return;
    const auto same = std::find(ranks_.begin(), ranks_.end(), ranks);
    if (same == ranks_.end()) {
      ranks_.push_back(ranks);
      specs_.push_back({.axes = {axes}, .ranks = size_along(program_, axes), .message_bytes = message_bytes});
      return;
    }
    std::vector<AxisSet>& known = specs_[same - ranks_.begin()].axes;
    if (std::find(known.begin(), known.end(), axes) == known.end()) known.push_back(axes);
  }

  std::vector<GroupSpec> take() { return std::move(specs_); }

 private:
  const Program& program_;
  std::vector<AxisSet> ranks_;  ///< by spec: its axes with more than one rank
  std::vector<GroupSpec> specs_;
};

/// Adds separate groups of the same ranks for the axes that gradients are summed along.
void add_gradients(std::vector<GroupSpec>& specs, const Program& program) {
  const size_t exact = specs.size();
  for (size_t i = 0; i < exact; ++i) {
    GroupSpec spec = specs[i];
    const auto is_other = [&](AxisSet axes) {
      return axes != replica_axes(program) && (axes != kShardAxis || program.shards == 1);
    };
    if (spec.block < 0) spec.axes.erase(std::remove_if(spec.axes.begin(), spec.axes.end(), is_other), spec.axes.end());
    spec.gradients = true;
    if (spec.block >= 0 || (spec.ranks > 1 && !spec.axes.empty())) specs.push_back(spec);
  }
}

}  // namespace

std::vector<GroupSpec> group_specs(const Program& program, int pp_rank, bool rounds) {
  Specs all(program);
  all.add(kDataAxes);
  if (program.inner_shards > 1) all.add(kInnerAxis);
  if (program.shards > 1) all.add(kShardAxis);
  all.add(replica_axes(program));
  all.add(kPipelineAxis, kPipelineMessageBytes);
  for (const AxisSet axes : {model_axes(program), loss_axes(program), total_axes(program), program.batch_axes, kContextAxis,
                             kTensorAxis, kAllAxes}) {
    all.add(axes);
  }
  std::vector<GroupSpec> specs = all.take();
  for (int block = 0; block < program.num_blocks(); ++block) {
    if (!program.is_shared(block)) continue;
    const std::vector<int>& holders = program.holders[block];
    const bool holds = std::find(holders.begin(), holders.end(), pp_rank) != holders.end();
    specs.push_back({.axes = {kPipelineAxis}, .ranks = holds ? program.num_holders(block) : 1, .block = block});
  }
  if (rounds) add_gradients(specs, program);
  return specs;
}

}  // namespace weft
