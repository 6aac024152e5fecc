// RunSaver: when a run saves, and what becomes of older checkpoints. One object a rank; all make the same calls after the same
// steps.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/run_board.h"
#include "weft/checkpoint/storage/storage.h"
#include "weft/train/recipe/recipe.h"
#include "weft/train/run/run_lengths.h"
#include "weft/train/run/trainer.h"
#include "weft/train/save/keep_rules.h"

namespace weft {

/// What saving cost a run.
struct SaveTotals {
  int64_t saves = 0;      ///< that became durable
  int64_t snapshots = 0;  ///< in memory
  double stall_s = 0.0;   ///< for which steps stood still: copies, waits for earlier saves, saves that nothing went on beside
};

/// Of the folders that a run saves to.
using StorageLocks = std::vector<std::shared_ptr<StorageLock>>;

/// Saves a run as the recipe's section [save] says.
class RunSaver {
 public:
  /// `board` is the launcher's, for snapshots; null: none. `stop_asked` tells whether this rank was asked to save and end;
  /// empty: never. `on_save` is called on rank 0 once a checkpoint is whole. The trainer must outlive it.
  RunSaver(const Recipe& recipe, const RunLengths& lengths, Trainer& trainer, RunBoard* board, std::function<bool()> stop_asked,
           std::function<void(const SaveReport&)> on_save);
  ~RunSaver();

  /// After a step and its evaluation: saves where that is due. True when the run is to end, saved, as some rank was asked to.
  /// Collective over the world.
  bool after_step(const RunClock& before, const RunClock& now, bool is_last);
  /// Whether some rank was asked to save and end: what takes long is left out then. Collective over the world.
  bool is_stop_asked() const;
  /// Each save sees to it that these are still held; on rank 0.
  void hold(StorageLocks locks) { locks_ = std::move(locks); }
  /// Waits for the save under way.
  void finish();
  const SaveTotals& totals() const { return totals_; }  ///< so far

 private:
  struct Wishes {
    bool save = false, stop = false;
  };
  Wishes agree(Wishes own) const;
  void save(bool in_background);
  void take_snapshot();
  void report(SaveReport report, double stood_still_s = 0.0);

  const SaveRecipe recipe_;
  Trainer& trainer_;
  RunBoard* board_;
  std::function<bool()> stop_asked_;
  std::function<void(const SaveReport&)> on_save_;
  RunLength every_, memory_every_;
  KeepRules rules_;
  std::optional<int64_t> saved_step_;  ///< the last save's
  StorageLocks locks_;
  double waited_s_ = 0.0;  ///< that the save under way waited for the one before
  SaveTotals totals_;
};

/// Holds folder and upload for this run while what it returns lives, and clears them of what killed saves left. Rank 0's call.
/// Throws InputError where another run has one.
StorageLocks hold_folders(const SaveRecipe& recipe);

}  // namespace weft
