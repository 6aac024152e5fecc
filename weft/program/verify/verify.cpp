#include "weft/program/verify/verify.h"

#include <set>
#include <utility>
#include <vector>

#include "weft/program/check_program.h"
#include "weft/program/verify/bytes_check.h"
#include "weft/program/verify/inner_check.h"
#include "weft/program/verify/list_check.h"
#include "weft/program/verify/rank_check.h"
#include "weft/program/verify/state_check.h"
#include "weft/program/verify/transfer_check.h"

namespace weft {
namespace {

// Ranks along the pipeline axis, for each distinct line.
std::vector<std::vector<int>> pipelines(const Program& program) {
  const int stride = program.world_size() / program.mesh.pp;
  std::vector<std::vector<int>> result;
  std::set<std::vector<int>> seen;
  for (int first = 0; first < stride; ++first) {
    std::vector<int> ranks, lists;
    for (int pp = 0; pp < program.mesh.pp; ++pp) {
      ranks.push_back(pp * stride + first);
      lists.push_back(program.list_of_rank[ranks.back()]);
    }
    if (seen.insert(lists).second) result.push_back(std::move(ranks));
  }
  return result;
}

}  // namespace

void verify(const Program& program) {
  check_program(program);
  if (program.mesh.pp > 1 && program.holders.empty()) {
    throw VerifyError(Defect::out_of_range, 0, "program: several pipeline ranks, but no block holders are given");
  }
  const std::vector<int> firsts = first_ranks(program);
  for (const int rank : firsts) {
    if (rank < 0) continue;
    check_list(program, rank);
    check_state(program, rank);
  }
  check_ranks(program);
  check_inner(program);
  for (const std::vector<int>& ranks : pipelines(program)) check_transfers(program, ranks);
  for (const int rank : firsts) {
    if (rank >= 0) check_bytes(program, rank);
  }
}

}  // namespace weft
