// BlockLayout: how the ranks of a block's groups share its work. Free of LibTorch.
#pragma once

#include <cstdint>

#include "weft/base/enum_names.h"

namespace weft {

/// How ranks attend over a sequence that they share (nn/attention/over_ranks.h).
enum class ContextMethod : uint8_t {
  automatic,   ///< whichever sends fewer bytes
  ring,        ///< keys and values circulate
  all_to_all,  ///< each rank takes all tokens of some heads
};
/// Names of the methods in recipes.
inline constexpr EnumNames<ContextMethod, 3> kContextMethods("auto", "ring", "all_to_all");

/// Settings that hold for every block of a model and every step of a program.
struct BlockLayout {
  bool recompute_parts = false;    ///< blocks that can keep less and recompute the rest do so (nn/functional/recompute.h)
  int batch_pieces = 1;            ///< sums over samples treat a micro-batch as this many equal parts (nn/ordered_sums.h)
  bool sequence_parallel = false;  ///< between split layers each rank of tp has only its part of the tokens (dim 1)
  /// With sequence_parallel: backward leaves each rank of tp the gradient of its own tokens for a parameter that is not split,
  /// and the step sums it over tp once (nn/tensor_parallel/whole_value.h). Otherwise every backward does.
  bool partial_gradients = false;
  /// Number of row chunks of a split layer's product: one chunk is summed over tp while the next is multiplied.
  int tp_chunks = 1;
  int64_t loss_chunk = 0;  ///< a head makes logits and losses for this many tokens at a time (nn/loss/language_head.h); 0: all
  ContextMethod attention_over = ContextMethod::automatic;  ///< with cp: how to attend

  auto operator<=>(const BlockLayout&) const = default;  ///< compares member by member
};

}  // namespace weft
