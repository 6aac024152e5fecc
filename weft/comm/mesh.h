// Mesh: the ranks of a World arranged on named axes, outermost first; the last axis runs over neighbouring ranks.
//
// An Axis is one line of that arrangement through this rank, or several joined. Making a Mesh does not communicate; group()
// does, and every rank of the world must call it for the same axes in the same order. Axes that were not named have size one.
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
  int size = 1;      ///< ranks along it
};

/// The ranks of a World arranged on named axes.
class Mesh {
 public:
  /// Arranges the ranks, outermost axis first. Throws InputError unless the sizes multiply to world.size(), naming the product
  /// and the world, and for a name that is empty, comes twice or holds a '+'.
  Mesh(World world, std::vector<AxisSize> axes);

  const World& world() const { return world_; }                ///< whose ranks they are
  const std::vector<AxisSize>& axes() const { return axes_; }  ///< outermost first
  /// Ranks along the axis; 1 for one that was not named.
  int size(std::string_view axis) const;
  /// This rank's coordinate on the axis.
  int coordinate(std::string_view axis) const;

  /// The line of ranks along the axis that this rank is on.
  Axis axis(std::string_view name) const;
  /// One axis over all the ranks that differ only in these coordinates, ordered as the mesh is.
  Axis join(const std::vector<std::string>& names) const;

  /// Connects the ranks of `axis`. Collective over the world. Throws InputError for a back end that cannot serve the axis and
  /// CommError when ranks do not come in time, or call this for other axes or options.
  Group group(const Axis& axis, const GroupOptions& options = {}) const;

 private:
  World world_;
  std::vector<AxisSize> axes_;
};

}  // namespace weft
