#include "weft/comm/c10d/message_checks.h"

#include <pthread.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/comm/c10d/gloo_backend.h"

namespace weft {

MessageChecks::~MessageChecks() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  for (auto& [peer, lane] : lanes_) lane.thread.join();
}

void MessageChecks::add(const Call& call) {
  Work check = records_.compare_message(call);
  const std::lock_guard lock(mutex_);
  Lane& lane = lanes_[call.root];
  lane.checks.push_back(std::move(check));
  if (!lane.thread.joinable()) {
    lane.thread = std::thread([this, &lane] { run(lane); });
    pthread_setname_np(lane.thread.native_handle(), "weft-messages");
  }
  changed_.notify_all();
}

bool MessageChecks::finish(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  const auto is_idle = [](const auto& lane) { return lane.second.checks.empty(); };
  changed_.wait_until(lock, deadline.end(), [&] { return failed_ || std::all_of(lanes_.begin(), lanes_.end(), is_idle); });
  return std::all_of(lanes_.begin(), lanes_.end(), is_idle);
}

// After an error the rest is dropped: the group has ended.
void MessageChecks::run(Lane& lane) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !lane.checks.empty(); });
    if (lane.checks.empty()) return;
    Work check = lane.checks.front();
    lock.unlock();
    bool holds = true;
    try {
      check.wait();
    } catch (const Error&) {  // the group keeps it, and throws it from the next call
      holds = false;
    }
    lock.lock();
    lane.checks.pop_front();
    if (!holds) {
      lane.checks.clear();
      failed_ = true;
    }
    changed_.notify_all();
  }
}

}  // namespace weft
