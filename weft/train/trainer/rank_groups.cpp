#include "weft/train/trainer/rank_groups.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "weft/comm/audit/audited_group.h"
#include "weft/plan/cost/group_specs.h"
#include "weft/program/axes.h"

namespace weft {

namespace {

/// This rank's neighbours on the shard axis, `size` in total.
Axis inner_axis(const Axis& shard, int size) {
  const int begin = shard.index / size * size;
  return {"inner shard", {shard.ranks.begin() + begin, shard.ranks.begin() + begin + size}, shard.index - begin};
}

/// The pipeline ranks that hold a block; this rank alone if it does not hold it.
Axis tied_axis(const Axis& pipeline, const std::vector<int>& holders, const std::string& block) {
  const auto own = std::find(holders.begin(), holders.end(), pipeline.index);
  if (own == holders.end()) return {"tied " + block, {pipeline.ranks[pipeline.index]}, 0};
  Axis axis{"tied " + block, {}, static_cast<int>(own - holders.begin())};
  for (const int pp : holders) axis.ranks.push_back(pipeline.ranks[pp]);
  return axis;
}

std::vector<std::string> names(AxisSet axes) {
  std::vector<std::string> result;
  for (const AxisSet axis : {kPipelineAxis, kReplicaAxis, kShardAxis, kContextAxis, kTensorAxis}) {
    if (axes.has(axis)) result.push_back(name(axis));
  }
  return result;
}

/// Puts ranks of one part of the sequence next to each other: their sums over samples are then the lower branches of the
/// group's tree, and the same for any number of ranks sharing the samples (law 2).
void put_context_outermost(Axis& axis, const Mesh& mesh) {
  const int own = axis.ranks[axis.index];
  const auto part = [&mesh](int rank) { return rank / mesh.size("tp") % mesh.size("cp"); };
  std::stable_sort(axis.ranks.begin(), axis.ranks.end(), [&](int a, int b) { return part(a) < part(b); });
  axis.index = static_cast<int>(std::find(axis.ranks.begin(), axis.ranks.end(), own) - axis.ranks.begin());
}

/// The axes to name the group by: cp or tp if it joins no other axis, else those it was first made for.
AxisSet known_as(const GroupSpec& spec) {
  const auto plain = std::find_if(spec.axes.begin(), spec.axes.end(),
                                  [](AxisSet axes) { return axes == kContextAxis || axes == kTensorAxis; });
  return plain == spec.axes.end() ? spec.axes.front() : *plain;
}

bool has(const GroupSpec& spec, AxisSet axes) { return std::find(spec.axes.begin(), spec.axes.end(), axes) != spec.axes.end(); }

Axis axis_of(const GroupSpec& spec, const Mesh& mesh, const Program& program) {
  if (spec.block >= 0) return tied_axis(mesh.axis("pp"), program.holders[spec.block], program.block_names[spec.block]);
  const AxisSet axes = known_as(spec);
  return axes == kInnerAxis ? inner_axis(mesh.axis("shard"), program.inner_shards) : mesh.join(names(axes));
}

}  // namespace

void RankGroups::explain(const std::exception& error) const {
  if (dynamic_cast<const c10::Error*>(&error) == nullptr || dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr)
    return;
  for (const Group& group : by_axes.all()) group.explain(error, "step");
}

RankGroups make_groups(const Mesh& mesh, const Program& program, const GroupOptions& options,
                       const std::shared_ptr<CallAudit>& audit) {
  RankGroups groups{.by_axes = AxisGroups(options.device)};
  const bool rounds = options.across_hosts != AcrossHosts::exact && program.gradient_bytes == 4;
  for (const GroupSpec& spec : group_specs(program, mesh.coordinate("pp"), rounds)) {
    GroupOptions own = options;
    if (!spec.gradients) own.across_hosts = AcrossHosts::exact;
    if (spec.message_bytes > 0) own.message_bytes = spec.message_bytes;
    own.passes_messages = spec.message_bytes > 0 || has(spec, kContextAxis);
    Axis axis = axis_of(spec, mesh, program);
    const bool reduces = has(spec, replica_axes(program));
    if (reduces && spec.block < 0 && own.tree_order) put_context_outermost(axis, mesh);
    Group group = mesh.group(axis, own);
    if (audit) group = audited(group, axis, own.device, audit);
    if (spec.block >= 0) {
      spec.gradients ? groups.by_axes.set_tied_gradients(spec.block, group) : groups.by_axes.set_tied(spec.block, group);
    } else if (spec.gradients) {
      for (const AxisSet axes : spec.axes) groups.by_axes.set_gradients(axes, group);
    } else {
      for (const AxisSet axes : spec.axes) groups.by_axes.set(axes, group);
    }
  }
  return groups;
}

}  // namespace weft
