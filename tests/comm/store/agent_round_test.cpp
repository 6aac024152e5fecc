// The round of a start, through a store that still holds earlier ranks' keys.
#include "weft/comm/store/agent_round.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "weft/base/error.h"
#include "weft/comm/store/open_store.h"
#include "weft/comm/store/store_connection.h"

namespace weft::agent_round_test {
namespace {

using std::chrono::milliseconds;

std::vector<int64_t> one_start(const Store& store, int size) {
  std::vector<int64_t> rounds(static_cast<size_t>(size));
  std::vector<std::thread> ranks;
  for (int rank = size - 1; rank >= 0; --rank) {
    ranks.emplace_back([&, rank] { rounds[static_cast<size_t>(rank)] = agent_round(store, rank, size, milliseconds(5000)); });
    std::this_thread::sleep_for(milliseconds(10));
  }
  for (std::thread& rank : ranks) rank.join();
  return rounds;
}

TEST(AgentRound, IsTheSameOnAllRanksAndNewEachTime) {
  const Store store(make_local_store(), "");
  EXPECT_EQ(one_start(store, 3), (std::vector<int64_t>{1, 1, 1}));
  EXPECT_EQ(one_start(store, 3), (std::vector<int64_t>{2, 2, 2}));
  EXPECT_EQ(one_start(store, 4), (std::vector<int64_t>{3, 3, 3, 3}));
}

TEST(AgentRound, ARankThatDiedWhileAskingIsSkipped) {
  const Store store(make_local_store(), "");
  EXPECT_THROW(agent_round(store, 1, 2, milliseconds(50)), CommError);
  EXPECT_EQ(one_start(store, 2), (std::vector<int64_t>{1, 1}));
}

TEST(AgentRound, AMissingRankIsNamed) {
  const Store store(make_local_store(), "");
  try {
    agent_round(store, 0, 2, milliseconds(50));
    FAIL() << "continued without rank 1";
  } catch (const CommError& error) {
    EXPECT_NE(std::string(error.what()).find("rank 1"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace weft::agent_round_test
