#include "weft/train/run/resume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "weft/base/storage_error.h"
#include "weft/checkpoint/format/checkpoint_folder.h"
#include "weft/checkpoint/storage/open_storage.h"
#include "weft/train/save/rank_meeting.h"
#include "weft/train/save/recipe_changes.h"

namespace weft {
namespace {

/// A checkpoint that is whole, but of another run: no reason to take an older one.
class OtherRun : public InputError {
 public:
  using InputError::InputError;
};

std::string joined_path(const std::string& folder, const std::string& name) {
  return folder.ends_with('/') ? folder + name : folder + "/" + name;
}

/// Notes a checkpoint that is damaged; where it is the only one that was asked for, there is nothing else to go on from.
void pass_over(const DamageError& error, bool is_sole, std::vector<std::string>& notes) {
  if (is_sole) {
    throw DamageError(fmt::format(
        "{}; it is the one to go on from: name another (`weft checkpoint list` tells which there are), or \"auto\", "
        "which takes the newest of save.folder that is whole",
        error.what()));
  }
  notes.push_back(fmt::format("passed over: {}", error.what()));
}

/// The whole checkpoints of a folder by path, newest first; or the folder itself where it is one.
std::vector<std::string> checkpoints_of(const std::string& folder) {
  if (folder.empty()) return {};
  const std::unique_ptr<Storage> storage = open_storage(folder);
  if (is_complete(*storage, "")) return {folder};
  std::vector<std::string> paths;
  for (const int64_t step : complete_checkpoints(*storage))
    paths.insert(paths.begin(), joined_path(folder, checkpoint_name(step)));
  return paths;
}

/// The checkpoints to try, first to last, by path.
std::vector<std::string> candidates(const ResumeOptions& options) {
  if (options.from == "none") return {};
  if (options.from == "auto") {
    std::vector<std::string> paths = checkpoints_of(options.folder);
    return paths.empty() ? checkpoints_of(options.upload) : paths;
  }
  std::vector<std::string> paths = checkpoints_of(options.from);
  if (paths.empty()) {
    throw InputError(
        fmt::format("{}: no checkpoint is there, and none below it; `weft checkpoint list` tells of a folder's", options.from));
  }
  return paths;
}

/// What a run that goes on from the checkpoint would do otherwise than the one that saved it. Throws DamageError where the
/// checkpoint is damaged.
std::vector<std::string> changes_since(const std::string& path, const RunState& now) {
  const CheckpointPath at = parent_and_name(path);
  const std::unique_ptr<Storage> storage = open_storage(at.storage);
  const CheckpointIndex index = read_checkpoint(*storage, at.checkpoint);
  const auto text = run_state_in(index.texts);
  if (!text) return {};  // loading it says what is missing
  const RunState before = parse_run_state(*text, path);
  std::vector<std::string> changes = recipe_changes(before.recipe, now.recipe);
  for (const auto& [which, data] : before.data) {
    const auto found = now.data.find(which);
    if (found != now.data.end() && found->second != data) {
      changes.push_back(fmt::format("the {} data was {}, is {}", which, data, found->second));
    }
  }
  const auto named = checkpoint_step(at.checkpoint);
  if (named && static_cast<double>(*named) != before.clock.steps) {
    throw DamageError(
        fmt::format("{}: it was saved after step {:.0f}, which is not what its name says", path, before.clock.steps));
  }
  return changes;
}

/// Throws OtherRun where the checkpoint is of another run than this one; where that does not matter, notes what changed.
void check_same_run(const std::string& path, const RunState& now, bool anyway, std::vector<std::string>& notes) {
  const std::vector<std::string> changes = changes_since(path, now);
  if (anyway) {
    notes.insert(notes.end(), changes.begin(), changes.end());
  } else if (!changes.empty()) {
    throw OtherRun(
        fmt::format("{}: it is of another run: {}; --resume-anyway goes on all the same, another save.folder begins anew", path,
                    fmt::join(changes, "; ")));
  }
}

/// Steps in a path's last part; -1 for other names.
int64_t step_of(const std::string& path) { return checkpoint_step(parent_and_name(path).checkpoint).value_or(-1); }

/// Checkpoints of the folder that lie after `step` would be taken for this run's own later.
void refuse_newer(const std::string& folder, int64_t step) {
  if (folder.empty()) return;
  const std::vector<int64_t> steps = complete_checkpoints(*open_storage(folder));
  if (steps.empty() || steps.back() <= step) return;
  throw InputError(
      fmt::format("{}: it holds a checkpoint after step {} already, which is not the one to go on from; --resume auto "
                  "goes on from it, another save.folder begins anew",
                  folder, steps.back()));
}

/// What rank 0 looks for: the checkpoints to go on from, one after another, each of which is read only when it is asked for.
class Candidates {
 public:
  Candidates(const ResumeOptions& options, const RunState& now) : options_(options), now_(now) {
    // Ranks that are started again go on with what the ones before saved.
    if (options.from != "auto" && options.board && options.board->failed_ns() > 0) {
      ResumeOptions again = options;
      again.from = "auto";
      paths_ = candidates(again);
    }
    is_told_ = options.from != "auto" && paths_.empty();
    if (paths_.empty()) paths_ = candidates(options);
  }

