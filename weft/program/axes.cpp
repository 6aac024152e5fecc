#include "weft/program/axes.h"

namespace weft {
namespace {

int size_of(const Program& program, MeshAxis axis) {
  const MeshSizes& mesh = program.mesh;
  switch (axis) {
    case MeshAxis::pp:
      return mesh.pp;
    case MeshAxis::dp:
      return mesh.dp;
    case MeshAxis::outer:
      return mesh.shard / program.inner_shards;
    case MeshAxis::inner:
      return program.inner_shards;
    case MeshAxis::cp:
      return mesh.cp;
    case MeshAxis::tp:
      return mesh.tp;
  }
  return 1;
}

}  // namespace

int size_along(const Program& program, AxisSet axes) {
  int size = 1;
  for (int i = 0; i < kNumMeshAxes; ++i) {
    if (axes.has(static_cast<MeshAxis>(i))) size *= size_of(program, static_cast<MeshAxis>(i));
  }
  return size;
}

AxisSet occupied(const Program& program, AxisSet axes) {
  AxisSet result;
  for (int i = 0; i < kNumMeshAxes; ++i) {
    const auto axis = static_cast<MeshAxis>(i);
    if (axes.has(axis) && size_of(program, axis) > 1) result = result | axis;
  }
  return result;
}

AxisSet named(const Program& program, AxisSet axes) {
  const AxisSet always = kPipelineAxis | kDataAxes;
  return (axes & always) | occupied(program, axes & (kContextAxis | kTensorAxis));
}

AxisSet replica_axes(const Program& program) {
  return named(program, (program.shard_level == ShardLevel::none ? kDataAxes : kReplicaAxis) | kContextAxis);
}

AxisSet model_axes(const Program& program) {
  AxisSet axes = occupied(program, kPipelineAxis | kTensorAxis);
  if (program.shards > 1) axes = axes | kShardAxis;
  return axes;
}

AxisSet inner_axes(const Program& program) { return kContextAxis | kTensorAxis | program.batch_axes; }

AxisSet loss_axes(const Program& program) {
  return named(program, occupied(program, kPipelineAxis) | kDataAxes | kContextAxis);
}

AxisSet total_axes(const Program& program) {
  const bool of_all = program.noise_scale || program.votes > 0;
  return of_all ? loss_axes(program) | occupied(program, kTensorAxis) : loss_axes(program);
}

}  // namespace weft
