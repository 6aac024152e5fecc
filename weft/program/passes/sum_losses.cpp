#include "weft/program/passes/sum_losses.h"

#include <utility>

#include "weft/base/exact_sum.h"
#include "weft/program/axes.h"
#include "weft/program/cost.h"
#include "weft/program/edit.h"

namespace weft {
namespace {

constexpr int64_t kLossBytes = 24;
constexpr int64_t kFlagBytes = sizeof(double), kVoteBytes = sizeof(double);
constexpr int64_t kSquaresBytes = (ExactSum::kWords + 1) * sizeof(double);

}  // namespace

InstructionList sum_losses(InstructionList list, const Program& program) {
  const bool alone = program.mesh.pp == 1, comes_late = program.flagged > 0 || program.votes > 0;
  int after = static_cast<int>(list.size()) - 1;
  for (int i = 0; i < static_cast<int>(list.size()) && alone; ++i) {
    if (list[i].op == Op::loss || list[i].op == Op::squares || (comes_late && adds_gradients(list[i].op))) after = i;
  }
  const AxisSet axes = total_axes(program);
  const int64_t table_bytes = kLossBytes * program.micro_batches * program.mesh.data() +
                              (program.noise_scale ? kSquaresBytes : 0) + kFlagBytes * program.flagged +
                              kVoteBytes * program.votes;
  return insert(std::move(list), {{after,
                                   {.op = Op::reduce_loss,
                                    .lane = Lane::comm,
                                    .axes = axes,
                                    .wire_bytes = all_reduce_bytes(table_bytes, size_along(program, axes))}}});
}

}  // namespace weft
