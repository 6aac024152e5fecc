#include "weft/program/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>

#include "weft/base/error.h"

namespace weft {
namespace {

const MeshSizes& checked(const MeshSizes& mesh, int world) {
  int64_t ranks = 1;
  for (const int size : {mesh.pp, mesh.dp, mesh.shard, mesh.cp, mesh.tp}) {
    ranks = size < 1 ? 0 : std::min<int64_t>(ranks * size, INT32_MAX);
  }
  if (ranks != world || world < 1) {
    throw InputError(
        fmt::format("program: the mesh pp {} x dp {} x shard {} x cp {} x tp {} has {} ranks, but lists are given for {}",
                    mesh.pp, mesh.dp, mesh.shard, mesh.cp, mesh.tp, ranks, world));
  }
  return mesh;
}

// Numbers values by first appearance.
template <typename Key>
class Numbering {
 public:
  int of(const Key& key) { return numbers_.try_emplace(key, static_cast<int>(numbers_.size())).first->second; }
  int count() const { return static_cast<int>(numbers_.size()); }

 private:
  std::map<Key, int> numbers_;
};

std::vector<int> colours_by_lists(const Program& program, const Ranks& ranks, int& count) {
  Numbering<std::vector<int>> numbering;
  std::vector<int> colours(ranks.num_columns());
  for (int column = 0; column < ranks.num_columns(); ++column) {
    std::vector<int> lists;
    lists.reserve(ranks.mesh().pp);
    for (int pp = 0; pp < ranks.mesh().pp; ++pp) lists.push_back(program.list_of_rank[ranks.rank_of(column, pp)]);
    colours[column] = numbering.of(lists);
  }
  count = numbering.count();
  return colours;
}

// For each column, a number for the set of colours it meets on the axis.
std::vector<int> colours_met(const Ranks& ranks, AxisSet axes, const std::vector<int>& colours) {
  Numbering<std::vector<int>> numbering;
  std::vector<int> met(colours.size(), -1);
  for (int column = 0; column < ranks.num_columns(); ++column) {
    if (met[column] >= 0) continue;
    const std::vector<int> line = ranks.members(column, axes);
    std::vector<int> set;
    set.reserve(line.size());
    for (int rank : line) set.push_back(colours[ranks.column_of(rank)]);
    std::sort(set.begin(), set.end());
    set.erase(std::unique(set.begin(), set.end()), set.end());
    const int number = numbering.of(set);
    for (int rank : line) met[ranks.column_of(rank)] = number;
  }
  return met;
}

// Gives separate colours to columns of one colour that meet different sets of colours.
std::vector<int> refined(const Ranks& ranks, const std::vector<int>& colours, int& count) {
  std::vector<std::vector<int>> signatures;
  signatures.reserve(colours.size());
  for (int colour : colours) signatures.push_back({colour});
  for (const AxisSet axes : {kReplicaAxis, kShardAxis, kInnerAxis, kDataAxes, kContextAxis, kTensorAxis,
                             kReplicaAxis | kContextAxis, kDataAxes | kContextAxis, kShardAxis | kTensorAxis}) {
    const std::vector<int> met = colours_met(ranks, axes, colours);
    for (size_t column = 0; column < met.size(); ++column) signatures[column].push_back(met[column]);
  }
  Numbering<std::vector<int>> numbering;
  std::vector<int> result;
  result.reserve(colours.size());
  for (const std::vector<int>& signature : signatures) result.push_back(numbering.of(signature));
  count = numbering.count();
  return result;
}

}  // namespace

Ranks::Ranks(const Program& program)
    : mesh_(checked(program.mesh, program.world_size())),
      inner_shards_(program.inner_shards),
      num_blocks_(program.num_blocks()),
      holders_(program.holders) {}

MeshCoordinate Ranks::coordinate(int rank) const {
  MeshCoordinate at;
  at.tp = rank % mesh_.tp;
  rank /= mesh_.tp;
  at.cp = rank % mesh_.cp;
  rank /= mesh_.cp;
  at.shard = rank % mesh_.shard;
  rank /= mesh_.shard;
  at.dp = rank % mesh_.dp;
  at.pp = rank / mesh_.dp;
  return at;
}

int Ranks::rank_at(const MeshCoordinate& at) const {
  return (((at.pp * mesh_.dp + at.dp) * mesh_.shard + at.shard) * mesh_.cp + at.cp) * mesh_.tp + at.tp;
}

std::vector<int> Ranks::members(int rank, AxisSet axes, int block) const {
  if (block >= 0) return holders_of(rank, block);
  const MeshCoordinate own = coordinate(rank);
  const int group = own.shard / inner_shards_;
  const auto from = [&](AxisSet axis, int at) { return axes.has(axis) ? 0 : at; };
  const auto to = [&](AxisSet axis, int at, int size) { return axes.has(axis) ? size : at + 1; };
  const int first_outer = from(MeshAxis::outer, group), outers = mesh_.shard / inner_shards_;
  const int first_inner = from(MeshAxis::inner, own.shard % inner_shards_);
  std::vector<int> result;
  for (int pp = from(kPipelineAxis, own.pp); pp < to(kPipelineAxis, own.pp, mesh_.pp); ++pp) {
    for (int dp = from(kReplicaAxis, own.dp); dp < to(kReplicaAxis, own.dp, mesh_.dp); ++dp) {
      for (int outer = first_outer; outer < to(MeshAxis::outer, group, outers); ++outer) {
        for (int inner = first_inner; inner < to(MeshAxis::inner, own.shard % inner_shards_, inner_shards_); ++inner) {
          for (int cp = from(kContextAxis, own.cp); cp < to(kContextAxis, own.cp, mesh_.cp); ++cp) {
            for (int tp = from(kTensorAxis, own.tp); tp < to(kTensorAxis, own.tp, mesh_.tp); ++tp) {
              result.push_back(rank_at({pp, dp, outer * inner_shards_ + inner, cp, tp}));
            }
          }
        }
      }
    }
  }
  return result;
}

std::vector<int> Ranks::holders_of(int rank, int block) const {
  if (block >= num_blocks_) {
    throw InputError(fmt::format("block {} is not in the program: it has blocks 0 to {}", block, num_blocks_ - 1));
  }
  if (holders_.empty()) return {rank};
  std::vector<int> result;
  for (const int pp : holders_[block]) result.push_back(rank_of(column_of(rank), pp));
  std::sort(result.begin(), result.end());
  return result;
}

ColumnClasses column_classes(const Program& program, const Ranks& ranks) {
  int count = 0;
  std::vector<int> colours = colours_by_lists(program, ranks, count);
  for (int before = 0; count > 1 && count != before;) {
    before = count;
    colours = refined(ranks, colours, count);
  }
  ColumnClasses classes{.of_column = colours, .first = std::vector<int>(count, -1), .size = std::vector<int>(count, 0)};
  for (int column = ranks.num_columns() - 1; column >= 0; --column) {
    classes.first[colours[column]] = column;
    ++classes.size[colours[column]];
  }
  return classes;
}

}  // namespace weft
