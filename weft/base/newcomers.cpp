#include "weft/base/newcomers.h"

#include <algorithm>

namespace weft {

bool Newcomers::has_room(Time now) const {
  return all_.size() < limits_.most || now - all_.begin()->second.since >= limits_.young;
}

std::optional<uint64_t> Newcomers::to_evict(const std::string& address) const {
  if (all_.size() >= limits_.max_per_address) {
    const auto is_from_there = [&](const auto& entry) { return entry.second.address == address; };
    if (static_cast<size_t>(std::count_if(all_.begin(), all_.end(), is_from_there)) >= limits_.max_per_address) {
      return std::find_if(all_.begin(), all_.end(), is_from_there)->first;
    }
  }
  return all_.size() < limits_.most ? std::nullopt : std::optional(all_.begin()->first);
}

void Newcomers::add(uint64_t number, Time now, const std::string& address) { all_.emplace(number, Newcomer{now, address}); }

std::optional<uint64_t> Newcomers::expired(Time now) const {
  const std::optional<Time> due = next_due();
  return due && *due <= now ? std::optional(all_.begin()->first) : std::nullopt;
}

std::optional<Newcomers::Time> Newcomers::next_due() const {
  return all_.empty() ? std::nullopt : std::optional(all_.begin()->second.since + limits_.to_prove);
}

}  // namespace weft
