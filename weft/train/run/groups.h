// RankGroups: the groups a rank's steps use, made once. Where two axes hold the same ranks, they share one.
#pragma once

#include <map>
#include <vector>

#include "weft/comm/mesh.h"
#include "weft/program/program.h"

namespace weft {

/// The groups of one rank.
struct RankGroups {
  Group data;                 ///< ranks that read different samples
  Group replicas;             ///< ranks that hold the same part of the state
  Group shards;               ///< ranks that share one replica's state, but for the pipeline
  Group inner;                ///< those of them that keep whole weights divided from forward to backward
  Group pipeline;             ///< ranks that hold the stages of one pipeline
  Group model;                ///< pipeline and shards
  Group world;                ///< all; empty where there is no pipeline
  std::map<int, Group> tied;  ///< by block that several stages hold

  /// All groups that were made, each once, `data` first.
  std::vector<Group> all() const;

 private:
  friend RankGroups make_groups(const Mesh& mesh, const Program& program, const GroupOptions& options);
  std::vector<Group> made_;
};

/// Makes the groups of group_specs(). Collective over the world.
RankGroups make_groups(const Mesh& mesh, const Program& program, const GroupOptions& options);

}  // namespace weft
