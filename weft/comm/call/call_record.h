// CallRecord: a call as plain bytes, which a group's ranks compare before any data moves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "weft/comm/call/call.h"

namespace weft {

constexpr size_t kNameBytes = 128;

struct alignas(64) CallRecord {
  uint64_t number = 0;     ///< number of the call on this group
  uint64_t what_hash = 0;  ///< hash of the whole name, which may be truncated below
  int64_t numel = 0;
  int64_t offset = 0;   ///< shm: offset of the data in the registered buffer
  int32_t buffer = -1;  ///< shm: registered buffer with the data; -1: staged
  int32_t root = -1;
  int32_t pid = 0;  ///< shm, allocate: where to open the memory
  int32_t fd = -1;
  Operation operation = Operation::none;
  ReduceOp reduce = ReduceOp::sum;
  at::ScalarType dtype = at::kByte;
  char what[kNameBytes] = {};
};

void write_record(CallRecord& record, const Call& call, uint64_t number);
/// Returns the call of a record; its name points into the record.
Call read_record(const CallRecord& record);

bool match(const CallRecord& a, const CallRecord& b);
/// The same for records that match(), and for others different but by a chance of 2^-64.
uint64_t hash_of(const CallRecord& record);
/// Returns whether a message is the one its receiver expects.
bool matches_receive(const CallRecord& sent, const Call& receive);

/// Error text for mismatched records of two positions, the same on every rank of the group.
std::string describe_mismatch(const Axis& axis, int first_position, const CallRecord& first, int other_position,
                              const CallRecord& other);
/// The receiver's error text for an unexpected message.
std::string describe_mismatch(const Axis& axis, const CallRecord& sent, const Call& receive);

}  // namespace weft
