// BlockLayout: how the ranks that meet inside a block share its work. Free of LibTorch.
#pragma once

#include <cstdint>

#include "weft/base/enum_names.h"

namespace weft {

/// How ranks attend over a sequence that they share (nn/attention/over_ranks.h).
enum class ContextMethod : uint8_t {
  automatic,   ///< as sends fewer bytes
  ring,        ///< keys and values go round
  all_to_all,  ///< each rank takes all tokens of a part of the heads
};
/// The words for them, as recipes have them.
inline constexpr EnumNames<ContextMethod, 3> kContextMethods("auto", "ring", "all_to_all");

/// What holds for all blocks of a model and all steps of a program.
struct BlockLayout {
  bool recompute_parts = false;    ///< blocks that can, keep less for backward and compute it again (nn/functional/recompute.h)
  int batch_pieces = 1;            ///< equal parts of a micro-batch that sums over samples are made of (nn/ordered_sums.h)
  bool sequence_parallel = false;  ///< between split layers each rank of tp has its part of the tokens (dim 1) alone
  /// Chunks of its rows in which the sum of a split layer's products travels over tp while the next chunk is multiplied.
  int tp_chunks = 1;
  ContextMethod attention_over = ContextMethod::automatic;  ///< with cp

  auto operator<=>(const BlockLayout&) const = default;  ///< member by member
};

}  // namespace weft
