#include "weft/train/groups.h"

#include <algorithm>

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
  for (const int place : holders) axis.ranks.push_back(pipeline.ranks[place]);
  return axis;
}

}  // namespace

std::vector<Group> RankGroups::all() const { return made_; }

RankGroups make_groups(const Mesh& mesh, const Program& program, const GroupOptions& options) {
  RankGroups groups;
  const Group alone(options.device);
  groups.shards = groups.inner = groups.pipeline = groups.world = alone;
  const auto make_with = [&](const Axis& axis, const GroupOptions& own) {
    groups.made_.push_back(mesh.group(axis, own));
    return groups.made_.back();
  };
  const auto make = [&](const Axis& axis) { return make_with(axis, options); };
  groups.data = make(mesh.join({"dp", "shard"}));
  groups.replicas = groups.data;
  const bool sharded = program.shard_level != ShardLevel::none && mesh.size("shard") > 1;
  if (sharded) {
    if (program.inner_shards > 1) groups.inner = make(inner_axis(mesh.axis("shard"), program.inner_shards));
    const bool hybrid = mesh.size("dp") > 1;
    groups.shards = hybrid ? make(mesh.axis("shard")) : groups.data;
    groups.replicas = hybrid ? make(mesh.axis("dp")) : alone;
  }
  groups.model = groups.shards;
  if (mesh.size("pp") == 1) return groups;
  const Axis pipeline = mesh.axis("pp");
  GroupOptions with_messages = options;
  with_messages.message_bytes = kPipelineMessageBytes;
  groups.pipeline = make_with(pipeline, with_messages);
  groups.model = sharded ? make(mesh.join({"pp", "shard"})) : groups.pipeline;
  if (mesh.join({"dp", "shard"}).size() == 1) {
    groups.world = groups.pipeline;
  } else {
    groups.world = sharded && mesh.size("dp") == 1 ? groups.model : make(mesh.join({"pp", "dp", "shard"}));
  }
  for (int block = 0; block < program.num_blocks(); ++block) {
    if (program.num_holders(block) == 1) continue;
    groups.tied[block] = make(tied_axis(pipeline, program.holders[block], program.block_names[block]));
  }
  return groups;
}

}  // namespace weft
