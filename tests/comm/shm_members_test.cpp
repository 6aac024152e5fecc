// What the ranks of a host tell each other as they join.
#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "weft/base/cores.h"
#include "weft/comm/shm/members.h"

namespace weft::shm {
namespace {

/// How long a rank spins after two have joined that may use these cores alone.
int looks(int first, int second) {
  const auto control = std::make_unique<Control>();
  int found = 0;
  const auto join = [&](int rank, int core) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    EXPECT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    Members members(*control, {"all", {0, 1}, rank}, nullptr, std::chrono::seconds(1));
    if (rank == 1) {
      members.watch_peers();
      found = members.spin().looks;
    }
  };
  std::thread(join, 0, first).join();
  std::thread(join, 1, second).join();
  return found;
}

TEST(ShmMembers, SpinLongerOnCoresOfTheirOwn) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &all)) cores.push_back(core);
  }
  EXPECT_EQ(looks(cores.front(), cores.front()), spin_policy(2, 1).looks);
  if (available_cores() > 1) {
    EXPECT_EQ(looks(cores.front(), cores.back()), spin_policy(2, 2).looks);
  }
  EXPECT_LT(spin_policy(2, 1).looks, spin_policy(2, 2).looks);
}

}  // namespace
}  // namespace weft::shm
