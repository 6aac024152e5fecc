#include "weft/program/passes/replicate.h"

#include "weft/program/cost.h"
#include "weft/program/edit.h"

namespace weft {

InstructionList replicate(const InstructionList& list, const ReplicateOptions& options) {
  if (options.replicas == 1) return list;
  std::vector<Insertion> insertions;
  for (const Bucket& bucket : options.buckets) {
    insertions.push_back({last_gradient_write(list, bucket.first, bucket.last, options.uses),
                          {.op = Op::reduce,
                           .lane = Lane::comm,
                           .first = bucket.first,
                           .last = bucket.last,
                           .axis = AxisName::data,
                           .wire_bytes = all_reduce_bytes(bucket.bytes, options.replicas)}});
  }
  return insert(list, insertions);
}

}  // namespace weft
