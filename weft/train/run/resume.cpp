#include "weft/train/run/resume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
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

std::string passed_over(const std::exception& why) { return fmt::format("passed over: {}", why.what()); }

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

/// What a run that goes on from the checkpoint would do otherwise than the one that saved it. Throws InputError where the
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
    throw InputError(
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

/// What rank 0 chose.
struct ResumeChoice {
  std::vector<std::string> paths;  ///< checkpoints to try, first to last
  bool any = false;                ///< there are some, be they good or not
};

/// The checkpoints that may be loaded, and why others may not. Those before one of another run are its past.
ResumeChoice choose(const ResumeOptions& options, const RunState& now, std::vector<std::string>& notes) {
  const std::vector<std::string> all = candidates(options);
  ResumeChoice choice{.paths = {}, .any = !all.empty()};
  for (const std::string& path : all) {
    try {
      std::vector<std::string> changes;
      check_same_run(path, now, options.anyway, changes);
      if (choice.paths.empty()) notes.insert(notes.end(), changes.begin(), changes.end());
      choice.paths.push_back(path);
    } catch (const OtherRun&) {
      if (choice.paths.empty()) throw;
      break;
    } catch (const InputError& error) {
      notes.push_back(passed_over(error));
    }
  }
  return choice;
}

/// Steps in a path's last part; -1 for other names.
int64_t step_of(const std::string& path) { return checkpoint_step(parent_and_name(path).checkpoint).value_or(-1); }

/// Checkpoints of the folder that lie after `step` would be taken for this run's own later.
void refuse_newer(const std::string& folder, int64_t step) {
  if (folder.empty()) return;
  const std::vector<int64_t> steps = complete_checkpoints(*open_storage(folder));
  if (steps.empty() || steps.back() <= step) return;
  throw InputError(
      fmt::format("{}: it holds a checkpoint after step {} already, which is not the one to go on from; name another "
                  "save.folder, or remove what is there",
                  folder, steps.back()));
}

/// What rank 0 chooses.
ResumeChoice choose_for(const ResumeOptions& options, const RunState& now, std::vector<std::string>& notes) {
  if (options.from == "auto") return choose(options, now, notes);
  // Ranks that are started again go on with what the ones before saved.
  if (options.board && options.board->failed_ns() > 0) {
    ResumeOptions again = options;
    again.from = "auto";
    ResumeChoice choice = choose(again, now, notes);
    if (choice.any) return choice;
  }
  ResumeChoice choice = choose(options, now, notes);
  refuse_newer(options.folder, choice.paths.empty() ? -1 : step_of(choice.paths.front()));
  return choice;
}

/// The choice of rank 0, on all ranks.
ResumeChoice agree_on_choice(const World& world, std::chrono::milliseconds timeout, const ResumeOptions& options,
                             const RunState& now, std::vector<std::string>& notes) {
  RankMeeting meeting(world, "choosing the checkpoint to go on from", timeout);
  nlohmann::json told;
  if (world.rank() == 0) {
    try {
      const ResumeChoice choice = choose_for(options, now, notes);
      told = {{"paths", choice.paths}, {"any", choice.any}};
    } catch (const std::exception& error) {
      meeting.fail(error.what());
      throw;
    }
  }
  told = nlohmann::json::parse(meeting.of_rank_zero(told.dump()));
  return {told.at("paths").get<std::vector<std::string>>(), told.at("any").get<bool>()};
}

}  // namespace

std::optional<Resumed> resume(Trainer& trainer, const World& world, const ResumeOptions& options, const RunState& now) {
  Resumed resumed;
  const ResumeChoice choice = agree_on_choice(world, trainer.timeout(), options, now, resumed.notes);
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
  for (const std::string& path : choice.paths) {
    if (const auto report = snapshot_after(step_of(path))) return loaded("the snapshot in memory", *report);
    try {
      return loaded(path, trainer.load(path, {.strict = !options.anyway}));
    } catch (const InputError& error) {
      resumed.notes.push_back(passed_over(error));
    }
  }
  if (const auto report = snapshot_after(-1)) return loaded("the snapshot in memory", *report);
  if (!choice.any && !had_snapshot) return std::nullopt;
  const std::string why =
      resumed.notes.empty() ? "no checkpoint could be loaded" : fmt::format("{}", fmt::join(resumed.notes, "; "));
  throw InputError(fmt::format("{}: no checkpoint is left to go on from; another save.folder begins anew", why));
}

}  // namespace weft
