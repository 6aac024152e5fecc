#include "weft/checked_device/accesses.h"

#include <algorithm>

namespace weft::checked_device {

std::map<size_t, Accesses::Segment>::iterator Accesses::cut(size_t at) {
  auto next = segments_.lower_bound(at);
  if (next != segments_.end() && next->first == at) return next;
  if (at >= bytes_) return segments_.end();
  const auto before = std::prev(next);
  return segments_.emplace_hint(next, at, before->second);
}

void Accesses::add(const std::vector<ByteRange>& ranges, bool write, const Access& now, const Clock& clock,
                   const Conflict& conflict) {
  for (const ByteRange& range : ranges) {
    if (range.begin >= range.end) continue;
    const auto first = cut(range.begin);
    const auto end = cut(range.end);
    if (first == segments_.end()) continue;  // the storage has grown outside an operator
    for (auto segment = first; segment != end; ++segment) {
      Segment& s = segment->second;
      if (!s.write.happened_before(clock)) conflict(s.write, true);
      if (!write) {
        const auto own =
            std::find_if(s.reads.begin(), s.reads.end(), [&](const Access& read) { return read.actor == now.actor; });
        if (own != s.reads.end()) {
          *own = now;
        } else {
          s.reads.push_back(now);
        }
        continue;
      }
      for (const Access& read : s.reads) {
        if (!read.happened_before(clock)) conflict(read, false);
      }
    }
    if (write) {  // one segment again
      first->second = {now, {}};
      segments_.erase(std::next(first), end);
    }
  }
}

void Accesses::each(const std::function<void(const Access&)>& look) const {
  for (const auto& [begin, segment] : segments_) {
    look(segment.write);
    for (const Access& read : segment.reads) look(read);
  }
}

}  // namespace weft::checked_device
