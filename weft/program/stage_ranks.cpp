#include "weft/program/stage_ranks.h"

#include "weft/program/check_program.h"

namespace weft {

std::vector<int> stage_rank_of_block(const Program& program) {
  check_program(program);
  std::vector<int> result(program.num_blocks(), -1);
  const int stride = program.world_size() / program.mesh.pp;
  for (int pp = program.mesh.pp - 1; pp >= 0; --pp) {
    for (const Instruction& x : program.of(pp * stride)) {
      if (x.op == Op::forward) result[x.first] = pp;
    }
  }
  return result;
}

}  // namespace weft
