#include "weft/data/group_cache.h"

#include <iterator>
#include <utility>

#include "weft/data/bad_data.h"

namespace weft {

std::shared_ptr<const void> GroupCache::get(size_t group, c10::function_ref<LoadedGroup()> load) const {
  const std::shared_ptr<Entry> entry = find_or_add(group);
  const std::lock_guard loading(entry->loading);
  if (!entry->is_loaded) {
    try {
      keep(*entry, load(), {});
    } catch (const BadDataError&) {
      keep(*entry, {}, std::current_exception());
    } catch (...) {
      forget(*entry);
      throw;
    }
  }
  if (entry->error) std::rethrow_exception(entry->error);
  return entry->loaded.value;
}

bool GroupCache::holds(size_t group) const {
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(group);
  return found != places_.end() && (*found->second)->is_loaded;
}

bool GroupCache::expects(size_t group) const {
  const std::lock_guard lock(mutex_);
  return places_.count(group) > 0;
}

std::shared_ptr<GroupCache::Entry> GroupCache::find_or_add(size_t group) const {
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(group);
  if (found != places_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
  } else {
    entries_.push_front(std::make_shared<Entry>(group));
    places_[group] = entries_.begin();
  }
  return entries_.front();
}

/// Evicts the least recently used groups.
void GroupCache::keep(Entry& entry, LoadedGroup loaded, std::exception_ptr error) const {
  constexpr size_t kFewest = 2;
  const std::lock_guard lock(mutex_);
  entry.loaded = std::move(loaded);
  entry.error = std::move(error);
  entry.is_loaded = true;
  const auto found = places_.find(entry.group);
  if (found == places_.end() || found->second->get() != &entry) return;  // another thread failed to load it and removed it
  bytes_ += entry.loaded.bytes;
  for (auto place = entries_.end(); bytes_ > most_bytes_ && entries_.size() > kFewest && place != entries_.begin();) {
    --place;
    const Entry& last = **place;
    if (!last.is_loaded || &last == &entry) continue;
    bytes_ -= last.loaded.bytes;
    places_.erase(last.group);
    place = entries_.erase(place);
  }
}

void GroupCache::forget(const Entry& entry) const {
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(entry.group);
  if (found == places_.end() || found->second->get() != &entry) return;
  entries_.erase(found->second);
  places_.erase(found);
}

}  // namespace weft
