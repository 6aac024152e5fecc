// RunSaver: when a run saves, and what becomes of older checkpoints. One object a rank; all make the same calls after the same
// steps.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "weft/base/run_board.h"
#include "weft/checkpoint/storage/storage.h"
#include "weft/recipe/recipe.h"
#include "weft/train/run/run_lengths.h"
#include "weft/train/save/keep_rules.h"
#include "weft/train/save/old_checkpoints.h"
#include "weft/train/save/second_place.h"
#include "weft/train/trainer/trainer.h"

namespace weft {

/// What saving cost a run.
struct SaveTotals {
  int64_t saves = 0;      ///< that became durable
  int64_t snapshots = 0;  ///< in memory
  double stall_s = 0.0;   ///< for which steps stood still: copies, waits for earlier saves, saves that nothing went on beside
  bool upload_left = false;  ///< a thread still copies to save.upload, as the run was asked to end: end the process
};

/// The folders that a run saves to, held for it.
struct HeldFolders {
  std::shared_ptr<StorageLock> folder = {}, upload = {};  ///< null: there is none, or not on this rank
  std::string upload_failure = {};                        ///< why that could not be held
  LockOptions lock = {};                                  ///< of both
};

/// Somebody may ask a run to save and end.
struct StopRequest {
  std::function<bool()> asked = {};  ///< whether this rank was asked to; empty: never
  std::function<void()> saved = {};  ///< told on every rank once it is saved
};

/// Saves a run as the recipe's section [save] says.
class RunSaver {
 public:
  /// `board` is the launcher's, for snapshots; null: none. `on_save` is called on rank 0 once a checkpoint is whole. The
  /// trainer must outlive it.
  RunSaver(const Recipe& recipe, const RunLengths& lengths, Trainer& trainer, RunBoard* board, StopRequest stop,
           std::function<void(const SaveReport&)> on_save);
  ~RunSaver();

  /// This rank's votes in a step that is under way at `now` (SaveRecipe::votes): whether to save, and whether to end. Signals
  /// are each rank's own, and so are clocks, of which rank 0's counts.
  std::vector<double> vote(const RunClock& now);
  /// Takes the votes of all ranks, a step's (StepResult::votes).
  void hear(const std::vector<double>& votes);
  /// Whether some rank has been asked to save and end by now: what takes long is left out then. Collective over the world.
  bool is_stop_asked();
  /// After a step: saves where that is due. True when the run is to end, saved, as some rank was asked to by the time of its
  /// votes, or by now where `asks_again`, as something long came in between; the same on all ranks. Collective over the world.
  bool after_step(const RunClock& before, const RunClock& now, bool is_last, bool asks_again);
  /// Each save sees to it that these are still held. On rank 0; `on_note` is called there with lines on the second place.
  void hold(HeldFolders held, std::function<void(const std::string&)> on_note);
  /// The run goes on from a checkpoint of so many steps, at that time; none: from none.
  void went_on_from(std::optional<int64_t> checkpoint, const RunClock& clock);
  /// Waits for the save under way. Who asks the run to end from then on finds it saved, if it is.
  void finish();
  /// Waits until all is copied to the second place; returns what that lacks, and why; empty: nothing, and on other ranks than
  /// 0. As it may take long, no rank may wait for rank 0 meanwhile. A run that was asked to end leaves it to the next one, and
  /// says so.
  std::string finish_second_place(bool asked_to_end);
  const SaveTotals& totals() const { return totals_; }  ///< so far

 private:
  struct Wishes {
    bool save = false, stop = false;
  };
  bool is_asked_here() const { return stop_.asked && stop_.asked(); }
  bool is_any_asked() const;
  enum class Beside { steps, nothing };
  void save(Beside beside);
  void take_snapshot();
  void report(SaveReport report, double stood_still_s = 0.0);

  const SaveRecipe recipe_;
  Trainer& trainer_;
  RunBoard* board_;
  StopRequest stop_;
  std::function<void(const SaveReport&)> on_save_;
  RunLength every_, memory_every_;
  KeepRules rules_;
  RunClock voted_;                     ///< when this rank voted last
  Wishes heard_;                       ///< of all ranks, in the last step
  std::optional<int64_t> saved_step_;  ///< the last save's, or of what the run went on from
  int64_t saving_step_ = 0;            ///< of the save under way
  HeldFolders held_;
  std::function<void(const std::string&)> on_note_;
  std::shared_ptr<OldCheckpoints> old_;
  std::shared_ptr<SecondPlace> second_;
  double waited_s_ = 0.0;  ///< that the save under way waited for the one before
  SaveTotals totals_;
};

/// Holds folder and upload for this run while what it returns lives, and clears them of what killed saves left, on rank 0,
/// while the others wait: an hour, or `timeout` for a rank that stands still. Ranks that were started again (`board`) may come
/// before those of another host have ended, and wait for them. An upload that fails is no reason not to go on with a run, but
/// one with which none begins. `on_note` is told what is waited for. Collective over the world. Throws HeldError on rank 0
/// where another run has one, CommError on the others.
HeldFolders hold_folders(const SaveRecipe& recipe, const World& world, std::chrono::milliseconds timeout, const RunBoard* board,
                         const std::function<void(const std::string&)>& on_note);

}  // namespace weft
