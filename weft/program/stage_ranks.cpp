#include "weft/program/stage_ranks.h"

#include "weft/program/check_program.h"

namespace weft {

std::vector<int> stage_rank_of_block(const Program& program) {
  check_program(program);
  if (program.master) return std::vector<int>(program.num_blocks(), 0);
  std::vector<int> result(program.num_blocks(), -1);
  const int stride = program.world_size() / program.mesh.pp;
  for (int pp = 0; pp < program.mesh.pp; ++pp) {
    for (const Instruction& x : program.of(pp * stride)) {
      if (x.op == Op::forward) result[x.first] = pp;
    }
  }
  return result;
}

}  // namespace weft
