#include "weft/comm/c10d/compared_operations.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "weft/base/error.h"

namespace weft {

namespace {

/// A rank's calls, as many as `count`.
struct Round {
  uint64_t count = 0;
  uint64_t hashes[kMostCompared] = {};
};

}  // namespace

ComparedOperations::ComparedOperations(const c10::intrusive_ptr<c10d::Backend>& engine, const Axis& axis, bool tree_order,
                                       Finish finish)
    : FlatOperations(engine, axis.index, axis.size(), tree_order, std::move(finish)), axis_(axis) {}

void ComparedOperations::begin(const Call& call, uint64_t number) {
  CallRecord own;
  write_record(own, call, number);
  begin_some({own});
}

size_t ComparedOperations::begin_some(const std::vector<CallRecord>& records) {
  Round own{.count = records.size()};
  std::transform(records.begin(), records.end(), own.hashes, hash_of);
  const std::vector<Round> all = gather(own);
  const auto fewer = [](const Round& a, const Round& b) { return a.count < b.count; };
  const size_t common = std::min_element(all.begin(), all.end(), fewer)->count;
  for (size_t i = 0; i < common; ++i) {
    const auto differs = [&](const Round& other) { return other.hashes[i] != all[0].hashes[i]; };
    if (std::any_of(all.begin(), all.end(), differs)) report(gather(records[i]));  // on all ranks, of the same call
  }
  return common;
}

/// The ranks' values, by position.
template <class Value>
std::vector<Value> ComparedOperations::gather(const Value& value) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Value));
  at::Tensor own = at::zeros({kBytes}, at::kByte), all = at::zeros({kBytes * axis_.size()}, at::kByte);
  std::memcpy(own.data_ptr(), &value, sizeof(value));
  gather_bytes(all, own);
  std::vector<Value> values(axis_.size());
  std::memcpy(values.data(), all.const_data_ptr(), sizeof(Value) * values.size());
  return values;
}

void ComparedOperations::report(const std::vector<CallRecord>& records) const {
  for (int rank = 1; rank < axis_.size(); ++rank) {
    if (!match(records[0], records[rank])) throw CommError(describe_mismatch(axis_, 0, records[0], rank, records[rank]));
  }
  throw CommError(fmt::format("ranks of group \"{}\" do not match in call number {}", axis_.name, records[0].number));
}

}  // namespace weft
