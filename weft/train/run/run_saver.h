// RunSaver: decides when a run saves, and removes older checkpoints. One object per rank; all make the same calls after the
// same steps.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "weft/base/run_board.h"
#include "weft/checkpoint/storage/storage.h"
#include "weft/recipe/recipe.h"
#include "weft/train/run/run_lengths.h"
#include "weft/train/save/keep_rules.h"
#include "weft/train/save/old_checkpoints.h"
#include "weft/train/save/second_place.h"
#include "weft/train/trainer/trainer.h"

namespace weft {

/// Costs of saving in a run.
struct SaveTotals {
  int64_t saves = 0;         ///< durable checkpoints
  int64_t snapshots = 0;     ///< in memory
  double stall_s = 0.0;      ///< time that steps paused: copies, waits for earlier saves, saves without overlap
  bool upload_left = false;  ///< after a request to end, a thread still copies to save.upload: do not wait for it
};

/// The folders that a run saves to, locked for it.
struct HeldFolders {
  std::shared_ptr<StorageLock> folder = {}, upload = {};  ///< null: no such folder, or not on this rank
  std::string upload_failure = {};                        ///< why it could not be locked
  LockOptions lock = {};                                  ///< for both
};

/// A request to save and end the run.
struct StopRequest {
  std::function<bool()> asked = {};  ///< returns true once this rank has the request; empty: never
  std::function<void()> saved = {};  ///< called on every rank once the state is saved
};

/// Saves a run as section [save] of the recipe says.
class RunSaver {
 public:
  /// `board` is the launcher's, for snapshots; null: none. `on_save` is called on rank 0 once a checkpoint is complete. The
  /// trainer must outlive it.
  RunSaver(const Recipe& recipe, const RunLengths& lengths, Trainer& trainer, RunBoard* board, StopRequest stop,
           std::function<void(const SaveReport&)> on_save);
  ~RunSaver();

  /// This rank's votes in the step in progress at `now` (SaveRecipe::votes): whether to save, and whether to end. Each rank has
  /// its own signals and clock; only rank 0's clock counts.
  std::vector<double> vote(const RunClock& now);
  /// Takes the votes of all ranks in a step (StepResult::votes), for the next is_due(); several steps' add up.
  void hear(const std::vector<double>& votes);
  /// Returns true if some rank has been asked to save and end: long work is then skipped. Collective over the world.
  bool is_stop_asked();
  /// After a step, before after_step(): returns true if that will save, or end the run because a rank was asked to: before its
  /// vote or, with `asks_again` (after long work), before this call. The same on all ranks. Collective over the world.
  bool is_due(const RunClock& before, const RunClock& now, bool is_last, bool asks_again);
  /// Saves what is due. Returns true, on all ranks alike, if the run is saved and must end. Collective over the world.
  bool after_step(bool is_last);
  /// Before the first step: as after_step(), on a request to end alone.
  bool before_steps(const RunClock& now);
  /// Makes each save check these locks, on rank 0. `on_note` gets lines about save.folder and save.upload.
  void hold(HeldFolders held, std::function<void(const std::string&)> on_note);
  /// Called on every rank before each save and snapshot.
  void before_save(std::function<void()> call) { before_save_ = std::move(call); }
  /// Records that the run resumed from a checkpoint after this many steps, at that time; empty: from none.
  void resumed_from(std::optional<int64_t> checkpoint, const RunClock& clock);
  /// Waits for the save in progress, and calls StopRequest::saved if the state after the last step is saved.
  void finish();
  /// Waits until everything is copied to the second place; returns what is missing there, and why. Empty if nothing is, and on
  /// ranks other than 0. This may take long, so no rank may wait for rank 0 meanwhile. A run that was asked to end leaves the
  /// copy to the next run, and says so.
  std::string finish_second_place(bool asked_to_end);
  /// Step of the last save, or of the checkpoint resumed from; empty: none.
  std::optional<int64_t> saved_step() const { return saved_step_; }
  const SaveTotals& totals() const { return totals_; }  ///< so far

 private:
  struct Wishes {
    bool save = false, stop = false, snapshot = false;
  };
  bool is_asked_here() const { return stop_.asked && stop_.asked(); }
  bool is_any_asked() const;
  enum class Overlap { steps, nothing };
  void save(Overlap beside);
  void take_snapshot();
  void report(SaveReport report, double stood_still_s = 0.0);

  const SaveRecipe recipe_;
  Trainer& trainer_;
  RunBoard* board_;
  StopRequest stop_;
  std::function<void(const SaveReport&)> on_save_;
  RunLength every_, memory_every_;
  KeepRules rules_;
  RunClock voted_;                     ///< time of this rank's last vote
  Wishes heard_;                       ///< wishes of all ranks, from the last result
  Wishes due_;                         ///< what after_step() does
  std::optional<int64_t> saved_step_;  ///< step of the last save, or of the checkpoint resumed from
  int64_t saving_step_ = 0;            ///< step of the save in progress
  HeldFolders held_;
  std::function<void(const std::string&)> on_note_;
  std::function<void()> before_save_ = [] {};
  std::shared_ptr<OldCheckpoints> old_;
  std::shared_ptr<SecondPlace> second_;
  double waited_s_ = 0.0;  ///< wait of the save in progress for the previous one
  SaveTotals totals_;
};

/// On rank 0, locks folder and upload for this run while the result lives, and removes remains of killed saves; the other ranks
/// wait for rank 0: an hour, or `timeout` if a signal has stopped it. Restarted ranks (`board`) may arrive before old ranks of
/// another host have ended, and wait for them. A failing upload does not prevent resuming a run, but does prevent starting one.
/// `on_note` reports the waits. Collective over the world. Throws HeldError on rank 0 if another run holds a folder, CommError
/// on the others.
HeldFolders hold_folders(const SaveRecipe& recipe, const World& world, std::chrono::milliseconds timeout, const RunBoard* board,
                         const std::function<void(const std::string&)>& on_note);

}  // namespace weft
