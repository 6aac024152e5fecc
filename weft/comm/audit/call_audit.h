// CallAudit: checks what a rank's collectives deliver, while it is on: in audited steps.
//
// A sum is made twice on the same values, and both results are compared bit by bit between the two and over the ranks; a few of
// its elements, other ones in each step, are added up from what every rank had. Parts that ranks exchange, and messages, travel
// with a digest of their sender's. Results are those of the first call: the same bits as without the audit. Calls wait at once
// meanwhile, except messages. Memory: two copies of the values of a sum. Traffic: each sum a second time, and little more.
//
// Every rank of a group turns it on and off between the same calls. CPU tensors only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "weft/comm/group.h"

namespace weft {

/// A call that delivered wrong bits, on the ranks that noticed.
struct CallFinding {
  std::string text;          ///< one line: call, group, element, ranks, values
  std::vector<int> ranks;    ///< of the world: those to look at, the likeliest first
  const void* at = nullptr;  ///< the first wrong element in this rank's memory, or null
  bool is_harmless = false;  ///< only the repetition was wrong
};

class CallAudit {
 public:
  /// `seed` chooses the elements that are added up.
  explicit CallAudit(uint64_t seed) : seed_(seed) {}

  void begin(int64_t step);  ///< turns it on
  void end() { is_on_ = false; }
  bool is_on() const { return is_on_; }
  /// Takes what was found since the last call.
  std::vector<CallFinding> take() { return std::exchange(findings_, {}); }

  void add(CallFinding finding) { findings_.push_back(std::move(finding)); }
  /// `count` elements of `numel` to add up in the next sum: the same on all ranks of a group.
  std::vector<int64_t> chosen(int64_t numel, int64_t count, uint64_t call) const;

 private:
  uint64_t seed_;
  int64_t step_ = 0;
  bool is_on_ = false;
  std::vector<CallFinding> findings_;
};

}  // namespace weft
