// GroupCache: keeps recently read groups in memory, up to a number of bytes, because they are likely to be needed again.
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

/// Group in memory.
struct LoadedGroup {
  std::shared_ptr<const void> value;  ///< owner-defined content
  int64_t bytes = 0;                  ///< its memory
};

/// Most recently used groups, by number. Thread-safe. Different groups load in parallel; a group requested by several threads
/// at once is loaded by one of them.
class GroupCache {
 public:
  /// Keeps at most `most_bytes`, or two groups if they are larger.
  explicit GroupCache(int64_t most_bytes) : most_bytes_(most_bytes) {}

  /// Returns the group, calling `load` if it is not cached. A BadDataError from `load` is kept and rethrown as long as the
  /// group would be kept, because reading again would not help. Other exceptions are not kept.
  std::shared_ptr<const void> get(size_t group, c10::function_ref<LoadedGroup()> load) const;
  /// True if the group is cached, so that get() costs nothing.
  bool holds(size_t group) const;
  /// True if the group is cached or a thread is loading it.
  bool expects(size_t group) const;

 private:
  struct Entry {
    size_t group;
    std::mutex loading;      ///< held by the thread that loads it
    bool is_loaded = false;  ///< the other members are set and no longer change
    LoadedGroup loaded = {};
    std::exception_ptr error = {};  ///< why it cannot be loaded
  };
  using Entries = std::list<std::shared_ptr<Entry>>;
  std::shared_ptr<Entry> find_or_add(size_t group) const;
  void keep(Entry& entry, LoadedGroup loaded, std::exception_ptr error) const;
  void forget(const Entry& entry) const;

  const int64_t most_bytes_;
  mutable std::mutex mutex_;
  mutable Entries entries_;  ///< most recently used first
  mutable std::unordered_map<size_t, Entries::iterator> places_;
  mutable int64_t bytes_ = 0;  ///< total of entries_
};

}  // namespace weft
