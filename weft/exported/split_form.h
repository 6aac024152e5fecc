// SplitForm: how a value of an exported graph is divided over the ranks of tp, followed from dimension to dimension.
//
// Layers divide a dimension; views, transpositions and products carry the division on. Numbers of the example's samples stand
// for any: forms are arithmetic on the shapes in the file.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace weft {

/// A dimension of equal segments, of each of which every rank has an equal part.
struct SplitForm {
  int64_t dim = 0;
  int64_t segments = 1;
  int source = -1;         ///< which layers divided it (SplitSources)
  bool is_padded = false;  ///< classes, padded at the end: only a loss over parts takes them
};

/// Shape of a whole value.
using WholeShape = std::vector<int64_t>;

/// The form of the same elements, in order, in another shape; empty if parts would not stay together there.
std::optional<SplitForm> reshaped(const SplitForm& form, const WholeShape& from, const WholeShape& to);

/// Layers whose parts meet, and what must divide by the number of ranks for all of them.
class SplitSources {
 public:
  /// A new layer, of whose positions `divisible` are in a segment.
  int add(int64_t divisible);
  /// The layers' parts meet in one operator. Returns one that stands for both.
  int join(int a, int b);
  bool are_joined(int a, int b) const { return root(a) == root(b); }
  /// A value whose segments have `divisible` positions comes from it.
  void divide(int source, int64_t divisible);
  /// Largest number of ranks; others divide it.
  int64_t most_ranks(int source) const { return most_[static_cast<size_t>(root(source))]; }

 private:
  int root(int source) const;

  std::vector<int> parents_;
  std::vector<int64_t> most_;
};

}  // namespace weft
