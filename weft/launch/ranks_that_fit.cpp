#include "weft/launch/ranks_that_fit.h"

#include <algorithm>
#include <utility>

#include "weft/base/blocked_signals.h"
#include "weft/base/error.h"

namespace weft {

RanksThatFit::RanksThatFit(std::function<void(int)> check) : check_(std::move(check)) {}

RanksThatFit::~RanksThatFit() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

std::optional<bool> RanksThatFit::ask(int ranks) {
  const std::lock_guard lock(mutex_);
  const auto [answer, is_new] = answers_.try_emplace(ranks);
  if (is_new && !thread_.joinable()) {
    const BlockedSignals blocked;
    thread_ = std::thread([this] { find(); });
  }
  if (is_new) changed_.notify_one();
  if (!answer->second.is_known) return std::nullopt;
  try {
    if (answer->second.error) std::rethrow_exception(answer->second.error);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

bool RanksThatFit::is_busy() {
  const std::lock_guard lock(mutex_);
  return std::any_of(answers_.begin(), answers_.end(), [](const auto& answer) { return !answer.second.is_known; });
}

void RanksThatFit::check(int ranks) {
  const std::lock_guard lock(mutex_);
  const auto answer = answers_.find(ranks);
  if (answer != answers_.end() && answer->second.error) std::rethrow_exception(answer->second.error);
}

void RanksThatFit::find() {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto asked = [this] {
      return std::find_if(answers_.begin(), answers_.end(), [](const auto& answer) { return !answer.second.is_known; });
    };
    changed_.wait(lock, [&] { return ends_ || asked() != answers_.end(); });
    if (ends_) return;
    auto& [ranks, answer] = *asked();  // stays in place while others are added
    lock.unlock();
    std::exception_ptr error;
    try {
      check_(ranks);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    answer = {.is_known = true, .error = std::move(error)};
  }
}

}  // namespace weft
