#include "weft/program/program.h"

#include "weft/program/check_program.h"

namespace weft {

std::string_view name(ShardLevel level) {
  switch (level) {
    case ShardLevel::none:
      return "none";
    case ShardLevel::optimizer:
      return "optimizer";
    case ShardLevel::gradients:
      return "gradients";
    case ShardLevel::parameters:
      return "parameters";
  }
  return "unknown";
}

std::vector<int> runners(const Program& program) {
  check_program(program);
  std::vector<int> result(program.num_blocks(), -1);
  const int stride = program.world_size() / program.mesh.pp;
  for (int place = 0; place < program.mesh.pp; ++place) {
    for (const Instruction& x : program.of(place * stride)) {
      if (x.op == Op::forward) result[x.first] = place;
    }
  }
  return result;
}

}  // namespace weft
