// ValueFlow: which tensors of an exported graph live where, and which share memory.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "weft/exported/graph.h"

namespace weft {

struct BoundNode;

/// Running means and variances that the graph's norms update.
std::set<std::string> running_statistics(const ExportedGraph& graph);

/// Made once for a graph, which must outlive it.
class ValueFlow {
 public:
  ValueFlow(const ExportedGraph& graph, const std::vector<BoundNode>& bound);

  /// Tensors made before the node, or given, that it or a later one reads, or the caller gets; in the order they are made. Then
  /// buffers kept with the weights that nodes before it read too: the block that describes one passes it on.
  std::vector<std::string> live_at(size_t node) const;
  /// Those that nodes [first, last) change in place, directly or through a view.
  std::set<std::string> changed(size_t first, size_t last) const;
  /// A value that nodes [first, last) change while its memory also reaches them under another name, so that a cut before
  /// `first` would lose the change; empty if there is none.
  std::string lost_change(size_t first, size_t last) const;
  /// Whether any node writes into the value's memory.
  bool is_changed(const std::string& value) const { return written_.count(root(value)) > 0; }
  /// Index of the node that makes the value; -1 for inputs, and for what the program holds.
  int maker(const std::string& value) const;

 private:
  std::string root(const std::string& value) const;
  std::set<std::string> changed_roots(size_t first, size_t last) const;
  void check_replaced(size_t node) const;

  const ExportedGraph& graph_;
  const std::vector<BoundNode>& bound_;
  std::set<std::string> statistics_;
  std::map<std::string, int> makers_;                       ///< also of numbers
  std::map<std::string, size_t> first_reads_, last_reads_;  ///< of tensors
  std::set<std::string> written_;                           ///< roots that any node writes into
  std::map<std::string, std::string> roots_;                ///< by view: the value whose memory it shares
};

}  // namespace weft
