#include "weft/train/run/model_flops.h"

#include <set>
#include <utility>

namespace weft {

double model_flops(const Program& program, int pp) {
  const int columns = program.world_size() / pp;  // pp is outermost
  double all = 0.0;
  for (int place = 0; place < pp; ++place) {
    std::set<std::pair<int, int>> seen;  // blocks and micro-batches whose forward has run
    for (const Instruction& x : program.of(place * columns)) {
      if (x.op != Op::forward || seen.emplace(x.first, x.micro).second) all += x.flops * columns;
    }
  }
  return all;
}

}  // namespace weft
