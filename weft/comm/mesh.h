// Mesh: the ranks of a World arranged on named axes, outermost first; the last axis runs over neighbouring ranks.
//
// An Axis is one line of that arrangement through this rank, or several joined. Creating a Mesh does not communicate; group()
// does, and every rank of the world must call it for the same axes in the same order. Unnamed axes have size one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/comm/call/axis.h"
#include "weft/comm/group.h"
#include "weft/comm/world.h"

namespace weft {

/// A named axis of a mesh.
struct AxisSize {
  std::string name;  ///< unique in its mesh, without '+'
  int size = 1;      ///< number of ranks along it
};

/// The ranks of a World arranged on named axes.
class Mesh {
 public:
  /// Arranges the ranks, outermost axis first. Throws InputError if the product of the sizes is not world.size() (the text
  /// gives both), or if a name is empty, repeated or contains '+'.
  Mesh(World world, std::vector<AxisSize> axes);

  const World& world() const { return world_; }                ///< the arranged ranks
  const std::vector<AxisSize>& axes() const { return axes_; }  ///< outermost first
  /// Number of ranks along the axis; 1 for an unnamed axis.
  int size(std::string_view axis) const;
  /// This rank's coordinate on the axis.
  int coordinate(std::string_view axis) const;

  /// Returns the line of ranks along the axis through this rank.
  Axis axis(std::string_view name) const;
  /// Returns one axis over all ranks that differ only in these coordinates, in mesh order.
  Axis join(const std::vector<std::string>& names) const;

  /// Connects the ranks of `axis`. Collective over the world. Throws InputError for a back end that does not support the axis,
  /// and CommError if ranks do not arrive in time or call this with other axes or options.
  Group group(const Axis& axis, const GroupOptions& options = {}) const;

 private:
  World world_;
  std::vector<AxisSize> axes_;
};

}  // namespace weft
