#include "weft/train/save/background_save.h"

#include <utility>

#include "weft/train/save/behind_steps.h"
#include "weft/train/save/checkpoint_write.h"

namespace weft {

BackgroundSave::~BackgroundSave() {
  if (thread_.joinable()) thread_.join();
}

void BackgroundSave::begin(Job job) {
  job_ = std::move(job);
  error_ = nullptr;
  done_ = false;
  under_way_ = true;
  begin_ = Stopwatch();
}

void BackgroundSave::start(Job job) {
  begin(std::move(job));
  thread_ = std::thread([this] {
    run_behind_steps();
    write();
    run_after();
  });
}

void BackgroundSave::run_now(Job job) {
  begin(std::move(job));
  write();
  job_.report.copied_s += job_.report.seconds;
  thread_ = std::thread([this] {
    run_behind_steps();
    run_after();
  });
}

void BackgroundSave::write() {
  try {
    CheckpointWrite write(job_.storage, job_.checkpoint, *job_.meeting, job_.replace);
    job_.report.bytes = write.run(job_.write, job_.texts);
    job_.report.seconds = begin_.seconds();
  } catch (...) {
    error_ = std::current_exception();
  }
  job_.write = nullptr;
}

/// The checkpoint is complete, whatever happens here.
void BackgroundSave::run_after() {
  try {
    if (!error_ && job_.meeting->rank() == 0 && job_.after) job_.after();
  } catch (const std::exception& failure) {
    job_.report.note = failure.what();
  }
  done_ = true;
}

SaveReport BackgroundSave::wait() {
  if (thread_.joinable()) thread_.join();
  under_way_ = false;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return job_.report;
}

void BackgroundSave::abandon() {
  if (thread_.joinable()) job_.meeting->give_up();
}

}  // namespace weft
