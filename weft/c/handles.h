// Handles: objects by number, which C holds as pointers. A number is used once, so a handle that was freed is known to be.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "weft/base/error.h"

namespace weft::c {

/// Numbers of all kinds, so that a handle of another kind is not taken for one.
inline std::atomic<uintptr_t> last_handle{0};

/// Objects of one kind, by handle. Thread-safe; an object ends with the last call that uses it.
template <class Handle, class Object>
class Handles {
 public:
  Handle* add(std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    const uintptr_t handle = ++last_handle;
    objects_.emplace(handle, std::move(object));
    return reinterpret_cast<Handle*>(handle);  // NOLINT: never dereferenced
  }
  /// Throws InputError for a handle that is not in use; `name` says what it should be.
  std::shared_ptr<Object> get(const Handle* handle, const std::string& name) const {
    if (!handle) throw InputError(name + " is null");
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
    if (found == objects_.end()) throw InputError("not a " + name + ", or one that was freed");
    return found->second;
  }
  void remove(const Handle* handle) {
    std::shared_ptr<Object> last;  // ends after the lock
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
    if (found == objects_.end()) return;
    last = std::move(found->second);
    objects_.erase(found);
  }

 private:
  mutable std::mutex mutex_;
  std::map<uintptr_t, std::shared_ptr<Object>> objects_;
};

/// The caller's turn on an object that takes one call at a time.
class Turn {
 public:
  /// Throws InputError if another call has it.
  Turn(std::atomic_flag& taken, const char* name) : taken_(taken) {
    if (taken.test_and_set(std::memory_order_acquire)) {
      throw InputError(std::string("another call is using this ") + name + "; make one call at a time");
    }
  }
  ~Turn() { taken_.clear(std::memory_order_release); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::atomic_flag& taken_;
};

}  // namespace weft::c