  bool any() const { return !paths_.empty(); }  ///< there are some, be they good or not
  /// The one and only that was asked for.
  bool is_sole() const { return is_told_ && paths_.size() == 1; }

  /// The next that is whole and of this run; none is left where nothing is returned. `notes` gain what changed since it was
  /// saved, and which were passed over. Those before one of another run are its past.
  std::optional<std::string> next(std::vector<std::string>& notes) {
    while (next_ < paths_.size()) {
      const std::string path = paths_[next_++];
      std::vector<std::string> changes;
      try {
        check_same_run(path, now_, options_.anyway, changes);
      } catch (const OtherRun&) {
        if (!has_chosen_) throw;
        next_ = paths_.size();
        break;
      } catch (const DamageError& error) {
        pass_over(error, is_sole(), notes);
        continue;
      }
      if (!std::exchange(has_chosen_, true)) {
        notes.insert(notes.end(), changes.begin(), changes.end());
        if (is_told_) refuse_newer(options_.folder, step_of(path));
      }
      return path;
    }
    if (is_told_ && !any()) refuse_newer(options_.folder, -1);
    return std::nullopt;
  }

 private:
  const ResumeOptions& options_;
  const RunState& now_;
  std::vector<std::string> paths_;
  size_t next_ = 0;
  bool is_told_ = false;     ///< by ResumeOptions::from
  bool has_chosen_ = false;  ///< any
};

/// What rank 0 chose.
struct ResumeChoice {
  std::string path;      ///< the checkpoint to try; empty: none is left
  bool any = false;      ///< Candidates
  bool is_sole = false;  ///< Candidates
};

/// The next choice of rank 0, on all ranks; only there are there candidates.
ResumeChoice agree_on_choice(const World& world, std::chrono::milliseconds timeout, std::optional<Candidates>& candidates,
                             const std::function<Candidates()>& look, std::vector<std::string>& notes) {
  RankMeeting meeting(world, "choosing the checkpoint to go on from", timeout);
  nlohmann::json told;
  if (world.rank() == 0) {
    try {
      if (!candidates) candidates.emplace(look());
      told["path"] = candidates->next(notes).value_or("");
      told["any"] = candidates->any();
      told["is_sole"] = candidates->is_sole();
    } catch (const std::exception& error) {
      meeting.fail(error.what());
      throw;
    }
  }
  told = nlohmann::json::parse(meeting.of_rank_zero(told.dump()));
  return {told.at("path").get<std::string>(), told.at("any").get<bool>(), told.at("is_sole").get<bool>()};
}

}  // namespace

std::optional<Resumed> resume(Trainer& trainer, const World& world, const ResumeOptions& options, const RunState& now) {
  Resumed resumed;
  bool tries_snapshot = options.board != nullptr, had_snapshot = false;
  // The snapshot comes before the first checkpoint that is older.
  const auto snapshot_after = [&](int64_t step) -> std::optional<LoadReport> {
    if (!tries_snapshot) return std::nullopt;
    try {
      return trainer.load_from(*options.board, step);
    } catch (const InputError& error) {
      resumed.notes.emplace_back(error.what());
      tries_snapshot = false;
      had_snapshot = true;
      return std::nullopt;
    }
  };
  const auto loaded = [&](const std::string& path, const LoadReport& report) {
    resumed.path = path;
    resumed.step = report.step;
    resumed.notes.insert(resumed.notes.end(), report.skipped.begin(), report.skipped.end());
    return resumed;
  };
  std::optional<Candidates> candidates;
  ResumeChoice choice;
  while (true) {
    choice = agree_on_choice(
        world, trainer.timeout(), candidates, [&] { return Candidates(options, now); }, resumed.notes);
    if (choice.path.empty()) break;
    if (const auto report = snapshot_after(step_of(choice.path))) return loaded(kSnapshotPath, *report);
    try {
      return loaded(choice.path, trainer.load(choice.path, {.strict = !options.anyway}));
    } catch (const DamageError& error) {
      pass_over(error, choice.is_sole, resumed.notes);
    }
  }
  if (const auto report = snapshot_after(-1)) return loaded(kSnapshotPath, *report);
  if (!choice.any && !had_snapshot) return std::nullopt;
  const std::string why =
      resumed.notes.empty() ? "no checkpoint could be loaded" : fmt::format("{}", fmt::join(resumed.notes, "; "));
  throw InputError(fmt::format("{}: no checkpoint is left to go on from; another save.folder begins anew", why));
}

}  // namespace weft
