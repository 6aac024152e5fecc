#include "weft/program/passes/update.h"

namespace weft {

InstructionList update(const InstructionList& list, const UpdateOptions& options) {
  InstructionList result = list;
  for (const Bucket& bucket : options.buckets) {
    result.push_back({.op = Op::update, .first = bucket.first, .last = bucket.last});
  }
  return result;
}

}  // namespace weft
