#include "weft/data/group_order.h"

#include <algorithm>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/base/math.h"
#include "weft/data/sampler.h"

namespace weft {

GroupEpoch::GroupEpoch(const std::vector<SampleGroup>& groups, const GroupOrderOptions& options, int64_t epoch)
    : seed_(splitmix64(options.seed ^ fnv1a("groups"))),
      epoch_(epoch),
      starts_({0}),
      windows_({0}),
      window_bytes_(options.window_bytes) {
  const auto count = static_cast<int64_t>(groups.size());
  const Sampler sampler(count, {.seed = seed_});
  order_.reserve(groups.size());
  starts_.reserve(groups.size() + 1);
  int64_t bytes = 0;  // of the current window
  for (int64_t turn = 0; turn < count; ++turn) {
    const auto group = static_cast<size_t>(sampler.sample(epoch * count + turn));
    if (static_cast<size_t>(turn) > windows_.back() && bytes + groups[group].bytes > options.window_bytes) {
      windows_.push_back(static_cast<size_t>(turn));
      bytes_.push_back(bytes);
      bytes = 0;
    }
    bytes += groups[group].bytes;
    order_.push_back(group);
    starts_.push_back(starts_.back() + groups[group].items);
  }
  windows_.push_back(groups.size());
  bytes_.push_back(bytes);
}

GroupEpoch::Place GroupEpoch::place(int64_t item) const {
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), item);
  const auto turn = static_cast<size_t>(after - starts_.begin()) - 1;
  return {turn, item - starts_[turn]};
}

size_t GroupEpoch::window_of(int64_t item) const {
  const auto after = std::upper_bound(windows_.begin(), windows_.end(), place(item).turn);
  return static_cast<size_t>(after - windows_.begin()) - 1;
}

SampleRange GroupEpoch::window(int64_t sample, const Cut& cut) const {
  const size_t window = window_of(cut.shift + sample * cut.unit);
  const auto first_from = [&cut](int64_t item) {
    return std::min(cut.samples, ceil_divide(std::max<int64_t>(0, item - cut.shift), cut.unit));
  };
  const int64_t first = first_from(begin_of(window));
  return {first, first_from(begin_of(window + 1)) - first};
}

int64_t GroupEpoch::sample(int64_t position, const Cut& cut) const {
  const SampleRange range = window(position, cut);
  // One seed per window: otherwise windows of equal length would have the same order.
  const Sampler sampler(range.count, {.seed = splitmix64(seed_ ^ static_cast<uint64_t>(range.first))});
  return range.first + sampler.sample(epoch_ * range.count + position - range.first);
}

void GroupEpoch::read_ahead(int64_t item, const GroupReader& reader, const GroupEpoch& next) const {
  const size_t window = window_of(item);
  for (size_t turn = windows_[window]; turn < windows_[window + 1]; ++turn) {
    if (!reader.holds(order_[turn])) return;
  }
  const bool is_last = window + 2 == windows_.size();
  const GroupEpoch& other = is_last ? next : *this;
  const size_t first = is_last ? 0 : windows_[window + 1], last = is_last ? other.windows_[1] : windows_[window + 2];
  const size_t count = windows_[window + 1] - windows_[window] + last - first;
  if (count > 2 && bytes_[window] + (is_last ? other.bytes_[0] : bytes_[window + 1]) > 2 * window_bytes_) return;
  // Not in the first quarter, when other ranks may still be in the window before.
  const double length = static_cast<double>(begin_of(window + 1) - begin_of(window));
  const double done = static_cast<double>(item - begin_of(window)) / length, due = (done - 0.25) / 0.75;
  for (size_t turn = first; turn < last && static_cast<double>(turn - first) < due * static_cast<double>(last - first);
       ++turn) {
    if (reader.holds(other.order_[turn])) continue;
    try {
      reader.load(other.order_[turn]);
    } catch (const Error&) {
      return;
    }
  }
}

GroupOrder::GroupOrder(std::vector<SampleGroup> groups, const GroupOrderOptions& options)
    : groups_(std::move(groups)), options_(options) {
  if (groups_.empty()) throw InputError("group order: there are no groups");
  for (const SampleGroup& group : groups_) {
    if (group.items < 1) throw InputError("group order: a group has no items");
    items_ += group.items;
  }
}

std::shared_ptr<const GroupEpoch> GroupOrder::epoch(int64_t epoch) const {
  constexpr size_t kMostMade = 4;  // loaders use at most two, and look one ahead
  const std::lock_guard lock(mutex_);
  for (const auto& [of, made] : made_) {
    if (of == epoch) return made;
  }
  made_.emplace_front(epoch, std::make_shared<const GroupEpoch>(groups_, options_, epoch));
  if (made_.size() > kMostMade) made_.pop_back();
  return made_.front().second;
}

}  // namespace weft
