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

struct AxisSize {
  std::string name;
  int size = 1;
};

class Mesh {
 public:
  /// Throws InputError unless the sizes multiply to world.size(), naming the product and the world.
  Mesh(World world, std::vector<AxisSize> axes);

  const World& world() const { return world_; }
  const std::vector<AxisSize>& axes() const { return axes_; }
  int size(std::string_view axis) const;
  /// This rank's coordinate on the axis.
  int coordinate(std::string_view axis) const;

  Axis axis(std::string_view name) const;
  /// One axis over all the ranks that differ only in these coordinates, ordered as the mesh is.
  Axis join(const std::vector<std::string>& names) const;

  /// Collective over the world.
  Group group(const Axis& axis, const GroupOptions& options = {}) const;

 private:
  World world_;
  std::vector<AxisSize> axes_;
};

}  // namespace weft
