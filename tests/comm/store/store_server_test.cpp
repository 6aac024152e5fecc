// A store over TCP: which clients it accepts, what strangers can do, and the cost of waits.
#include "weft/comm/store/store_server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "tests/support/wait_until.h"
#include "weft/base/error.h"
#include "weft/base/loopback.h"
#include "weft/base/token.h"
#include "weft/comm/host/reach.h"
#include "weft/comm/store/open_store.h"
#include "weft/comm/store/proof.h"
#include "weft/comm/store/store.h"
#include "weft/comm/store/store_connection.h"

namespace weft::store_server_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kSoon{20000};

/// A server, and ways to connect to it.
struct Served {
  explicit Served(const std::string& token = "secret") : token(token) {}
  std::shared_ptr<StoreConnection> connect(const std::string& with) const {
    return weft::connect({"rank 0", "127.0.0.1", server.port(), with}, kSoon);
  }
  Store store() const { return Store(connect(token)); }
  FileDescriptor stranger() const { return reach("127.0.0.1", server.port(), kSoon); }

  std::string token;
  StoreServer server{listen_on_loopback(), token};
};

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// Receives until the other end closes, or nothing has arrived for `patience`.
std::string all_from(const FileDescriptor& socket, milliseconds patience, bool& closed) {
  std::string text;
  char bytes[4096];
  closed = false;
  pollfd entry{socket.get(), POLLIN, 0};
  while (!closed && ::poll(&entry, 1, static_cast<int>(patience.count())) > 0) {
    const ssize_t count = ::recv(socket.get(), bytes, sizeof bytes, 0);
    closed = count <= 0;
    if (count > 0) text.append(bytes, static_cast<size_t>(count));
  }
  return text;
}

