// ClaimLock: lock for a storage without locks and without conditional writes: an object store, or a file system without flock.
// It requires that listing a folder shows everything written before, which all supported storages guarantee.
//
// A process that wants the lock writes a claim (a file of its own), then lists all claims. It has the lock once its claim
// exists and nobody else claims the folder or holds it by a file-system lock. If two processes ask at once, at least one sees
// the other; the one whose name comes later withdraws and waits. A process removes another's claim only if the other has ended
// or has been silent for LockOptions::stale by the waiting process's clock. A holder that was silent for half that time no
// longer trusts its claim, and claims the folder again before it saves.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "weft/checkpoint/storage/lock_watch.h"
#include "weft/checkpoint/storage/storage.h"

namespace weft {

/// Waits as LockOptions say until nobody claims `storage`. Used by the holder of a file-system lock (kLockFile), which other
/// hosts may not support. Throws HeldError if another run is alive.
void wait_for_claims(Storage& storage, const LockOptions& options);

/// Held lock of that kind.
class ClaimLock : public StorageLock {
 public:
  /// Waits as LockOptions say. Nothing else may use `storage`. Throws HeldError if another run is alive.
  ClaimLock(std::unique_ptr<Storage> storage, const LockOptions& options);
  ~ClaimLock() override;
  bool keep() override;

 private:
  using Clock = std::chrono::steady_clock;
  void take();
  void claim(bool is_claimed);
  void write();
  void withdraw() noexcept;
  void beat() noexcept;

  std::mutex mutex_;  ///< guards all members below: keep() and the heartbeat are two threads
  std::unique_ptr<Storage> storage_;
  LockOptions options_;
  LockText text_;
  std::string name_;  ///< file name of its claim
  bool is_lost_ = false;
  Clock::time_point written_ = {};  ///< start of the last write
  std::optional<Heartbeat> heart_;  ///< runs once the lock is held
};

}  // namespace weft
