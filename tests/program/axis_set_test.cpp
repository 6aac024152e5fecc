#include "weft/program/axis_set.h"

#include <gtest/gtest.h>

#include "tests/program/toy.h"
#include "weft/program/axes.h"

namespace weft::axis_set_test {
namespace {

TEST(AxisSet, names_join_its_axes) {
  EXPECT_EQ(name(kNoAxes), "none");
  EXPECT_EQ(name(kDataAxes), "dp+shard");
  EXPECT_EQ(name(kInnerAxis), "inner shard");
  EXPECT_EQ(name(kPipelineAxis | kShardAxis | kTensorAxis), "pp+shard+tp");
  EXPECT_EQ(name(kAllAxes), "pp+dp+shard+cp+tp");
}

TEST(AxisSet, is_a_value) {
  EXPECT_TRUE(kDataAxes.has(kShardAxis));
  EXPECT_FALSE(kShardAxis.has(kDataAxes));
  EXPECT_TRUE(kShardAxis.meets(kInnerAxis));
  EXPECT_FALSE(kInnerAxis.has(kShardAxis));
  EXPECT_EQ(kDataAxes & (kReplicaAxis | kTensorAxis), kReplicaAxis);
  EXPECT_TRUE(kAllAxes.is_known());
  EXPECT_FALSE(AxisSet::of_bits(255).is_known());
}

struct Case {
  const char* name;
  MeshSizes mesh;
  ShardLevel level;
  const char* replicas;
  const char* model;
  const char* losses;
};

TEST(Axes, sums_run_along_those_that_the_mesh_has) {
  constexpr auto kNone = ShardLevel::none, kSharded = ShardLevel::parameters;
  const Case cases[] = {
      {"one rank", {}, kNone, "dp+shard", "none", "dp+shard"},
      {"replicas", {.dp = 4}, kNone, "dp+shard", "none", "dp+shard"},
      {"shards", {.dp = 2, .shard = 2}, kSharded, "dp", "shard", "dp+shard"},
      {"a pipeline", {.pp = 2, .dp = 2}, kNone, "dp+shard", "pp", "pp+dp+shard"},
      {"tp holds parts of the model", {.dp = 2, .tp = 2}, kNone, "dp+shard", "tp", "dp+shard"},
      {"cp holds copies, and parts of the losses", {.dp = 2, .cp = 2}, kNone, "dp+shard+cp", "none", "dp+shard+cp"},
      {"all", {.pp = 2, .dp = 2, .shard = 2, .cp = 2, .tp = 2}, kSharded, "dp+cp", "pp+shard+tp", "pp+dp+shard+cp"},
  };
  for (const Case& c : cases) {
    Program program;
    program.mesh = c.mesh;
    program.shard_level = c.level;
    program.shards = c.level == kNone ? 1 : c.mesh.shard;
    EXPECT_EQ(name(replica_axes(program)), c.replicas) << c.name;
    EXPECT_EQ(name(model_axes(program)), c.model) << c.name;
    EXPECT_EQ(name(loss_axes(program)), c.losses) << c.name;
    EXPECT_EQ(name(total_axes(program)), c.losses) << c.name;
    program.votes = 1;
    EXPECT_EQ(name(total_axes(program)), std::string(c.losses) + (c.mesh.tp > 1 ? "+tp" : "")) << c.name;
    program.votes = 0;
    program.noise_scale = true;
    EXPECT_EQ(name(total_axes(program)), std::string(c.losses) + (c.mesh.tp > 1 ? "+tp" : "")) << c.name;
    EXPECT_EQ(size_along(program, kAllAxes), c.mesh.world()) << c.name;
  }
}

}  // namespace
}  // namespace weft::axis_set_test
