// Ranks: mesh places of a program's ranks, the members of their groups, and classes of identical ranks.
//
// A column is one pipeline: the ranks that differ only in their place on the pipeline axis. Thousands of ranks are mostly
// copies of a few columns, so whole-program passes (verify, simulate) process one column of each class.
#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

/// A rank's place on each axis, from 0.
struct MeshCoordinate {
  int pp = 0;     ///< selects the stages that it runs
  int dp = 0;     ///< selects its replica
  int shard = 0;  ///< selects the part of the replica's state that it owns
  int cp = 0;     ///< selects the part of each sequence that it computes
  int tp = 0;     ///< selects the part of each block's layers that it computes
};

/// The ranks of a program on their mesh.
class Ranks {
 public:
  /// Keeps no reference to the program. Throws InputError if the mesh size differs from the number of ranks with lists.
  explicit Ranks(const Program& program);

  const MeshSizes& mesh() const { return mesh_; }  ///< mesh of the program
  MeshCoordinate coordinate(int rank) const;       ///< places of a world rank
  int rank_at(const MeshCoordinate& at) const;     ///< the world rank at these places

  /// World ranks in the group of `rank` along the axes, ascending, `rank` included. If `block` is not -1, only pipeline ranks
  /// that hold it (tied_block()). Throws InputError for a block that the program does not have.
  std::vector<int> members(int rank, AxisSet axes, int block = -1) const;

  int num_columns() const { return mesh_.world() / mesh_.pp; }    ///< pipelines
  int column_of(int rank) const { return rank % num_columns(); }  ///< the pipeline of a world rank
  /// World rank of a column at this place on the pipeline axis.
  int rank_of(int column, int pp) const { return pp * num_columns() + column; }

 private:
  std::vector<int> holders_of(int rank, int block) const;

  MeshSizes mesh_;
  int inner_shards_ = 1;
  int num_blocks_ = 0;
  std::vector<std::vector<int>> holders_;
};

/// Classes of identical columns.
struct ColumnClasses {
  std::vector<int> of_column;                                   ///< class of each column, numbered by first appearance
  std::vector<int> first;                                       ///< the first column of each class
  std::vector<int> size;                                        ///< number of columns in each class
  int count() const { return static_cast<int>(first.size()); }  ///< number of classes
};

/// Returns the classes of a program's columns. Columns are in one class if they run the same lists and, on every axis, share
/// groups with the same classes: they behave identically throughout a step. This is the coarsest such partition, found by
/// colour refinement; time is at worst proportional to columns x classes.
ColumnClasses column_classes(const Program& program, const Ranks& ranks);

}  // namespace weft
