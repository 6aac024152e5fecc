#include "weft/comm/call/call_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "weft/base/hash.h"

namespace weft {

void write_record(CallRecord& record, const Call& call, uint64_t number) {
  record.number = number;
  record.what_hash = fnv1a(call.what);
  record.numel = call.numel;
  record.root = call.root;
  record.operation = call.operation;
  record.reduce = call.reduce;
  record.dtype = call.dtype;
  record.buffer = -1;
  record.offset = 0;
  const size_t length = std::min(call.what.size(), kNameBytes - 1);
  std::memcpy(record.what, call.what.data(), length);
  record.what[length] = '\0';
}

Call read_record(const CallRecord& record) {
  const std::string_view what(record.what, ::strnlen(record.what, kNameBytes));
  return {.operation = record.operation,
          .dtype = record.dtype,
          .reduce = record.reduce,
          .root = record.root,
          .numel = record.numel,
          .what = what};
}

bool match(const CallRecord& a, const CallRecord& b) {
  return a.what_hash == b.what_hash && a.number == b.number && same_shape(read_record(a), read_record(b));
}

uint64_t hash_of(const CallRecord& record) {
  const Call call = read_record(record);
  const uint64_t reduce = call.reduces() ? static_cast<uint64_t>(call.reduce) : 0;
  uint64_t hash = record.what_hash;
  for (const uint64_t part : {record.number, static_cast<uint64_t>(call.operation), static_cast<uint64_t>(call.dtype), reduce,
                              static_cast<uint64_t>(call.root), static_cast<uint64_t>(call.numel)}) {
    hash = splitmix64(hash ^ part) + part;
  }
  return hash;
}

bool matches_receive(const CallRecord& sent, const Call& receive) {
  return sent.numel == receive.numel && sent.dtype == receive.dtype && sent.what_hash == fnv1a(receive.what);
}

std::string describe_mismatch(const Axis& axis, int first_position, const CallRecord& first, int other_position,
                              const CallRecord& other) {
  return fmt::format("ranks of group \"{}\" do not match in call number {}: {} called {}, {} called {}", axis.name,
                     first.number, rank_name(axis, first_position), describe(read_record(first), axis),
                     rank_name(axis, other_position), describe(read_record(other), axis));
}

std::string describe_mismatch(const Axis& axis, const CallRecord& sent, const Call& receive) {
  return fmt::format("ranks of group \"{}\" do not match: {} called {}, but {} called {}", axis.name,
                     rank_name(axis, receive.root), describe(read_record(sent), axis), rank_name(axis, axis.index),
                     describe(receive, axis));
}

}  // namespace weft
