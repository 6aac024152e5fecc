// What the axes of a mesh are called: in the mesh, in recipes (layout.pp) and where text names them.
#pragma once

#include <array>

namespace weft {

/// All, outermost first.
inline constexpr std::array<const char*, 5> kAxisNames = {"pp", "dp", "shard", "cp", "tp"};

}  // namespace weft
