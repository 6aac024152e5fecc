// DrawOptions: extent of draw()'s output.
#pragma once

namespace weft {

/// Extent of draw()'s output.
struct DrawOptions {
  int max_ranks = 8;           ///< most distinct lists drawn; for the rows of a pipeline chart, at least 16
  int width = 100;             ///< columns, at least 40
  int ranks_per_host = 0;      ///< used to show traffic between hosts; 0: one host
  bool narrow_across = false;  ///< float32 gradient sums cross hosts in bfloat16
};

}  // namespace weft
