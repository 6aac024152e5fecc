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

/// A complete checkpoint of another run: no reason to take an older one.
class OtherRun : public InputError {
 public:
  using InputError::InputError;
};

std::string joined_path(const std::string& folder, const std::string& name) {
  return folder.ends_with('/') ? folder + name : folder + "/" + name;
}

/// Notes a damaged checkpoint; throws if it is the only candidate.
void pass_over(const DamageError& error, bool is_sole, std::vector<std::string>& notes) {
  if (is_sole) {
    throw DamageError(
        fmt::format("{}; it was chosen to resume from: name another (`weft checkpoint list` lists them), or \"auto\", "
                    "which takes the newest complete one in save.folder",
                    error.what()));
  }
  notes.push_back(fmt::format("skipped: {}", error.what()));
}

/// Paths of the complete checkpoints in a folder, newest first; or the folder itself if it is one.
std::vector<std::string> checkpoints_of(const std::string& folder) {
  if (folder.empty()) return {};
  const std::unique_ptr<Storage> storage = open_storage(folder);
  if (is_complete(*storage, "")) return {folder};
  std::vector<std::string> paths;
  for (const int64_t step : complete_checkpoints(*storage))
    paths.insert(paths.begin(), joined_path(folder, checkpoint_name(step)));
  return paths;
}

/// Paths of the checkpoints to try, in order.
std::vector<std::string> candidates(const ResumeOptions& options) {
  if (options.from == "none") return {};
  if (options.from == "auto") {
    std::vector<std::string> paths = checkpoints_of(options.folder);
    return paths.empty() ? checkpoints_of(options.upload) : paths;
  }
  std::vector<std::string> paths = checkpoints_of(options.from);
  if (paths.empty()) {
    throw InputError(
        fmt::format("{}: no checkpoint is there or below it; `weft checkpoint list` lists those of a folder", options.from));
  }
  return paths;
}

/// Differences between a run resumed from the checkpoint and the run that saved it. Throws DamageError if the checkpoint is
/// damaged.
std::vector<std::string> changes_since(const std::string& path, const RunState& now) {
  const CheckpointPath at = parent_and_name(path);
  const std::unique_ptr<Storage> storage = open_storage(at.storage);
  const CheckpointIndex index = read_checkpoint(*storage, at.checkpoint);
  const auto text = run_state_in(index.texts);
  if (!text) return {};  // loading reports what is missing
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
    throw DamageError(fmt::format("{}: it was saved after step {:.0f}, which differs from its name", path, before.clock.steps));
  }
  return changes;
}

/// Throws OtherRun if the checkpoint belongs to another run; with `anyway`, notes the changes instead.
void check_same_run(const std::string& path, const RunState& now, bool anyway, std::vector<std::string>& notes) {
  const std::vector<std::string> changes = changes_since(path, now);
  if (anyway) {
    notes.insert(notes.end(), changes.begin(), changes.end());
  } else if (!changes.empty()) {
    throw OtherRun(fmt::format("{}: it belongs to another run: {}; --resume-anyway resumes it, another save.folder starts over",
                               path, fmt::join(changes, "; ")));
  }
}

/// Step number in a path's last part; -1 for other names.
int64_t step_of(const std::string& path) { return checkpoint_step(parent_and_name(path).checkpoint).value_or(-1); }

/// Rejects later checkpoints in the folder: they would be mistaken for this run's.
void refuse_newer(const std::string& folder, int64_t step) {
  if (folder.empty()) return;
  const std::vector<int64_t> steps = complete_checkpoints(*open_storage(folder));
  if (steps.empty() || steps.back() <= step) return;
  throw InputError(
      fmt::format("{}: it already holds a checkpoint after step {}, which is not the one to resume from; --resume auto "
                  "resumes from it, another save.folder starts over",
                  folder, steps.back()));
}

/// Rank 0's search: the checkpoints to resume from, in order, each read only when needed.
class Candidates {
 public:
  Candidates(const ResumeOptions& options, const RunState& now) : options_(options), now_(now) {
    // Restarted ranks resume the previous ranks' checkpoints.
    if (options.from != "auto" && options.board && options.board->failed_ns() > 0) {
      ResumeOptions again = options;
      again.from = "auto";
      paths_ = candidates(again);
    }
    is_named_ = options.from != "auto" && paths_.empty();
    if (paths_.empty()) paths_ = candidates(options);
  }

  bool any() const { return !paths_.empty(); }  ///< there are some, good or bad
  /// Exactly one was requested.
  bool is_sole() const { return is_named_ && paths_.size() == 1; }

  /// The next complete checkpoint of this run; empty if none is left. Adds to `notes` what changed since it was saved, and
  /// which were skipped. Checkpoints older than one of another run belong to that run too.
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
        if (is_named_) refuse_newer(options_.folder, step_of(path));
      }
      return path;
    }
    if (is_named_ && !any()) refuse_newer(options_.folder, -1);
    return std::nullopt;
  }

 private:
  const ResumeOptions& options_;
  const RunState& now_;
  std::vector<std::string> paths_;
  size_t next_ = 0;
  bool is_named_ = false;    ///< by ResumeOptions::from
  bool has_chosen_ = false;  ///< chose one already
};

/// Rank 0's choice.
struct ResumeChoice {
  std::string path;      ///< the checkpoint to try; empty: none left
  bool any = false;      ///< as in Candidates
  bool is_sole = false;  ///< as in Candidates
};

/// Shares rank 0's next choice with all ranks; only rank 0 has candidates.
ResumeChoice agree_on_choice(const World& world, std::chrono::milliseconds timeout, std::optional<Candidates>& candidates,
                             const std::function<Candidates()>& look, std::vector<std::string>& notes) {
  RankMeeting meeting(world, "choosing the checkpoint to resume from", timeout);
  nlohmann::json sent;
  if (world.rank() == 0) {
    try {
      if (!candidates) candidates.emplace(look());
      sent["path"] = candidates->next(notes).value_or("");
      sent["any"] = candidates->any();
      sent["is_sole"] = candidates->is_sole();
    } catch (const std::exception& error) {
      meeting.fail(error.what());
      throw;
    }
  }
  sent = nlohmann::json::parse(meeting.of_rank_zero(sent.dump()));
  return {sent.at("path").get<std::string>(), sent.at("any").get<bool>(), sent.at("is_sole").get<bool>()};
}

}  // namespace

std::optional<Resumed> resume(Trainer& trainer, const World& world, const ResumeOptions& options, const RunState& now) {
  Resumed resumed;
  bool tries_snapshot = options.board != nullptr, had_snapshot = false;
  // The snapshot is tried before the first older checkpoint.
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
      return loaded(choice.path, trainer.load(choice.path, {.strict = !options.anyway, .loosely = "--resume-anyway"}));
    } catch (const DamageError& error) {
      pass_over(error, choice.is_sole, resumed.notes);
    }
  }
  if (const auto report = snapshot_after(-1)) return loaded(kSnapshotPath, *report);
  if (!choice.any && !had_snapshot) return std::nullopt;
  const std::string why =
      resumed.notes.empty() ? "no checkpoint could be loaded" : fmt::format("{}", fmt::join(resumed.notes, "; "));
  throw InputError(fmt::format("{}: no checkpoint is left to resume from; use another save.folder to start over", why));
}

}  // namespace weft
