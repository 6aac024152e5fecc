#include "weft/comm/c10d/peer_watch.h"

#include <pthread.h>

#include <chrono>
#include <utility>

namespace weft {
namespace {

constexpr std::chrono::milliseconds kLookAgainAfter{200};

}  // namespace

PeerWatch::PeerWatch(std::shared_ptr<RankTable> table, std::vector<int> ranks, std::function<void()> on_gone)
    : table_(std::move(table)), ranks_(std::move(ranks)), on_gone_(std::move(on_gone)), thread_([this] { look(); }) {
  pthread_setname_np(thread_.native_handle(), "weft-watch");
}

PeerWatch::~PeerWatch() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

// Does not notify: the thread wakes up on its own, so short calls cost no switch to it.
void PeerWatch::Looking::set(bool looking) {
  if (watch_ == nullptr) return;
  const std::lock_guard lock(watch_->mutex_);
  watch_->looking_ = looking;
}

void PeerWatch::look() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    changed_.wait_for(lock, kLookAgainAfter, [this] { return ending_; });
    if (ending_ || !looking_) continue;
    lock.unlock();
    const bool gone = table_->any_gone(ranks_);
    lock.lock();
    if (!gone || !looking_) continue;
    lock.unlock();
    on_gone_();
    return;
  }
}

}  // namespace weft
