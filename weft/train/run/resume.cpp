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

/// The checkpoints to try, first to last, by path.
std::vector<std::string> candidates(const ResumeOptions& options) {
  if (options.from == "none" || (options.from == "auto" && options.folder.empty())) return {};
  const std::string from = options.from == "auto" ? options.folder : options.from;
  const std::unique_ptr<Storage> storage = open_storage(from);
  if (is_complete(*storage, "")) return {from};
  std::vector<std::string> paths;
  for (const int64_t step : complete_checkpoints(*storage))
    paths.insert(paths.begin(), joined_path(from, checkpoint_name(step)));
  if (paths.empty() && options.from != "auto") {
    throw InputError(
        fmt::format("{}: no checkpoint is there, and none below it; `weft checkpoint list` tells of a folder's", from));
  }
  return paths;
}

/// Throws InputError where the checkpoint is of another run than this one.
void check_same_run(const std::string& path, const RunState& now) {
  const CheckpointPath at = parent_and_name(path);
  const std::unique_ptr<Storage> storage = open_storage(at.storage);
  const CheckpointIndex index = read_checkpoint(*storage, at.checkpoint);
  const auto text = run_state_in(index.texts);
  if (!text) return;  // loading it says what is missing
  const RunState before = parse_run_state(*text, path);
  std::vector<std::string> changes = recipe_changes(before.recipe, now.recipe);
  for (const auto& [which, data] : before.data) {
    const auto found = now.data.find(which);
    if (found != now.data.end() && found->second != data) {
      changes.push_back(fmt::format("the {} data was {}, is {}", which, data, found->second));
    }
  }
  if (changes.empty()) return;
  throw OtherRun(fmt::format("{}: it is of another run: {}; --resume-anyway goes on all the same, --resume none begins anew",
                             path, fmt::join(changes, "; ")));
}

/// On rank 0: the checkpoints that may be loaded, and why others may not.
std::vector<std::string> choose(const ResumeOptions& options, const RunState& now, std::vector<std::string>& notes) {
  const std::vector<std::string> all = candidates(options);
  std::vector<std::string> good;
  for (const std::string& path : all) {
    try {
      if (!options.anyway) check_same_run(path, now);
      good.push_back(path);
    } catch (const OtherRun&) {
      throw;
    } catch (const InputError& error) {
      notes.emplace_back(error.what());
    }
  }
  if (good.empty() && !all.empty()) {
    throw InputError(fmt::format("{}; no other checkpoint is there: --resume none begins anew", notes.front()));
  }
  return good;
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

/// What rank 0 chooses: first to last.
std::vector<std::string> choose_for(const ResumeOptions& options, const RunState& now, std::vector<std::string>& notes) {
  if (options.from == "auto") return choose(options, now, notes);
  // Ranks that are started again go on with what the ones before saved.
  if (options.board && options.board->failed_ns() > 0) {
    ResumeOptions again = options;
    again.from = "auto";
    std::vector<std::string> paths = choose(again, now, notes);
    if (!paths.empty()) return paths;
  }
  std::vector<std::string> paths = choose(options, now, notes);
  refuse_newer(options.folder, paths.empty() ? -1 : step_of(paths.front()));
  return paths;
}

}  // namespace

std::optional<Resumed> resume(Trainer& trainer, const World& world, const ResumeOptions& options, const RunState& now) {
  RankMeeting meeting(world, "choosing the checkpoint to go on from", trainer.timeout());
  Resumed resumed;
  std::string chosen;
  if (world.rank() == 0) {
    try {
      chosen = nlohmann::json(choose_for(options, now, resumed.notes)).dump();
    } catch (const Error& error) {
      meeting.fail(error.what());
      throw;
    }
  }
  const auto paths = nlohmann::json::parse(meeting.of_rank_zero(chosen)).get<std::vector<std::string>>();
  const auto loaded = [&](const std::string& path, const LoadReport& report) {
    resumed.path = path;
    resumed.step = report.step;
    resumed.notes.insert(resumed.notes.end(), report.skipped.begin(), report.skipped.end());
    return resumed;
  };
  if (options.board) {
    try {
      const auto report = trainer.load_from(*options.board, paths.empty() ? -1 : step_of(paths.front()));
      if (report) return loaded("the snapshot in memory", *report);
    } catch (const InputError& error) {
      resumed.notes.emplace_back(error.what());
    }
  }
  for (const std::string& path : paths) {
    try {
      return loaded(path, trainer.load(path, {.strict = !options.anyway}));
    } catch (const InputError& error) {
      resumed.notes.emplace_back(error.what());
    }
  }
  if (paths.empty()) return std::nullopt;
  throw InputError(fmt::format("{}; no other checkpoint is there: --resume none begins anew", resumed.notes.back()));
}

}  // namespace weft
