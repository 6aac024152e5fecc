// Ranks: where each rank of a program stands on the mesh, which ranks meet on an axis, and which ranks do the same.
//
// A column is one pipeline: the ranks that differ only in their place on the pipeline axis. Thousands of ranks are mostly
// copies of a few columns, so what looks at a whole program (verify, simulate) looks at one column of each class.
#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

/// A rank's place on each axis, from 0.
struct MeshCoordinate {
  int pp = 0;     ///< which stages it runs
  int dp = 0;     ///< which replica it belongs to
  int shard = 0;  ///< which part of the replica's state it owns
  int cp = 0;     ///< which part of each sequence it computes
  int tp = 0;     ///< which part of each block's layers it computes
};

/// The ranks of a program on their mesh.
class Ranks {
 public:
  /// Keeps no reference to the program. Throws InputError when its mesh does not have as many ranks as have lists.
  explicit Ranks(const Program& program);

  const MeshSizes& mesh() const { return mesh_; }  ///< the program's
  MeshCoordinate coordinate(int rank) const;       ///< of a world rank
  int rank_at(const MeshCoordinate& at) const;     ///< the world rank at these places

  /// World ranks that meet `rank` along the axes, ascending, itself included. Of pipeline ranks only those that hold `block`
  /// (tied_block()), where it is not -1. Throws InputError for a block that the program does not have.
  std::vector<int> members(int rank, AxisSet axes, int block = -1) const;

  int num_columns() const { return mesh_.world() / mesh_.pp; }    ///< pipelines
  int column_of(int rank) const { return rank % num_columns(); }  ///< the pipeline of a world rank
  /// The rank of a column at this place on the pipeline axis.
  int rank_of(int column, int pp) const { return pp * num_columns() + column; }

 private:
  std::vector<int> holders_of(int rank, int block) const;

  MeshSizes mesh_;
  int inner_shards_ = 1;
  int num_blocks_ = 0;
  std::vector<std::vector<int>> holders_;
};

/// Which columns do the same.
struct ColumnClasses {
  std::vector<int> of_column;                                   ///< class of each column, numbered by first appearance
  std::vector<int> first;                                       ///< the first column of each class
  std::vector<int> size;                                        ///< columns in it
  int count() const { return static_cast<int>(first.size()); }  ///< classes
};

/// The classes of a program's columns. Columns are of one class when they run the same lists and, on every axis, meet the same
/// classes: they do the same at every moment of a step. (The coarsest such partition, by colour refinement: time grows with
/// columns x classes at worst.)
ColumnClasses column_classes(const Program& program, const Ranks& ranks);

}  // namespace weft
