#include "weft/train/save/second_place.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "weft/base/storage_error.h"
#include "weft/base/units.h"
#include "weft/checkpoint/format/checkpoint_folder.h"
#include "weft/checkpoint/storage/open_storage.h"
#include "weft/train/save/behind_steps.h"
#include "weft/train/save/old_checkpoints.h"

namespace weft {

namespace {

/// Time for its thread to end after a request.
constexpr std::chrono::seconds kToEnd{5};

std::string failure_note(const std::string& failure) {
  return failure.empty() ? "" : fmt::format("save.upload: {}; training continues, and each save retries", failure);
}

}  // namespace

struct SecondPlace::Work {
  explicit Work(Options given)
      : options(std::move(given)), old(options.upload, options.rules), failure(options.failure), note(failure_note(failure)) {}

  void run();
  void copy_one(int64_t step);
  void note_outcome(const std::string& outcome);
  bool is_idle() const { return !next && !under_way; }

  Options options;
  OldCheckpoints old;
  std::mutex mutex;
  std::condition_variable wake;
  std::optional<int64_t> next, under_way;
  std::string failure, note;  ///< from the last copy; to report
  int64_t lacking = 0;        ///< failed copies since the last success
  std::atomic<bool> stops = false;
  bool has_ended = false;  ///< its thread has ended
};

SecondPlace::SecondPlace(Options options) : work_(std::make_shared<Work>(std::move(options))) {
  thread_ = std::thread([work = work_] {
    run_behind_steps();
    work->run();
  });
}

SecondPlace::~SecondPlace() {
  if (!thread_.joinable()) return;
  std::unique_lock lock(work_->mutex);
  work_->stops = true;
  work_->wake.notify_all();
  const bool has_ended = work_->wake.wait_for(lock, kToEnd, [this] { return work_->has_ended; });
  lock.unlock();
  has_ended ? thread_.join() : thread_.detach();  // a hanging network must not delay the end
}

void SecondPlace::leave() { thread_.detach(); }

void SecondPlace::copy(int64_t step) {
  const std::lock_guard lock(work_->mutex);
  work_->next = step;
  work_->wake.notify_all();
}

std::optional<int64_t> SecondPlace::under_way() const {
  const std::lock_guard lock(work_->mutex);
  return work_->under_way ? work_->under_way : work_->next;
}

std::string SecondPlace::take_note() {
  const std::lock_guard lock(work_->mutex);
  return std::exchange(work_->note, "");
}

std::string SecondPlace::finish(std::optional<int64_t> newest, const std::function<bool()>& asked_to_end) {
  constexpr std::chrono::milliseconds kLookEvery{50};
  Work& work = *work_;
  const auto wait = [&](std::unique_lock<std::mutex>& lock) {
    while (!asked_to_end() && !work.wake.wait_for(lock, kLookEvery, [&work] { return work.is_idle(); })) {
    }
    return work.is_idle();
  };
  std::string failure;
  const auto is_there = [&] {
    try {
      return is_complete(*open_storage(work.options.upload), checkpoint_name(*newest));
    } catch (const std::exception& error) {
      failure = error.what();
      return false;
    }
  };
  std::unique_lock lock(work.mutex);
  if (!wait(lock) || !newest) return "";
  lock.unlock();
  if (is_there()) return "";
  if (failure.empty()) copy(*newest);
  lock.lock();
  if (!wait(lock)) return "";
  if (failure.empty()) failure = work.failure;
  if (failure.empty()) return "";
  work.note.clear();  // reported now
  return fmt::format("the newest checkpoint is not in save.upload ({}): {}", work.options.upload, failure);
}

void SecondPlace::Work::run() {
  std::unique_lock lock(mutex);
  while (true) {
    wake.wait(lock, [this] { return next || stops; });
    if (stops) break;
    under_way = std::exchange(next, std::nullopt);
    lock.unlock();
    std::string outcome;
    try {
      copy_one(*under_way);
    } catch (const std::exception& error) {
      outcome = error.what();
    }
    lock.lock();
    note_outcome(outcome);
    under_way.reset();
    wake.notify_all();
  }
  has_ended = true;
  wake.notify_all();
}

/// Call it holding the lock.
void SecondPlace::Work::note_outcome(const std::string& outcome) {
  if (!outcome.empty() && failure.empty()) {
    note = failure_note(outcome);
  } else if (outcome.empty() && !failure.empty()) {
    note = fmt::format("save.upload: copied to {} again{}", options.upload,
                       lacking == 0 ? "" : fmt::format(", after {} that failed", counted(lacking, "checkpoint")));
  }
  lacking = outcome.empty() ? 0 : lacking + 1;
  failure = outcome;
}

void SecondPlace::Work::copy_one(int64_t step) {
  const std::unique_ptr<Storage> from = open_storage(options.folder), to = open_storage(options.upload);
  if (options.held) {
    options.held->keep();
  } else {
    options.held = to->lock(options.lock);
    remove_incomplete(*to);
  }
  copy_checkpoint(*from, *to, checkpoint_name(step), [this] {
    if (stops) throw Error("the run has ended");
  });
  old.remove(step);
}

}  // namespace weft
