// ComparedOperations: operations of a c10d back end whose calls the ranks compare before they begin.
#pragma once

#include <vector>

#include "weft/comm/c10d/operations.h"
#include "weft/comm/call/axis.h"

namespace weft {

/// Exchanges hashes of the ranks' calls before they begin, and where these differ the records.
///
/// A round takes the calls that a rank has made by then; as many are compared as all ranks have. So a call is compared as soon
/// as all have made it, and the faster calls follow one another, the more of them share a round.
class ComparedOperations : public FlatOperations {
 public:
  ComparedOperations(const c10::intrusive_ptr<c10d::Backend>& engine, const Axis& axis, bool tree_order, Finish finish);

  void begin(const Call& call, uint64_t number) override;
  size_t begin_some(const std::vector<CallRecord>& records) override;

 private:
  template <class Value>
  std::vector<Value> gather(const Value& value);
  [[noreturn]] void report(const std::vector<CallRecord>& records) const;

  Axis axis_;
};

}  // namespace weft
