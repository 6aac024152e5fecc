// ContextMethod: how ranks attend over a sequence that they share (nn/attention/over_ranks.h). Free of LibTorch.
#pragma once

#include <cstdint>

#include "weft/base/enum_names.h"

namespace weft {

/// How ranks attend over a sequence that they share.
enum class ContextMethod : uint8_t {
  automatic,   ///< as sends fewer bytes
  ring,        ///< keys and values go round
  all_to_all,  ///< each rank takes all tokens of a part of the heads
};
/// The words for them, as recipes have them.
inline constexpr EnumNames<ContextMethod, 3> kContextMethods("auto", "ring", "all_to_all");

}  // namespace weft
