// RanksThatFit: the numbers of ranks that a run can be laid out on. Finding out may take minutes, so it is done in a thread of
// its own, once for each number: whoever asks must go on answering the agents of other hosts (launch/agent/head.h).
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

namespace weft {

/// Asks `check` about each number once. Calls come from one thread.
class RanksThatFit {
 public:
  /// `check` throws InputError where the run cannot be laid out on so many ranks; called from another thread.
  explicit RanksThatFit(std::function<void(int ranks)> check);
  /// Waits for the number that is being looked at, and leaves out the others.
  ~RanksThatFit();
  RanksThatFit(const RanksThatFit&) = delete;
  RanksThatFit& operator=(const RanksThatFit&) = delete;

  /// Whether so many fit; nothing while that is being found, which the first call begins. Throws what `check` threw where that
  /// was no InputError.
  std::optional<bool> ask(int ranks);
  /// Whether a number is being looked at, for which the destructor would wait.
  bool is_busy();
  /// Throws what check(ranks) threw, of a number that ask() has answered.
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
  std::map<int, Answer> answers_;  ///< of all numbers that were asked for
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace weft
