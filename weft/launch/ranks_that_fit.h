// RanksThatFit: finds out which numbers of ranks a run can be laid out on. A check may take minutes, so a thread runs it, once
// per number, while the caller keeps answering the agents of other hosts (launch/agent/head.h).
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

namespace weft {

/// Calls `check` once per number. All calls come from one thread.
class RanksThatFit {
 public:
  /// `check` throws InputError if the run cannot be laid out on that many ranks; called from another thread.
  explicit RanksThatFit(std::function<void(int ranks)> check);
  /// Waits for the check in progress and skips the others.
  ~RanksThatFit();
  RanksThatFit(const RanksThatFit&) = delete;
  RanksThatFit& operator=(const RanksThatFit&) = delete;

  /// Returns whether the run can use that many ranks; nullopt while the check, which the first call starts, is running.
  /// Rethrows what `check` threw if that was not an InputError.
  std::optional<bool> ask(int ranks);
  /// Returns true while a check is running, for which the destructor would wait.
  bool is_busy();
  /// Rethrows the error of check(ranks), for a number that ask() has answered.
  void check(int ranks);

 private:
  struct Answer {
    bool is_known = false;
    std::exception_ptr error = {};
  };
  void find();

  std::function<void(int)> check_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, Answer> answers_;  ///< for every number that was asked for
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace weft
