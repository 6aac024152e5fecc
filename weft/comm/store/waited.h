// Types for waits in a store: the caller's check during a wait, the outcome, and how long a store may take to answer.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace weft {

/// Outcome of a wait in a store.
enum class WaitEnd {
  came,        ///< the awaited keys or values arrived
  failed,      ///< the key that also ends the wait has arrived
  passed,      ///< the deadline passed
  called_off,  ///< the watch ended it
  silent       ///< the store did not answer, even after the deadline
};

/// A check that a rank repeats while it waits.
struct Watch {
  std::chrono::milliseconds every{200};     ///< interval
  std::function<bool()> keep_waiting = {};  ///< false ends the wait; empty: no check
};

/// Result of a wait for keys.
struct Waited {
  WaitEnd end = WaitEnd::came;           ///< how it ended
  std::vector<std::string> values = {};  ///< of the keys; for `failed`, the value of the key that ended the wait
};

/// A rank's contribution to a gathering.
struct Contribution {
  std::string name;        ///< name of the gathering
  int rank = 0;            ///< contributing rank
  int size = 1;            ///< number of ranks in the gathering
  std::string value = {};  ///< value that all ranks receive
};

/// Result of a gathering.
struct Gathered {
  WaitEnd end = WaitEnd::came;           ///< how it ended
  std::vector<std::string> values = {};  ///< by rank; for `failed`, the value of the key that ended the wait

  // For `passed`:
  int missing = 0;                      ///< number of missing ranks
  std::vector<int> missing_ranks = {};  ///< the first of them

  // A rank with a different size, if any; the gathering has then failed.
  int other_rank = -1;  ///< its rank; -1: no mismatch
  int other_size = 0;   ///< its size
};

/// Time for a healthy store to answer, even at the very end of a deadline.
inline constexpr std::chrono::milliseconds kToAnswer{500};

}  // namespace weft
