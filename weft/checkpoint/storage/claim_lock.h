// ClaimLock: a lock of a storage that has no locks, nor writes that depend on what is there: an object store, a file system
// without flock. It needs a storage in which whoever lists a folder sees all that was written before, as all of these do.
//
// Who wants it writes a claim, a file of its own, and then looks for others': it has the lock once it is there and no other is,
// nor anybody who holds the folder by a lock of the file system.
// So of two that ask, one at least sees the other; the one whose name comes later goes back and waits. Nobody writes or removes
// another's claim, but one that has been silent for LockOptions::stale by the clock of the one that waits, or whose process
// has ended. A holder that was silent for half of that no longer believes in its own, and asks anew before it saves.
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

/// Waits as LockOptions say until nobody claims `storage`: for who holds it by a lock of the file system (kLockFile), which
/// another host may not have. Throws HeldError where another run lives.
void wait_for_claims(Storage& storage, const LockOptions& options);

/// A held lock of that kind.
class ClaimLock : public StorageLock {
 public:
  /// Waits as LockOptions say. `storage` is this lock's own. Throws HeldError where another run lives.
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

  std::mutex mutex_;  ///< of all below: keep() and the heartbeat are two threads
  std::unique_ptr<Storage> storage_;
  LockOptions options_;
  LockText text_;
  std::string name_;  ///< of its claim
  bool is_lost_ = false;
  Clock::time_point written_ = {};  ///< when the last write began
  std::optional<Heartbeat> heart_;  ///< once the lock is held
};

}  // namespace weft
