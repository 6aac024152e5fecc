#include "weft/comm/store/call_thread.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

namespace weft {
namespace {

// Time for an idle thread to end.
constexpr std::chrono::milliseconds kToEnd{200};

}  // namespace

struct CallThread::Job {
  std::function<void()> call;
  bool done = false;
  std::exception_ptr error;
};

struct CallThread::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Job>> waiting;
  bool closing = false;
  bool ended = false;
};

CallThread::CallThread() : shared_(std::make_shared<Shared>()), thread_([shared = shared_] { work(shared); }) {
  pthread_setname_np(thread_.native_handle(), "weft-store");
}

CallThread::~CallThread() {
  std::unique_lock lock(shared_->mutex);
  shared_->closing = true;
  shared_->changed.notify_all();
  const bool ended = shared_->changed.wait_for(lock, kToEnd, [this] { return shared_->ended; });
  lock.unlock();
  ended ? thread_.join() : thread_.detach();
}

bool CallThread::run(std::function<void()> call, const Deadline& deadline) {
  const auto job = std::make_shared<Job>(Job{std::move(call), false, nullptr});
  std::unique_lock lock(shared_->mutex);
  shared_->waiting.push_back(job);
  shared_->changed.notify_all();
  if (!shared_->changed.wait_until(lock, deadline.end(), [&] { return job->done; })) {
    const auto place = std::find(shared_->waiting.begin(), shared_->waiting.end(), job);
    if (place != shared_->waiting.end()) shared_->waiting.erase(place);
    return false;
  }
  // Moved here, so that this thread, which reads the exception, also releases it last.
  if (const std::exception_ptr error = std::exchange(job->error, nullptr)) std::rethrow_exception(error);
  return true;
}

void CallThread::work(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  while (true) {
    shared->changed.wait(lock, [&] { return shared->closing || !shared->waiting.empty(); });
    if (shared->waiting.empty()) break;
    std::shared_ptr<Job> job = shared->waiting.front();
    shared->waiting.pop_front();
    lock.unlock();
    std::exception_ptr error;
    try {
      job->call();
    } catch (...) {
      error = std::current_exception();
    }
    job->call = nullptr;  // releases its state outside the lock
    lock.lock();
    job->error = std::move(error);
    job->done = true;
    shared->changed.notify_all();
  }
  shared->ended = true;
  shared->changed.notify_all();
}

}  // namespace weft
