// Joining a world through weft's store: its cost per rank, for any number of ranks, and the errors if ranks are missing.
#include "weft/comm/join.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "tests/support/wait_until.h"
#include "weft/base/error.h"
#include "weft/base/loopback.h"
#include "weft/comm/store/store_server.h"
#include "weft/comm/wait/rank_table.h"

namespace weft::join_test {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

Place place(int rank, int size, int port, int ranks_per_host) {
  return {.ranks = {.rank = rank, .size = size},
          .rendezvous = {Rendezvous::Server::launcher, "127.0.0.1", port, true},
          .token = "secret",
          .prefix = "weft/0/",
          .host = fmt::format("host{}", rank / ranks_per_host)};
}

struct Joining {
  StoreCounts counts;
  double seconds = 0;
  int errors = 0;
};

/// Ranks that only join, each a thread with its own connection. Includes the table of waiting ranks if all are on one host (on
/// several hosts it has one thread per rank).
Joining join_all(int size, int ranks_per_host) {
  const StoreServer server(listen_on_loopback(), "secret");
  std::atomic<int> errors = 0;
  const auto begin = Clock::now();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const Deadline deadline = milliseconds(120000);
      try {
        Joined joined = join_world(place(rank, size, server.port(), ranks_per_host), deadline);
        for (int other = 0; other < size; ++other) {
          if (joined.hosts.at(static_cast<size_t>(other)) != fmt::format("host{}", other / ranks_per_host)) ++errors;
        }
        if (ranks_per_host < size) return;
        const auto table = RankTable::join(joined.store, rank, joined.hosts, deadline);
        // The first rank's memory stays until all have opened it.
        joined.store.gather({"joined", rank, size, ""}, deadline);
      } catch (const std::exception& error) {
        ++errors;
        ADD_FAILURE() << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return {server.counts(), seconds_since(begin), errors};
}

TEST(Join, TripsDoNotGrowWithTheNumberOfRanks) {
  for (const int size : {16, 1024}) {
    const Joining hosts = join_all(size, 8);
    EXPECT_EQ(hosts.errors, 0);
    EXPECT_EQ(hosts.counts.requests, 2 * size) << "each registers its process and host, and gets all hosts";
    EXPECT_EQ(hosts.counts.connections, size);
    EXPECT_LT(hosts.seconds, 10.0);
    const Joining one_host = join_all(size, size);
    EXPECT_EQ(one_host.errors, 0);
    EXPECT_EQ(one_host.counts.requests, (2 + 1 + 1) * size) << "and the table, and the test's own gathering";
    EXPECT_LT(one_host.seconds, 10.0);
  }
}

std::string error_of_joining(const Place& place, milliseconds timeout) {
  try {
    join_world(place, timeout);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Join, TheMissingAreNamed) {
  const StoreServer server(listen_on_loopback(), "secret");
  std::vector<std::thread> threads;
  for (const int rank : {0, 2}) {
    threads.emplace_back([&, rank] {
      EXPECT_EQ(error_of_joining(place(rank, 30, server.port(), 1), milliseconds(1000)),
                fmt::format("rank {} of 30 waits for rank 1 to start, and for 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, "
                            "17 and 12 more: still missing after 1.0 s",
                            rank));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Join, RanksWithDifferentWorldSizesAreBothNamed) {
  const StoreServer server(listen_on_loopback(), "secret");
  std::thread other([&] {
    EXPECT_EQ(error_of_joining(place(0, 3, server.port(), 1), milliseconds(20000)),
              "rank 0 has a world of 3 ranks but rank 1 has 2; give all ranks the same WORLD_SIZE");
  });
  EXPECT_EQ(error_of_joining(place(1, 2, server.port(), 1), milliseconds(20000)),
            "rank 1 has a world of 2 ranks but rank 0 has 3; give all ranks the same WORLD_SIZE");
  other.join();
}

TEST(Join, ADuplicateRankIsNamed) {
  const StoreServer server(listen_on_loopback(), "secret");
  Place first = place(0, 2, server.port(), 1), second = first;
  second.host = "another";
  std::thread thread([&] { error_of_joining(first, milliseconds(2000)); });
  EXPECT_TRUE(wait_until([&] { return server.counts().requests == 2; }, 20.0));
  EXPECT_NE(error_of_joining(second, milliseconds(2000)).find("another process has the same rank (RANK=0)"), std::string::npos);
  thread.join();
}

// weft run -- sh -c 'one; two' without a launcher: rank 1 may begin the second program while rank 0 still ends the first.
TEST(Join, AnEarlierProgramsStoreIsLeft) {
  auto before = std::make_unique<StoreServer>(listen_on_loopback(free_loopback_port()), "secret");
  Place first = place(0, 2, before->port(), 1), second = place(1, 2, before->port(), 1);
  first.rendezvous.server = second.rendezvous.server = Rendezvous::Server::rank_zero;
  std::vector<std::string> hosts;
  std::thread thread([&] {
    try {
      hosts = join_world(second, milliseconds(20000)).hosts;
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  });
  EXPECT_TRUE(wait_until([&] { return before->counts().requests == 2; }, 20.0)) << "it gathers there";
  before.reset();
  EXPECT_EQ(error_of_joining(first, milliseconds(20000)), "no error") << "its store is the second program's";
  thread.join();
  EXPECT_EQ(hosts, (std::vector<std::string>{"host0", "host1"}));
}

// torchrun's agent serves a c10d store, which knows no token.
TEST(Join, ThroughTorchrunsStore) {
  FileDescriptor socket = listen_on_loopback();
  const int port = port_of(socket);
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.waitWorkers = false;
  options.port = static_cast<uint16_t>(port);
  options.masterListenFd = socket.release();
  const auto server = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 8; ++rank) {
    threads.emplace_back([rank, port] {
      Place own = place(rank, 8, port, 4);
      own.rendezvous.server = Rendezvous::Server::agent;
      const std::vector<std::string> hosts = join_world(own, milliseconds(20000)).hosts;
      EXPECT_EQ(hosts.size(), 8u);
      EXPECT_EQ(std::count(hosts.begin(), hosts.end(), "host1"), 4);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Join, WithoutTheTokenNobodyJoins) {
  const StoreServer server(listen_on_loopback(), "secret");
  Place stranger = place(1, 2, server.port(), 1);
  stranger.token = "guessed";
  EXPECT_EQ(
      error_of_joining(stranger, milliseconds(20000)),
      fmt::format("rank 1 of 2: cannot reach the store at 127.0.0.1:{}, which the launcher serves, within 20.0 s: it refuses "
                  "this rank's token; give all ranks the same WEFT_TOKEN",
                  server.port()));
}

}  // namespace
}  // namespace weft::join_test