void say(const FileDescriptor& socket, const std::string& text) {
  (void)!::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

TEST(StoreServer, AWrongTokenIsRefusedImmediately) {
  const Served served;
  const auto begin = Clock::now();
  EXPECT_NE(error_of([&] { served.connect("other"); }).find("refuses this rank's token; give all ranks the same WEFT_TOKEN"),
            std::string::npos);
  EXPECT_NE(error_of([&] { served.connect(""); }).find("requires the job's token, but this rank has none"), std::string::npos);
  const Served open("");
  EXPECT_NE(error_of([&] { open.connect("secret"); }).find("does not require the job's token"), std::string::npos);
  open.store().set("a", "1");
  EXPECT_LT(seconds_since(begin), 10.0);
  EXPECT_EQ(served.server.counts().connections, 0);
  Store store = served.store();
  store.set("a", "1");
  EXPECT_EQ(store.get("a", kSoon, "a"), "1");
}

// A process that took the port of a job that has ended, and only pretends to know its token.
TEST(StoreServer, AServerWithoutTheTokenIsRefused) {
  const FileDescriptor listening = listen_on_loopback();
  std::thread pretender([&] {
    const FileDescriptor socket(::accept(listening.get(), nullptr, nullptr));
    say(socket, proof::greeting(proof::Greeting::prove, random_bytes(proof::kNonceBytes)));
    char reply[proof::kReplyBytes];
    ::recv(socket.get(), reply, sizeof reply, MSG_WAITALL);
    // Neither a made-up proof nor the client's own is accepted.
    say(socket, "+" + std::string(reply + proof::kReplyBytes - proof::kProofBytes, proof::kProofBytes));
    bool closed = false;
    all_from(socket, kSoon, closed);
  });
  const StoreAddress address{"rank 0", "127.0.0.1", port_of(listening), "secret"};
  EXPECT_NE(error_of([&] { connect(address, kSoon); }).find("does not know the job's token (WEFT_TOKEN)"), std::string::npos);
  pretender.join();
}

TEST(StoreServer, TheTokenNeverCrossesTheWireAndAProofWorksOnce) {
  const std::string token = make_token(), server = random_bytes(proof::kNonceBytes), client = random_bytes(proof::kNonceBytes);
  EXPECT_EQ(token.size(), 64u);
  const std::string reply = proof::reply(token, server, client);
  EXPECT_EQ(reply.find(token), std::string::npos);
  std::string nonce;
  EXPECT_TRUE(proof::is_proven(reply, token, server, nonce));
  EXPECT_EQ(nonce, client);
  EXPECT_FALSE(proof::is_proven(reply, token, random_bytes(proof::kNonceBytes), nonce)) << "another connection";
  EXPECT_FALSE(proof::is_proven(reply, make_token(), server, nonce));
  EXPECT_NE(proof::welcome(token, server, client).substr(1), reply.substr(reply.size() - proof::kProofBytes));
}

TEST(StoreServer, StrangersAreDroppedWithoutDisturbingOthers) {
  const Served served;
  Store store = served.store();
  std::string endless(100'000, 'x'), absurd(8, '\xff');
  const std::pair<std::string, std::string> cases[] = {
      {"a browser", "GET / HTTP/1.1\r\nHost: x\r\nAccept: */*\r\nUser-Agent: some browser or other, as they all say\r\n\r\n"},
      {"absurd lengths", absurd + std::string(200, '\xff')},
      {"a reply without proof", proof::reply("", std::string(proof::kNonceBytes, 'a'), std::string(proof::kNonceBytes, 'b'))},
      {"endless", endless},
  };
  for (const auto& [label, text] : cases) {
    const FileDescriptor stranger = served.stranger();
    say(stranger, text);
    bool closed = false;
    const std::string heard = all_from(stranger, milliseconds(4000), closed);
    EXPECT_TRUE(closed) << label << ": immediately, not when its time to prove itself expires";
    EXPECT_LE(heard.size(), proof::kGreetingBytes + proof::kWelcomeBytes) << label;
    store.set("a", label);
    EXPECT_EQ(store.get("a", kSoon, "a"), label);
  }
  served.stranger();  // knocks and runs
  EXPECT_TRUE(wait_until([&] { return served.server.counts().dropped == 5; }, 20.0)) << served.server.counts().dropped;
  EXPECT_EQ(served.server.counts().connections, 1);
}

TEST(StoreServer, AClientThatDoesNotProveItselfInTimeIsDropped) {
  const Served served;
  Store store = served.store();
  std::vector<FileDescriptor> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(served.stranger());
  const FileDescriptor slow = served.stranger();
  const std::string reply = proof::reply("", std::string(proof::kNonceBytes, 'a'), std::string(proof::kNonceBytes, 'b'));
  const auto begin = Clock::now();
  size_t said = 0;
  bool closed = false;
  while (!closed && seconds_since(begin) < 30.0) {  // a byte now and then
    say(slow, reply.substr(said % reply.size(), 1));
    said = std::min(said + 1, reply.size() - 2);
    all_from(slow, milliseconds(200), closed);
    const auto asked = Clock::now();
    store.set("a", "1");
    EXPECT_LT(seconds_since(asked), 5.0);
  }
  EXPECT_TRUE(closed);
  EXPECT_GT(seconds_since(begin), 3.0) << "its time";
  EXPECT_LT(seconds_since(begin), 15.0);
  for (const FileDescriptor& socket : silent) {
    all_from(socket, milliseconds(10000), closed);
    EXPECT_TRUE(closed);
  }
}

TEST(StoreServer, AWaitIsOneTripAndBlocksNoOtherThread) {
  const Served served;
  Store store = served.store(), other = served.store();
  const int64_t before = served.server.counts().requests;
  std::atomic<int> waiting = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&store, &waiting, i] {
      ++waiting;
      EXPECT_EQ(store.get(fmt::format("key {}", i), kSoon, "a key"), "value");
    });
  }
  while (waiting < 4) std::this_thread::yield();
  std::this_thread::sleep_for(milliseconds(300));
  const auto begin = Clock::now();
  store.set("own", "");
  EXPECT_LT(seconds_since(begin), 5.0) << "through the connection that others wait on";
  for (int i = 0; i < 4; ++i) other.set(fmt::format("key {}", i), "value");
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served.server.counts().requests - before, 4 + 1 + 4);
}

TEST(StoreServer, ExpiredWaitsEndInTime) {
  const Served served;
  Store store = served.store();
  const auto begin = Clock::now();
  EXPECT_EQ(error_of([&] { store.get("a", milliseconds(200), "rank 1 waits for rank 0"); }),
            "rank 1 waits for rank 0: still missing after 0.2 s (key \"a\")");
  const Gathered gathered = store.gather({"all", 1, 4, "x"}, milliseconds(200));
  EXPECT_EQ(gathered.end, WaitEnd::passed);
  EXPECT_EQ(gathered.missing, 3);
  EXPECT_EQ(gathered.missing_ranks, (std::vector<int>{0, 2, 3}));
  int looks = 0;
  EXPECT_EQ(store.await("a", kSoon, {milliseconds(10), [&] { return ++looks < 3; }}).end, WaitEnd::called_off);
  EXPECT_EQ(looks, 3);
  EXPECT_LT(seconds_since(begin), 10.0);
}

