#include "weft/program/ranks.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/program/toy.h"
#include "weft/base/error.h"
#include "weft/program/build/build.h"

namespace weft::ranks_test {
namespace {

using List = std::vector<int>;

// One empty list per pipeline rank.
Program on_mesh(const MeshSizes& mesh) {
  Program program = toy_program(toy_model(mesh.pp));
  program.mesh = mesh;
  program.lists.resize(mesh.pp);
  for (int rank = 0; rank < mesh.world(); ++rank) program.list_of_rank.push_back(rank / (mesh.world() / mesh.pp));
  return program;
}

TEST(Ranks, places_are_numbered_with_pp_outermost) {
  const Ranks ranks(on_mesh({.pp = 2, .dp = 3, .shard = 4, .tp = 5}));
  const MeshCoordinate place = ranks.coordinate(60 + 20 + 3 * 5 + 4);
  EXPECT_EQ(List({place.pp, place.dp, place.shard, place.tp}), List({1, 1, 3, 4}));
  for (int rank = 0; rank < 120; ++rank) {
    EXPECT_EQ(ranks.rank_at(ranks.coordinate(rank)), rank);
    EXPECT_EQ(ranks.rank_of(ranks.column_of(rank), ranks.coordinate(rank).pp), rank);
  }
}

TEST(Ranks, members_of_every_axis) {
  Program program = on_mesh({.pp = 2, .dp = 2, .shard = 4, .tp = 2});  // 32 ranks, tp neighbours, 16 per pipeline rank
  program.inner_shards = 2;
  program.holders = {{0, 1}, {1}};
  const Ranks ranks(program);
  const int rank = 16 + 8 + 2 * 2 + 1;  // pp 1, dp 1, shard 2, tp 1
  EXPECT_EQ(ranks.members(rank, kNoAxes), List({29}));
  EXPECT_EQ(ranks.members(rank, kReplicaAxis), List({21, 29}));
  EXPECT_EQ(ranks.members(rank, kShardAxis), List({25, 27, 29, 31}));
  EXPECT_EQ(ranks.members(rank, kInnerAxis), List({29, 31}));
  EXPECT_EQ(ranks.members(rank, kDataAxes), List({17, 19, 21, 23, 25, 27, 29, 31}));
  EXPECT_EQ(ranks.members(rank, kPipelineAxis | kShardAxis), List({9, 11, 13, 15, 25, 27, 29, 31}));
  EXPECT_EQ(ranks.members(rank, kPipelineAxis, 0), List({13, 29}));
  EXPECT_EQ(ranks.members(rank, kPipelineAxis, 1), List({29}));
  EXPECT_EQ(ranks.members(rank, kAllAxes).size(), 32u);
  EXPECT_THROW(ranks.members(rank, kPipelineAxis, 2), InputError);
}

TEST(Ranks, members_of_members_are_the_same) {
  Program program = on_mesh({.pp = 2, .dp = 3, .shard = 4, .tp = 2});
  program.inner_shards = 2;
  program.holders = {{0, 1}, {1}};
  const Ranks ranks(program);
  for (AxisSet axes : {kReplicaAxis, kShardAxis, kInnerAxis, kDataAxes, kPipelineAxis, kPipelineAxis | kShardAxis}) {
    for (int rank = 0; rank < program.world_size(); ++rank) {
      const List line = ranks.members(rank, axes);
      EXPECT_TRUE(std::is_sorted(line.begin(), line.end()));
      for (int other : line) EXPECT_EQ(ranks.members(other, axes), line) << name(axes);
    }
  }
}

TEST(Ranks, those_of_a_program_that_was_built) {
  const Ranks ranks(build_program(toy_model(2), {.dp = 3, .shard = 2, .shard_level = ShardLevel::optimizer}));
  EXPECT_EQ(ranks.mesh().pp, 1);
  EXPECT_EQ(ranks.members(3, kReplicaAxis), List({1, 3, 5}));
  EXPECT_EQ(ranks.members(3, kShardAxis), List({2, 3}));
  Program wrong = on_mesh({.pp = 2, .dp = 2});
  wrong.mesh.tp = 2;
  EXPECT_THROW(Ranks{wrong}, InputError);
}

TEST(ColumnClasses, copies_are_one_class) {
  const Program program = on_mesh({.pp = 4, .dp = 8, .shard = 2, .tp = 2});
  const ColumnClasses classes = column_classes(program, Ranks(program));
  EXPECT_EQ(classes.count(), 1);
  EXPECT_EQ(classes.first, List({0}));
  EXPECT_EQ(classes.size, List({32}));
}

TEST(ColumnClasses, a_column_is_known_by_whom_it_meets) {
  Program program = on_mesh({.dp = 3, .shard = 3});
  program.lists.resize(2);
  program.list_of_rank[4] = 1;  // dp 1, shard 1
  const ColumnClasses classes = column_classes(program, Ranks(program));
  // Columns that meet the odd one over the shards, over the replicas, and over neither.
  EXPECT_EQ(classes.of_column, List({0, 1, 0, 2, 3, 2, 0, 1, 0}));
  EXPECT_EQ(classes.first, List({0, 1, 3, 4}));
  EXPECT_EQ(classes.size, List({4, 2, 2, 1}));
}

TEST(ColumnClasses, any_stage_may_differ) {
  Program program = on_mesh({.pp = 2, .dp = 4});
  program.lists.resize(3);
  program.list_of_rank[4 + 3] = 2;
  const ColumnClasses classes = column_classes(program, Ranks(program));
  EXPECT_EQ(classes.of_column, List({0, 0, 0, 1}));
}

}  // namespace
}  // namespace weft::ranks_test
