#include "weft/program/passes/update.h"

namespace weft {

InstructionList update(InstructionList list, const UpdateOptions& options) {
  for (const Bucket& bucket : options.buckets) {
    list.push_back({.op = Op::update, .first = bucket.first, .last = bucket.last});
  }
  return list;
}

}  // namespace weft