TEST(StoreServer, FailureEndsWaits) {
  const Served served;
  const auto failing = [&] { return served.store().failing_on(std::make_shared<Store::Failure>("failure")); };
  Store one = failing(), other = failing();
  std::thread thread([&other] {
    std::this_thread::sleep_for(milliseconds(100));
    other.announce(CommError("it went wrong"));
  });
  EXPECT_EQ(error_of([&] { one.get("never", kSoon, "x"); }), "it went wrong");
  thread.join();
  EXPECT_EQ(error_of([&] { failing().gather({"all", 0, 2, ""}, kSoon); }), "it went wrong");
}

TEST(StoreServer, LargeValuesAndClientsThatDoNotReadThem) {
  const Served served;
  Store store = served.store();
  const std::string large(20'000'000, 'v');
  store.set("large", large);
  {
    const auto lazy = served.connect(served.token);
    for (int i = 0; i < 5; ++i) lazy->await({"large"}, "", milliseconds(0), {milliseconds(0), [] { return false; }});
    store.set("a", "1");
    EXPECT_EQ(store.get("large", kSoon, "it"), large);
  }
  EXPECT_EQ(store.get("a", kSoon, "a"), "1") << "and then the client left";
}

TEST(StoreServer, AServerThatHasGoneIsNamed) {
  auto served = std::make_unique<Served>();
  Store store = served->store();
  std::thread thread([&] {
    std::this_thread::sleep_for(milliseconds(200));
    served.reset();
  });
  const auto begin = Clock::now();
  EXPECT_EQ(error_of([&] { store.get("never", kSoon, "x"); }),
            "the ranks' store, which rank 0 serves, cannot be reached (key \"never\"): it closed the connection; rank "
            "0 may have ended");
  thread.join();
  EXPECT_NE(error_of([&] { store.set("a", ""); }).find("cannot be reached (key \"a\")"), std::string::npos);
  EXPECT_LT(seconds_since(begin), 10.0);
}

TEST(StoreServer, RecognisesAnotherServer) {
  const FileDescriptor listening = listen_on_loopback();
  std::thread other([&] {
    const FileDescriptor socket(::accept(listening.get(), nullptr, nullptr));
    say(socket, "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u7 and more of that kind\r\n");
    bool closed = false;
    all_from(socket, kSoon, closed);
  });
  EXPECT_NE(error_of([&] {
              connect({"rank 0", "127.0.0.1", port_of(listening)}, kSoon);
            }).find("is not a weft store"),
            std::string::npos);
  other.join();
}

/// torchrun's store.
struct C10dServed {
  C10dServed() {
    FileDescriptor socket = listen_on_loopback();
    port = port_of(socket);
    c10d::TCPStoreOptions options;
    options.isServer = true;
    options.waitWorkers = false;
    options.port = static_cast<uint16_t>(port);
    options.masterListenFd = socket.release();
    server = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  }
  Store store() const { return Store(connect_c10d({"torchrun's agent", "127.0.0.1", port}, kSoon)); }
  int port = 0;
  c10::intrusive_ptr<c10d::TCPStore> server;
};

TEST(StoreServer, TorchrunsStoreBehavesTheSame) {
  const C10dServed served;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&served, rank] {
      Store store = served.store();
      const Gathered all = store.gather({"all", rank, 4, fmt::format("of {}", rank)}, kSoon);
      EXPECT_EQ(all.end, WaitEnd::came);
      EXPECT_EQ(all.values, (std::vector<std::string>{"of 0", "of 1", "of 2", "of 3"}));
      const Gathered other = store.gather({"sizes", rank, rank == 2 ? 5 : 4, ""}, kSoon);
      EXPECT_EQ(other.end, WaitEnd::failed);
      EXPECT_EQ(other.other_size, rank == 2 ? 4 : 5);
      EXPECT_EQ(store.set_once("first", "it").substr(0, 2), "it");
    });
  }
  for (std::thread& thread : threads) thread.join();
  Store store = served.store();
  const Gathered some = store.gather({"some", 1, 3, ""}, milliseconds(200));
  EXPECT_EQ(some.end, WaitEnd::passed);
  EXPECT_EQ(some.missing_ranks, (std::vector<int>{0, 2}));
  EXPECT_EQ(error_of([&] { store.get("a", milliseconds(200), "rank 1 waits"); }),
            "rank 1 waits: still missing after 0.2 s (key \"a\")");
}

}  // namespace
}  // namespace weft::store_server_test
