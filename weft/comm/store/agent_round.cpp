#include "weft/comm/store/agent_round.h"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <thread>

#include "weft/base/error.h"
#include "weft/base/token.h"

namespace weft {

namespace {

constexpr auto kAskAgain = std::chrono::milliseconds(5);

/// Answers that rank's requests until it has acknowledged the answer.
void announce_round(Store& store, int64_t round, int rank, int size, const Deadline& deadline) {
  const std::string heard = fmt::format("round/{}/heard/{}", round, rank), asks = fmt::format("round/asks/{}", rank);
  std::string last;
  while (!store.has(heard)) {
    if (deadline.passed()) {
      throw CommError(fmt::format("rank 0 of {} waits for rank {} to start: still missing after {:.1f} s", size, rank,
                                  std::chrono::duration<double>(deadline.timeout()).count()));
    }
    if (store.has(asks)) {
      const std::string word = store.get(asks, deadline, "joining the other ranks");
      if (word != last) store.set("round/answer/" + word, std::to_string(round));
      last = word;
    }
    std::this_thread::sleep_for(kAskAgain);
  }
}

}  // namespace

int64_t agent_round(const Store& all, int rank, int size, const Deadline& deadline) {
  Store store = all.within(deadline);
  if (rank == 0) {
    const int64_t round = store.add("round/last", 1);
    for (int other = 1; other < size; ++other) announce_round(store, round, other, size, deadline);
    return round;
  }
  const std::string word = make_nonce();
  store.set(fmt::format("round/asks/{}", rank), word);
  const int64_t round = std::stoll(
      store.get("round/answer/" + word, deadline, fmt::format("rank {} of {} waits for rank 0 to start", rank, size)));
  store.set(fmt::format("round/{}/heard/{}", round, rank), "yes");
  return round;
}

}  // namespace weft
