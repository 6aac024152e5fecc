#include "weft/train/run/run_saver.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <unistd.h>

#include <random>
#include <utility>

#include "weft/base/stopwatch.h"
#include "weft/checkpoint/format/checkpoint_folder.h"
#include "weft/checkpoint/storage/open_storage.h"
#include "weft/comm/host/host_name.h"
#include "weft/train/save/run_state.h"

namespace weft {
namespace {

KeepBest best_of_word(const std::string& word) {
  return word == "evaluation loss" ? KeepBest::loss : word == "evaluation accuracy" ? KeepBest::accuracy : KeepBest::none;
}

KeptCheckpoint kept(Storage& storage, int64_t step) {
  KeptCheckpoint checkpoint{.step = step, .clock = {.steps = static_cast<double>(step)}, .loss = {}, .accuracy = {}};
  const std::string name = checkpoint_name(step);
  const auto text = run_state_in(read_checkpoint(storage, name).texts);
  if (!text) return checkpoint;
  const RunState state = parse_run_state(*text, storage.full(name));
  checkpoint.clock = state.clock;
  if (state.evaluation && state.evaluation->step == step) {
    checkpoint.loss = state.evaluation->loss;
    checkpoint.accuracy = state.evaluation->accuracy;
  }
  return checkpoint;
}

/// What the rules let go, of those up to the one that was just saved: any after it is not of this run's past, or was passed
/// over as damaged. One that is damaged is known by its step alone.
void remove_old(const std::string& folder, const KeepRules& rules, int64_t saved) {
  if (rules.newest == 0) return;
  const std::unique_ptr<Storage> storage = open_storage(folder);
  std::vector<KeptCheckpoint> checkpoints;
  for (const int64_t step : complete_checkpoints(*storage)) {
    if (step > saved) break;
    try {
      checkpoints.push_back(kept(*storage, step));
    } catch (const InputError&) {
      checkpoints.push_back({.step = step, .clock = {.steps = static_cast<double>(step)}, .loss = {}, .accuracy = {}});
    }
  }
  for (const int64_t step : checkpoints_to_remove(checkpoints, rules)) remove_checkpoint(*storage, checkpoint_name(step));
}

}  // namespace

RunSaver::RunSaver(const Recipe& recipe, const RunLengths& lengths, Trainer& trainer, RunBoard* board,
                   std::function<bool()> stop_asked, std::function<void(const SaveReport&)> on_save)
    : recipe_(recipe.save),
      trainer_(trainer),
      board_(board),
      stop_asked_(std::move(stop_asked)),
      on_save_(std::move(on_save)),
      every_(lengths.save_every),
      memory_every_(lengths.memory_every),
      rules_{.newest = recipe.save.keep, .every = lengths.keep_every, .best = best_of_word(recipe.save.keep_best)} {}

RunSaver::~RunSaver() = default;

StorageLocks hold_folders(const SaveRecipe& recipe) {
  StorageLocks locks;
  if (recipe.folder.empty()) return locks;
  const std::string owner = fmt::format("process {} on {}, {:08x}", getpid(), this_host(), std::random_device()());
  for (const std::string& folder : {recipe.folder, recipe.upload}) {
    if (folder.empty()) continue;
    const std::unique_ptr<Storage> storage = open_storage(folder);
    locks.push_back(storage->lock(owner));
    remove_incomplete(*storage);
  }
  return locks;
}

bool RunSaver::after_step(const RunClock& before, const RunClock& now, bool is_last) {
  if (board_ && trainer_.world_group().rank() == 0) board_->set_steps_done(trainer_.steps_done());
  if (board_ && memory_every_.passed(before, now) && !is_last) take_snapshot();
  if (recipe_.folder.empty()) return false;
  Wishes wishes{.save = every_.passed(before, now) || (is_last && recipe_.on_end), .stop = stop_asked_ && stop_asked_()};
  // Clocks and signals are each rank's own.
  if (every_.unit == LengthUnit::seconds || stop_asked_) wishes = agree(wishes);
  if (trainer_.is_saving() && trainer_.is_save_done()) report(trainer_.finish_save());
  const bool ends = wishes.stop || is_last;
  if ((wishes.save || wishes.stop) && saved_step_ != trainer_.steps_done()) save(/*in_background=*/!ends);
  return wishes.stop;
}

bool RunSaver::is_stop_asked() const { return !recipe_.folder.empty() && stop_asked_ && agree({.stop = stop_asked_()}).stop; }

RunSaver::Wishes RunSaver::agree(Wishes own) const {
  const Group& world = trainer_.world_group();
  if (world.size() == 1) return own;
  const at::Device device = trainer_.model().options().device;
  at::Tensor wishes = at::zeros({2}, at::TensorOptions(at::kLong));
  wishes[0].fill_(own.save ? 1 : 0);
  wishes[1].fill_(own.stop ? 1 : 0);
  wishes = wishes.to(device);
  world.all_reduce(wishes, ReduceOp::sum, "saving").wait();
  wishes = wishes.cpu();
  return {.save = wishes[0].item<int64_t>() > 0, .stop = wishes[1].item<int64_t>() > 0};
}

void RunSaver::save(bool in_background) {
  saved_step_ = trainer_.steps_done();
  const std::string path =
      fmt::format("{}{}{}", recipe_.folder, recipe_.folder.ends_with('/') ? "" : "/", checkpoint_name(*saved_step_));
  for (const auto& lock : locks_) lock->keep();
  const Stopwatch waiting;
  if (trainer_.is_saving()) report(trainer_.finish_save());
  const double waited_s = waiting.seconds();
  const auto after = [folder = recipe_.folder, upload = recipe_.upload, step = *saved_step_, rules = rules_] {
    remove_old(folder, rules, step);
    if (upload.empty()) return;
    copy_checkpoint(*open_storage(folder), *open_storage(upload), checkpoint_name(step));
    remove_old(upload, rules, step);
  };
  trainer_.save_in_background(path, {.replace = true, .after = after});
  waited_s_ = waited_s;
  if (in_background) return;
  const Stopwatch writing;
  if (trainer_.is_saving()) {
    const SaveReport done = trainer_.finish_save();
    report(done, writing.seconds());
  }
}

void RunSaver::take_snapshot() {
  const Stopwatch stalled;
  trainer_.save_to(*board_);
  ++totals_.snapshots;
  totals_.stall_s += stalled.seconds();
}

/// Of the run: there are no steps left to stand still.
void RunSaver::finish() {
  if (trainer_.is_saving()) report(trainer_.finish_save());
}

void RunSaver::report(SaveReport report, double stood_still_s) {
  ++totals_.saves;
  report.copied_s += stood_still_s;
  report.waited_s += std::exchange(waited_s_, 0.0);
  totals_.stall_s += report.copied_s + report.waited_s;
  if (trainer_.world_group().rank() == 0 && on_save_) on_save_(report);
}

}  // namespace weft
