// Waits in a store: what may happen meanwhile, how they end, and how long a store may take to answer.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace weft {

/// How a wait in a store has ended.
enum class WaitEnd {
  came,        ///< what was waited for
  failed,      ///< the key that ends the wait too has come
  passed,      ///< the deadline
  called_off,  ///< by the watch
  silent       ///< the store has not answered, not even that the deadline has passed
};

/// What a rank looks at while it waits.
struct Watch {
  std::chrono::milliseconds every{200};  ///< how often
  std::function<bool()> go_on = {};      ///< false ends the wait; empty: nothing is looked at
};

/// What came of a wait for keys.
struct Waited {
  WaitEnd end = WaitEnd::came;           ///< how it ended
  std::vector<std::string> values = {};  ///< of the keys; of `failed` the one of that key
};

/// What a rank brings to a gathering, and to which.
struct Contribution {
  std::string name;        ///< of the gathering
  int rank = 0;            ///< who brings it
  int size = 1;            ///< of the gathering: how many ranks come
  std::string value = {};  ///< what all get
};

/// What came of a gathering.
struct Gathered {
  WaitEnd end = WaitEnd::came;           ///< how it ended
  std::vector<std::string> values = {};  ///< of all ranks, by rank; of `failed` the one of that key

  // Of `passed`.
  int missing = 0;                      ///< ranks that have not come
  std::vector<int> missing_ranks = {};  ///< the first of them

  // A rank that came with another size, where there is one; the gathering has failed then.
  int other_rank = -1;  ///< that rank; -1: there is none
  int other_size = 0;   ///< the size it came with
};

/// The time that a store which is well has for answering, also at the very end of a deadline.
inline constexpr std::chrono::milliseconds kToAnswer{500};

}  // namespace weft
