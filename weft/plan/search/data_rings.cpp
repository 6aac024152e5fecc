#include "weft/plan/search/data_rings.h"

#include <algorithm>

#include "weft/program/axes.h"
#include "weft/program/cost.h"
#include "weft/program/ranks.h"

namespace weft {

namespace {

/// Programs have no instruction that moves nothing.
double seconds(const Ring& ring, Op op, AxisSet axes, int64_t wire_bytes) {
  if (wire_bytes == 0) return 0.0;
  return ring.seconds(Instruction{.op = op, .axes = axes, .wire_bytes = wire_bytes});
}

}  // namespace

double DataRings::over_shards(Op op, int64_t bytes) const {
  return seconds(shard, op, kShardAxis, shard_bytes(bytes, shard.ranks));
}

double DataRings::over_inner(int64_t bytes) const {
  return seconds(inner, Op::gather, kInnerAxis, shard_bytes(bytes, inner.ranks));
}

double DataRings::over_replicas(int64_t bytes) const {
  return seconds(replicas, Op::reduce, kReplicaAxis, all_reduce_bytes(bytes, replicas.ranks));
}

const DataRings& DataRingTable::at(const MeshSizes& mesh, int inner_shards, bool sharded) {
  const std::tuple key(mesh.pp, mesh.dp, mesh.shard, mesh.cp, mesh.tp, inner_shards, sharded);
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  Program frame;
  frame.mesh = mesh;
  frame.shard_level = sharded ? ShardLevel::optimizer : ShardLevel::none;
  frame.shards = sharded ? mesh.shard : 1;
  frame.inner_shards = std::max(inner_shards, 1);
  frame.list_of_rank.assign(static_cast<size_t>(mesh.world()), 0);
  const Ranks ranks(frame);
  Network network(ranks, hardware_);
  DataRings rings;
  if (sharded) rings.shard = network.ring(kShardAxis);
  if (inner_shards > 1) rings.inner = network.ring(kInnerAxis);
  rings.replicas = network.ring(replica_axes(frame));
  rings.overlap = {network.overlaps_compute(Port::host), network.overlaps_compute(Port::network)};
  return known_.emplace(key, rings).first->second;
}

}  // namespace weft
