// CallRecord: a call as plain bytes, for the ranks of a group to hold against each other before any data moves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "weft/comm/call/call.h"

namespace weft {

constexpr size_t kNameBytes = 128;

struct alignas(64) CallRecord {
  uint64_t number = 0;     ///< of the call on this group
  uint64_t what_hash = 0;  ///< of the whole name, which may be cut below
  int64_t numel = 0;
  int64_t offset = 0;   ///< shm: of the data in the registered buffer
  int32_t buffer = -1;  ///< shm: registered buffer that holds the data; -1: staged
  int32_t root = -1;
  int32_t pid = 0;  ///< shm, allocate: where the memory is to be opened
  int32_t fd = -1;
  Operation operation = Operation::none;
  ReduceOp reduce = ReduceOp::sum;
  at::ScalarType dtype = at::kByte;
  char what[kNameBytes] = {};
};

void write_record(CallRecord& record, const Call& call, uint64_t number);
/// The call of a record, whose name stays in the record.
Call read_record(const CallRecord& record);

bool match(const CallRecord& a, const CallRecord& b);
/// Whether a message is what its receiver expects.
bool matches_receive(const CallRecord& sent, const Call& receive);

/// The error's text for records of two positions that do not match, as every rank of the group would put it.
std::string describe_mismatch(const Axis& axis, int first_position, const CallRecord& first, int other_position,
                              const CallRecord& other);
/// The error's text for a message that is not what its receiver expects, as the receiver puts it.
std::string describe_mismatch(const Axis& axis, const CallRecord& sent, const Call& receive);

}  // namespace weft
