#include "weft/train/run/groups.h"

#include <algorithm>

#include "weft/train/plan/group_specs.h"

namespace weft {

namespace {

/// This rank's neighbours on the shard axis, `size` of them.
Axis inner_axis(const Axis& shard, int size) {
  const int begin = shard.index / size * size;
  return {"inner shard", {shard.ranks.begin() + begin, shard.ranks.begin() + begin + size}, shard.index - begin};
}

/// The pipeline ranks that hold a block; this rank alone where it does not.
Axis tied_axis(const Axis& pipeline, const std::vector<int>& holders, const std::string& block) {
  const auto own = std::find(holders.begin(), holders.end(), pipeline.index);
  if (own == holders.end()) return {"tied " + block, {pipeline.ranks[pipeline.index]}, 0};
  Axis axis{"tied " + block, {}, static_cast<int>(own - holders.begin())};
  for (const int pp : holders) axis.ranks.push_back(pipeline.ranks[pp]);
  return axis;
}

Axis axis_of(const GroupSpec& spec, const Mesh& mesh, const Program& program) {
  switch (spec.uses.front()) {
    case GroupUse::inner:
      return inner_axis(mesh.axis("shard"), program.inner_shards);
    case GroupUse::tied:
      return tied_axis(mesh.axis("pp"), program.holders[spec.block], program.block_names[spec.block]);
    default:
      return mesh.join(spec.axes);
  }
}

Group RankGroups::*member_for(GroupUse use) {
  switch (use) {
    case GroupUse::data:
      return &RankGroups::data;
    case GroupUse::replicas:
      return &RankGroups::replicas;
    case GroupUse::shards:
      return &RankGroups::shards;
    case GroupUse::inner:
      return &RankGroups::inner;
    case GroupUse::pipeline:
      return &RankGroups::pipeline;
    case GroupUse::model:
      return &RankGroups::model;
    case GroupUse::world:
    case GroupUse::tied:
      break;
  }
  return &RankGroups::world;
}

}  // namespace

std::vector<Group> RankGroups::all() const { return made_; }

RankGroups make_groups(const Mesh& mesh, const Program& program, const GroupOptions& options) {
  RankGroups groups;
  const Group alone(options.device);
  groups.replicas = groups.shards = groups.inner = groups.pipeline = groups.model = groups.world = alone;
  for (const GroupSpec& spec : group_specs(program, mesh.coordinate("pp"))) {
    GroupOptions own = options;
    if (spec.message_bytes > 0) own.message_bytes = spec.message_bytes;
    const Group group = mesh.group(axis_of(spec, mesh, program), own);
    groups.made_.push_back(group);
    for (const GroupUse use : spec.uses) {
      if (use == GroupUse::tied) {
        groups.tied[spec.block] = group;
      } else {
        groups.*member_for(use) = group;
      }
    }
  }
  return groups;
}

}  // namespace weft
