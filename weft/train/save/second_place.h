// SecondPlace: copies a run's checkpoints to save.upload in the background, on its own thread.
//
// Nothing waits for it: if it is slow, newer checkpoints replace those not yet copied. Its failures do not end the training:
// each is reported once, and once more when resolved, and every further save retries.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "weft/checkpoint/storage/storage.h"
#include "weft/train/save/keep_rules.h"

namespace weft {

/// Exists on rank 0 only.
class SecondPlace {
 public:
  struct Options {
    std::string folder;                      ///< where checkpoints are saved
    std::string upload;                      ///< where they are copied to
    KeepRules rules = {};                    ///< for both
    LockOptions lock = {};                   ///< for `upload`
    std::shared_ptr<StorageLock> held = {};  ///< that lock; null: not acquired yet
    std::string failure = {};                ///< why it was not acquired
  };
  explicit SecondPlace(Options options);
  /// Abandons a copy in progress, and waits 5 s for that at most; the next run removes it.
  ~SecondPlace();
  SecondPlace(const SecondPlace&) = delete;
  SecondPlace& operator=(const SecondPlace&) = delete;

  /// Queues the checkpoint after `step`, which must stay in its folder while under_way() returns it.
  void copy(int64_t step);
  /// The checkpoint being copied, or next to be.
  std::optional<int64_t> under_way() const;
  /// Waits until everything is copied, including the checkpoint after step `newest` (empty: none) if an earlier run did not
  /// copy it. Returns what the second place lacks, and why; empty: nothing. Stops waiting when `asked_to_end` returns true;
  /// under_way() then is the first one not copied.
  std::string finish(std::optional<int64_t> newest, const std::function<bool()>& asked_to_end);
  /// Text to report, once; empty: nothing.
  std::string take_note();
  /// Detaches the thread, which may keep copying while the process lives.
  void leave();

 private:
  struct Work;  ///< shared with its thread
  std::shared_ptr<Work> work_;
  std::thread thread_;
};

}  // namespace weft
