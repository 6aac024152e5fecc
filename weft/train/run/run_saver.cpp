#include "weft/train/run/run_saver.h"

#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "weft/base/stopwatch.h"
#include "weft/base/storage_error.h"
#include "weft/checkpoint/format/checkpoint_folder.h"
#include "weft/checkpoint/storage/open_storage.h"
#include "weft/comm/host/host_name.h"
#include "weft/train/save/rank_meeting.h"

namespace weft {
namespace {

KeepBest best_of_word(const std::string& word) {
  return word == "evaluation loss" ? KeepBest::loss : word == "evaluation accuracy" ? KeepBest::accuracy : KeepBest::none;
}

}  // namespace

RunSaver::RunSaver(const Recipe& recipe, const RunLengths& lengths, Trainer& trainer, RunBoard* board, StopRequest stop,
                   std::function<void(const SaveReport&)> on_save)
    : recipe_(recipe.save),
      trainer_(trainer),
      board_(board),
      stop_(std::move(stop)),
      on_save_(std::move(on_save)),
      every_(lengths.save_every),
      memory_every_(lengths.memory_every),
      rules_{.newest = recipe.save.keep, .every = lengths.keep_every, .best = best_of_word(recipe.save.keep_best)},
      old_(std::make_shared<OldCheckpoints>(recipe.save.folder, rules_)) {}

RunSaver::~RunSaver() = default;

void RunSaver::hold(HeldFolders held, std::function<void(const std::string&)> on_note) {
  held_ = std::move(held);
  on_note_ = std::move(on_note);
  if (recipe_.upload.empty() || !held_.folder) return;
  second_ = std::make_shared<SecondPlace>(SecondPlace::Options{.folder = recipe_.folder,
                                                               .upload = recipe_.upload,
                                                               .rules = rules_,
                                                               .lock = held_.lock,
                                                               .held = held_.upload,
                                                               .failure = held_.upload_failure});
}

std::string RunSaver::finish_second_place(bool asked_to_end) {
  if (!second_) return "";
  std::string failure = second_->finish(saved_step_, [&] { return asked_to_end || (stop_.asked && stop_.asked()); });
  const auto show = [this](const std::string& note) {
    if (!note.empty() && on_note_) on_note_(note);
  };
  show(second_->take_note());
  if (const std::optional<int64_t> left = second_->under_way()) {
    const std::string text =
        fmt::format("asked to end: checkpoints from step {} on are not copied to {}", *left, recipe_.upload);
    show(text);
    if (!asked_to_end) failure = text;
    second_->leave();
    totals_.upload_left = true;
    if (stop_.saved) stop_.saved();
  }
  try {
    if (!totals_.upload_left && saved_step_) old_->remove(*saved_step_);  // kept only for a copy
  } catch (const Error& error) {
    show(error.what());
  }
  return failure;
}

namespace {

HeldFolders hold_here(const SaveRecipe& recipe, const LockOptions& lock) {
  HeldFolders held{.lock = lock};
  held.lock.on_wait = {};  // on_wait belongs to this thread
  const std::unique_ptr<Storage> storage = open_storage(recipe.folder);
  held.folder = storage->lock(lock);
  remove_incomplete(*storage);
  if (recipe.upload.empty()) return held;
  try {
    const std::unique_ptr<Storage> upload = open_storage(recipe.upload);
    held.upload = upload->lock(lock);
    remove_incomplete(*upload);
  } catch (const HeldError&) {
    throw;
  } catch (const Error& error) {
    if (complete_checkpoints(*storage).empty()) throw;  // a new run: most likely a wrong name
    held.upload_failure = error.what();
  }
  return held;
}

}  // namespace

HeldFolders hold_folders(const SaveRecipe& recipe, const World& world, std::chrono::milliseconds timeout, const RunBoard* board,
                         const std::function<void(const std::string&)>& on_note) {
  RankMeeting meeting(world, "waiting until no other run saves to save.folder", std::chrono::hours(1), timeout);
  if (world.rank() > 0) {
    meeting.wait_for("held", 0);
    return {};
  }
  LockOptions lock{.owner = fmt::format("process {} on {}", getpid(), this_host()), .on_wait = on_note};
  if (board != nullptr && board->failed_ns() > 0) lock.patience = lock.stale;
  try {
    HeldFolders held = recipe.folder.empty() ? HeldFolders() : hold_here(recipe, lock);  // the others wait in any case
    meeting.send("held", "");
    return held;
  } catch (const std::exception& error) {
    meeting.fail(error.what());
    throw;
  }
}

std::vector<double> RunSaver::vote(const RunClock& now) {
  const bool due = every_.unit == LengthUnit::seconds && trainer_.world_group().rank() == 0 && every_.passed(voted_, now);
  voted_ = now;
  return {due ? 1.0 : 0.0, is_asked_here() ? 1.0 : 0.0};
}

void RunSaver::hear(const std::vector<double>& votes) {
  if (votes.empty()) return;
  heard_.save |= votes[0] > 0.0;
  heard_.stop |= votes[1] > 0.0;
}

bool RunSaver::is_due(const RunClock& before, const RunClock& now, bool is_last, bool asks_again) {
  due_ = {.snapshot = board_ != nullptr && memory_every_.passed(before, now) && !is_last};
  if (recipe_.folder.empty()) return due_.snapshot;
  const Wishes heard = std::exchange(heard_, {});
  due_.save = heard.save || (every_.unit != LengthUnit::seconds && every_.passed(before, now)) || (is_last && recipe_.on_end);
  due_.stop = heard.stop;
  if (asks_again || trainer_.world_group().size() == 1) due_.stop |= is_any_asked();
  return due_.snapshot || due_.save || due_.stop;
}

bool RunSaver::after_step(bool is_last) {
  if (board_ && trainer_.world_group().rank() == 0) board_->set_steps_done(trainer_.steps_done() - trainer_.unsettled());
  if (due_.snapshot) take_snapshot();
  if (recipe_.folder.empty()) return false;
  if (second_ && on_note_) {
    if (const std::string note = second_->take_note(); !note.empty()) on_note_(note);
  }
  if (trainer_.is_saving() && trainer_.is_save_done()) report(trainer_.finish_save());
  if ((due_.save || due_.stop) && saved_step_ != trainer_.steps_done()) {
    save(due_.stop || is_last ? Overlap::nothing : Overlap::steps);
  }
  if (!due_.stop) return false;
  finish();  // the previous save
  return true;
}

bool RunSaver::before_steps(const RunClock& now) {
  is_due(now, now, /*is_last=*/false, /*asks_again=*/true);
  return after_step(/*is_last=*/false);
}

bool RunSaver::is_stop_asked() {
  if (!recipe_.folder.empty() && !heard_.stop) heard_.stop = is_any_asked();
  return heard_.stop;
}

bool RunSaver::is_any_asked() const {
  if (trainer_.world_group().size() == 1) return is_asked_here();
  const at::Device device = trainer_.model().options().device;
  const at::Tensor asked = at::full({1}, is_asked_here() ? 1 : 0, at::kLong).to(device);
  trainer_.world_group().all_reduce(asked, ReduceOp::sum, "saving").wait();
  return asked.item<int64_t>() > 0;
}

void RunSaver::save(Overlap beside) {
  before_save_();
  saved_step_ = trainer_.steps_done();
  const std::string path =
      fmt::format("{}{}{}", recipe_.folder, recipe_.folder.ends_with('/') ? "" : "/", checkpoint_name(*saved_step_));
  if (held_.folder && held_.folder->keep() && on_note_) {
    on_note_(
        fmt::format("{}: it changed during this run: removed, moved, or held by another run; what was saved there "
                    "before may be gone",
                    recipe_.folder));
  }
  const Stopwatch waiting;
  if (trainer_.is_saving()) report(trainer_.finish_save());
  const double waited_s = waiting.seconds();
  const auto after = [old = old_, second = second_, step = *saved_step_] {
    if (second) second->copy(step);
    old->remove(step, second ? second->under_way() : std::nullopt);
  };
  saving_step_ = *saved_step_;
  trainer_.save_in_background(path, {.replace = true, .after = after});
  waited_s_ = waited_s;
  if (beside == Overlap::steps) return;
  const Stopwatch writing;
  if (!trainer_.is_saving()) return;
  const SaveReport done = trainer_.finish_save();
  report(done, writing.seconds());
}

void RunSaver::resumed_from(std::optional<int64_t> checkpoint, const RunClock& clock) {
  voted_ = clock;
  if (checkpoint) saved_step_ = checkpoint;
  const bool leads = board_ != nullptr && trainer_.world_group().rank() == 0;
  if (leads && (checkpoint || board_->saved_step() < 0)) board_->set_saved_step(checkpoint.value_or(0));
}

void RunSaver::take_snapshot() {
  before_save_();
  const Stopwatch stalled;
  trainer_.save_to(*board_);
  ++totals_.snapshots;
  totals_.stall_s += stalled.seconds();
}

/// Called at the end of the run: no steps are left to pause.
void RunSaver::finish() {
  if (trainer_.is_saving()) report(trainer_.finish_save());
  if (saved_step_ == trainer_.steps_done() && stop_.saved) stop_.saved();
}

void RunSaver::report(SaveReport report, double stood_still_s) {
  ++totals_.saves;
  report.step = saving_step_;
  report.copied_s += stood_still_s;
  report.waited_s += std::exchange(waited_s_, 0.0);
  totals_.stall_s += report.copied_s + report.waited_s;
  if (trainer_.world_group().rank() != 0) return;
  if (board_) board_->set_saved_step(saving_step_);
  if (on_save_) on_save_(report);
}

}  // namespace weft
