#include "weft/train/plan/group_specs.h"

#include <algorithm>

namespace weft {

namespace {

constexpr int64_t kPipelineMessageBytes = 4 << 20;  ///< room for a few activations on their way between stages

}  // namespace

std::vector<GroupSpec> group_specs(const Program& program, int pp_rank) {
  using enum GroupUse;
  const MeshSizes& mesh = program.mesh;
  const bool is_sharded = program.shards > 1, is_hybrid = is_sharded && program.replicas > 1, has_stages = mesh.pp > 1;
  std::vector<GroupSpec> specs;
  const auto also = [&](bool holds, GroupUse use) {
    if (holds) specs.back().uses.push_back(use);
  };
  specs.push_back({.uses = {data}, .axes = {"dp", "shard"}, .ranks = mesh.data()});
  also(!is_sharded, replicas);
  also(is_sharded && !is_hybrid, shards);
  also(is_sharded && !is_hybrid && !has_stages, model);
  if (program.inner_shards > 1) specs.push_back({.uses = {inner}, .axes = {"shard"}, .ranks = program.inner_shards});
  if (is_hybrid) {
    specs.push_back({.uses = {shards}, .axes = {"shard"}, .ranks = program.shards});
    also(!has_stages, model);
    specs.push_back({.uses = {replicas}, .axes = {"dp"}, .ranks = program.replicas});
  }
  if (!has_stages) return specs;
  specs.push_back({.uses = {pipeline}, .axes = {"pp"}, .ranks = mesh.pp, .message_bytes = kPipelineMessageBytes});
  also(!is_sharded, model);
  also(mesh.data() == 1, world);
  if (is_sharded) {
    specs.push_back({.uses = {model}, .axes = {"pp", "shard"}, .ranks = mesh.pp * program.shards});
    also(!is_hybrid, world);
  }
  if (is_hybrid || (!is_sharded && mesh.data() > 1)) {
    specs.push_back({.uses = {world}, .axes = {"pp", "dp", "shard"}, .ranks = mesh.world()});
  }
  for (int block = 0; block < program.num_blocks(); ++block) {
    if (program.num_holders(block) == 1) continue;
    const std::vector<int>& holders = program.holders[block];
    const bool holds = std::find(holders.begin(), holders.end(), pp_rank) != holders.end();
    specs.push_back({.uses = {tied}, .axes = {"pp"}, .ranks = holds ? program.num_holders(block) : 1, .block = block});
  }
  return specs;
}

}  // namespace weft
