// AxisGroups: maps a set of axes to its process group.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <map>
#include <utility>
#include <vector>

#include "weft/comm/group.h"
#include "weft/program/axis_set.h"

namespace weft {

/// Process groups of a rank, by axes. Axes without a group get a group of this rank alone.
class AxisGroups {
 public:
  AxisGroups() = default;
  AxisGroups(std::initializer_list<std::pair<const AxisSet, Group>> groups) {  ///< implicit
    for (const auto& [axes, group] : groups) set(axes, group);
  }
  /// Groups of ranks that compute on `device`.
  explicit AxisGroups(at::Device device) : alone_(device) {}

  /// Sets the group of the ranks along the axes.
  void set(AxisSet axes, Group group) { put(by_axes_, axes, std::move(group)); }
  /// Sets the group of the pipeline ranks that hold a block (tied weights).
  void set_tied(int block, Group group) { put(tied_, block, std::move(group)); }
  /// Sets a separate group of the same ranks for gradient sums.
  void set_gradients(AxisSet axes, Group group) { put(gradients_, axes, std::move(group)); }
  void set_tied_gradients(int block, Group group) { put(tied_gradients_, block, std::move(group)); }

  /// The group along the axes.
  const Group& along(AxisSet axes) const {
    const auto found = by_axes_.find(axes);
    return found == by_axes_.end() ? alone_ : found->second;
  }
  /// The ranks that hold the block; this rank alone if no other does.
  const Group& tied(int block) const {
    const auto found = tied_.find(block);
    return found == tied_.end() ? alone_ : found->second;
  }
  /// The group that gradients are summed over: along(axes) unless another was set.
  const Group& gradients_along(AxisSet axes) const {
    const auto found = gradients_.find(axes);
    return found == gradients_.end() ? along(axes) : found->second;
  }
  const Group& tied_gradients(int block) const {
    const auto found = tied_gradients_.find(block);
    return found == tied_gradients_.end() ? tied(block) : found->second;
  }

  /// All groups that were set, once each, in that order.
  const std::vector<Group>& all() const { return all_; }

 private:
  template <class Key>
  void put(std::map<Key, Group>& by, Key key, Group group) {
    const auto is_it = [&group](const Group& other) { return &other.traffic() == &group.traffic(); };
    if (std::none_of(all_.begin(), all_.end(), is_it)) all_.push_back(group);
    by.insert_or_assign(key, std::move(group));
  }

  Group alone_;
  std::map<AxisSet, Group> by_axes_, gradients_;
  std::map<int, Group> tied_, tied_gradients_;
  std::vector<Group> all_;
};

}  // namespace weft
