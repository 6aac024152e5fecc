// The last write and the reads since then of each byte of an allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "weft/checked_device/clock.h"

namespace weft::checked_device {

/// One use of memory by a launch.
struct Access {
  int actor = -1;     ///< -1: none
  uint64_t time = 0;  ///< of the actor
  const char* what = "";
  uint64_t launch = 0;

  bool happened_before(const Clock& clock) const { return actor < 0 || time <= clock.of(static_cast<size_t>(actor)); }
};

/// Bytes [begin, end) of an allocation.
struct ByteRange {
  size_t begin = 0, end = 0;
};

class Accesses {
 public:
  explicit Accesses(size_t bytes) : segments_{{0, {}}}, bytes_(bytes) {}

  /// Called for an earlier access that is not ordered before `now`; `wrote`: that access wrote.
  using Conflict = std::function<void(const Access& earlier, bool wrote)>;

  /// A read or write of these bytes by an actor whose clock is `clock`.
  void add(const std::vector<ByteRange>& ranges, bool write, const Access& now, const Clock& clock, const Conflict& conflict);

  /// Calls `look` with each access that may still be under way.
  void each(const std::function<void(const Access&)>& look) const;

 private:
  struct Segment {
    Access write;
    std::vector<Access> reads;
  };

  std::map<size_t, Segment>::iterator cut(size_t at);

  std::map<size_t, Segment> segments_;  // by first byte; each lasts to the next
  size_t bytes_;
};

}  // namespace weft::checked_device
