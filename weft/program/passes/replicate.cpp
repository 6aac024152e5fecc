#include "weft/program/passes/replicate.h"

#include <utility>
#include <vector>

#include "weft/program/cost.h"
#include "weft/program/edit.h"

namespace weft {

InstructionList replicate(InstructionList list, const ReplicateOptions& options) {
  if (options.replicas == 1) return list;
  const Positions writes = gradient_writes(list, options.uses);
  std::vector<Insertion> insertions;
  insertions.reserve(options.buckets.size());
  for (const Bucket& bucket : options.buckets) {
    insertions.push_back({last_position(writes, bucket.first, bucket.last),
                          {.op = Op::reduce,
                           .lane = Lane::comm,
                           .first = bucket.first,
                           .last = bucket.last,
                           .axes = options.axes,
                           .wire_bytes = all_reduce_bytes(bucket.bytes, options.replicas)}});
  }
  return insert(std::move(list), std::move(insertions));
}

}  // namespace weft
