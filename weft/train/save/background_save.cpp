#include "weft/train/save/background_save.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "weft/checkpoint/storage/open_storage.h"
#include "weft/train/save/checkpoint_write.h"

namespace weft {
namespace {

/// Steps come first: on a host without a spare core the save takes what they leave.
void run_behind_steps() {
  constexpr int kNice = 5;
  pthread_setname_np(pthread_self(), "weft-save");
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);  // of this thread alone, on Linux
}

}  // namespace

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
    run();
  });
}

void BackgroundSave::run_now(Job job) {
  begin(std::move(job));
  run();
  job_.report.copied_s += job_.report.seconds;
}

void BackgroundSave::run() {
  try {
    const std::unique_ptr<Storage> storage = open_storage(job_.storage);
    CheckpointWrite write(*storage, job_.checkpoint, *job_.meeting, job_.replace);
    job_.report.bytes = write.run(job_.write, job_.texts);
    job_.report.seconds = begin_.seconds();
    if (job_.meeting->rank() == 0 && job_.after) run_after();
  } catch (...) {
    error_ = std::current_exception();
  }
  done_ = true;
}

/// The checkpoint is whole, whatever comes of this.
void BackgroundSave::run_after() {
  try {
    job_.after();
  } catch (const std::exception& error) {
    job_.report.note = error.what();
  }
}

SaveReport BackgroundSave::wait() {
  if (thread_.joinable()) thread_.join();
  under_way_ = false;
  job_.write = nullptr;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return job_.report;
}

void BackgroundSave::abandon() {
  if (thread_.joinable()) job_.meeting->give_up();
}

}  // namespace weft
