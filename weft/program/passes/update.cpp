#include "weft/program/passes/update.h"

#include "weft/program/cost.h"
#include "weft/program/edit.h"

namespace weft {
namespace {

constexpr int64_t kLossBytes = 16;

}  // namespace

InstructionList update(const InstructionList& list, const UpdateOptions& options) {
  int last_loss = -1;
  int64_t losses = 0;
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    if (list[i].op != Op::loss) continue;
    last_loss = i;
    ++losses;
  }
  const int64_t table_bytes = kLossBytes * losses * options.data_ranks;
  const Instruction reduce_loss = {.op = Op::reduce_loss,
                                   .lane = Lane::comm,
                                   .axis = AxisName::data,
                                   .wire_bytes = all_reduce_bytes(table_bytes, options.data_ranks)};
  InstructionList result = insert(list, {{last_loss, reduce_loss}});
  for (const Bucket& bucket : options.buckets) {
    result.push_back({.op = Op::update, .first = bucket.first, .last = bucket.last});
  }
  return result;
}

}  // namespace weft
