// GroupCache: what was read a group at a time and is likely to be asked for again, up to a number of bytes.
#pragma once

#include <c10/util/FunctionRef.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace weft {

/// A group in memory.
struct LoadedGroup {
  std::shared_ptr<const void> value;  ///< what the cache's owner makes of it
  int64_t bytes = 0;                  ///< of memory
};

/// Groups by number, the ones used last. Thread-safe; groups are loaded side by side, and one that several threads ask for at
/// once is loaded by one of them.
class GroupCache {
 public:
  /// Keeps at most `most_bytes`, or two groups where these have more.
  explicit GroupCache(int64_t most_bytes) : most_bytes_(most_bytes) {}

  /// The group, by `load` if it is not here. A BadDataError that `load` throws is kept and thrown again as long as the group
  /// would be: reading again would not help. What else it throws is not.
  std::shared_ptr<const void> get(size_t group, c10::function_ref<LoadedGroup()> load) const;
  /// Whether the group is here, and asking for it costs nothing.
  bool holds(size_t group) const;
  /// Whether it is here, or a thread is loading it.
  bool expects(size_t group) const;

 private:
  struct Entry {
    size_t group;
    std::mutex loading;      ///< held by the thread that loads it
    bool is_loaded = false;  ///< the rest is there, and does not change any more
    LoadedGroup loaded = {};
    std::exception_ptr error = {};  ///< why it cannot be loaded
  };
  using Entries = std::list<std::shared_ptr<Entry>>;
  std::shared_ptr<Entry> find_or_add(size_t group) const;
  void keep(Entry& entry, LoadedGroup loaded, std::exception_ptr error) const;
  void forget(const Entry& entry) const;

  const int64_t most_bytes_;
  mutable std::mutex mutex_;
  mutable Entries entries_;  ///< the one used last first
  mutable std::unordered_map<size_t, Entries::iterator> places_;
  mutable int64_t bytes_ = 0;  ///< of those in entries_
};

}  // namespace weft
