// SecondPlace: where a run's checkpoints are copied to behind training (save.upload), on a thread of its own.
//
// Nothing waits for it: where it is slow, newer checkpoints take the place of those that it has not come to. Nothing that fails
// there ends the training: it is told once, and once when it is over, and each further save tries again.
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

/// On rank 0.
class SecondPlace {
 public:
  struct Options {
    std::string folder;                      ///< where checkpoints are saved
    std::string upload;                      ///< where they are copied to
    KeepRules rules = {};                    ///< of both
    LockOptions lock = {};                   ///< of `upload`
    std::shared_ptr<StorageLock> held = {};  ///< that lock; null: it could not be had yet
    std::string failure = {};                ///< why not
  };
  explicit SecondPlace(Options options);
  /// Leaves a copy that is under way unfinished; the next run removes it. Waits a moment for that at most.
  ~SecondPlace();
  SecondPlace(const SecondPlace&) = delete;
  SecondPlace& operator=(const SecondPlace&) = delete;

  /// Has the checkpoint after `step` copied, which must stay in its folder while under_way() tells of it.
  void copy(int64_t step);
  /// The checkpoint that is being copied, or is next.
  std::optional<int64_t> under_way() const;
  /// Waits until all is copied, the checkpoint after `newest` too where an earlier run did not come to that; none: there is
  /// none. Returns what the second place lacks, and why; empty: nothing.
  /// Returns at once when `asked_to_end` says so; under_way() tells then what is left.
  std::string finish(std::optional<int64_t> newest, const std::function<bool()>& asked_to_end);
  /// What is to be told, once; empty: nothing.
  std::string take_note();
  /// Its thread outlives it, for as long as the process lives: a copy may take as long as it likes.
  void leave();

 private:
  struct Work;  ///< what its thread shares
  std::shared_ptr<Work> work_;
  std::thread thread_;
};

}  // namespace weft
