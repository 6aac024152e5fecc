// DrawOptions: how much of a program draw() shows.
#pragma once

namespace weft {

/// How much draw() shows.
struct DrawOptions {
  int max_ranks = 8;           ///< distinct lists drawn at most; a pipeline has a row a list, and at least 16
  int width = 100;             ///< columns, at least 40
  int ranks_per_host = 0;      ///< tells what crosses hosts; 0: all ranks are on one
  bool narrow_across = false;  ///< sums of gradients in float32 cross them in bfloat16
};

}  // namespace weft
