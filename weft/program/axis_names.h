// Names of mesh axes, as in the mesh, in recipes (layout.pp) and in printed text.
#pragma once

#include <array>

namespace weft {

/// All axes, outermost first.
inline constexpr std::array<const char*, 5> kAxisNames = {"pp", "dp", "shard", "cp", "tp"};

}  // namespace weft
