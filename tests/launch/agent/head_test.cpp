// Head: its reaction to agents, which are connections of the test here.
#include "weft/launch/agent/head.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "tests/support/wait_until.h"
#include "weft/base/connect.h"
#include "weft/base/error.h"
#include "weft/base/loopback.h"
#include "weft/base/run_board.h"
#include "weft/base/token.h"
#include "weft/launch/agent/sockets.h"
#include "weft/launch/agent/ssh_agents.h"
#include "weft/launch/launcher.h"
#include "weft/launch/signal_watch.h"

namespace weft::head_test {
namespace {

using Json = nlohmann::json;
constexpr const char* kToken = "the secret";

/// An agent controlled by the test.
class FakeAgent {
 public:
  FakeAgent(int port, std::function<void()> meanwhile)
      : connection_(connect_to("127.0.0.1", port, std::chrono::milliseconds(1000))), meanwhile_(std::move(meanwhile)) {}

  /// Returns the next message of that kind and skips others before it. Null: none came.
  Json next(const std::string& kind) {
    Json found;
    wait_until(
        [&] {
          meanwhile_();
          for (Json& message : connection_.receive()) came_.push_back(std::move(message));
          while (!came_.empty() && found.is_null()) {
            if (came_.front().at("kind") == kind) found = came_.front();
            came_.erase(came_.begin());
          }
          return !found.is_null() || (connection_.closed() && came_.empty());
        },
        3.0);
    return found;
  }

  /// Joins; returns the head's answer.
  Json join(int node, int ranks, const std::string& token = kToken, const std::string& side = kAgentSide,
            const std::string& system = "") {
    const Json hello = next("hello");
    connection_.send({{"kind", "join"},
                      {"protocol", kAgentProtocol},
                      {"proof", agent_proof(token, side, head_nonce_ = hello.value("nonce", ""), "mine")},
                      {"nonce", "mine"},
                      {"host", "fake" + std::to_string(node)},
                      {"shares_as", "box"},
                      {"system", system},
                      {"node", node},
                      {"ranks", ranks},
                      {"free_port", 1234}});
    Json answer;
    wait_until(
        [&] {
          meanwhile_();
          for (Json& message : connection_.receive()) answer = message;
          return !answer.is_null() || connection_.closed();
        },
        3.0);
    return answer;
  }

  void send(const Json& message) { connection_.send(message); }
  AgentConnection& connection() { return connection_; }
  const std::string& head_nonce() const { return head_nonce_; }

 private:
  AgentConnection connection_;
  std::function<void()> meanwhile_;
  std::vector<Json> came_;
  std::string head_nonce_;
};

class HeadTest : public testing::Test {
 protected:
  /// A head without ranks of its own.
  Head& make_head(int nodes, int least = 0) {
    FileDescriptor socket = listen_for_agents("127.0.0.1", 0).socket;
    port_ = port_of(socket);
    HeadOptions options{.token = kToken, .least_nodes = least == 0 ? nodes : least, .most_nodes = nodes};
    options.host_timeout_s = 0.7;
    options.join_timeout_s = 0.3;
    options.report = [this](const std::string& line) { told_ += line + "\n"; };
    head_.emplace(std::move(socket), std::move(options));
    return *head_;
  }
  FakeAgent agent() {
    return {port_, [this] { head_->receive(); }};
  }
  StartedRanks start(int ranks, RunBoard* board = nullptr) {
    LaunchOptions options;
    options.num_ranks = ranks;
    options.command = {"program"};
    options.board = board;
    sigset_t mask;
    sigemptyset(&mask);
    return head_->start(options, mask);
  }

  std::optional<Head> head_;
  int port_ = 0;
  std::string told_;
};

TEST_F(HeadTest, RanksAreNumberedByNodeInAnyJoinOrder) {
  Head& head = make_head(2);
  FakeAgent second = agent(), first = agent();
  EXPECT_EQ(second.join(1, 3)["kind"], "welcome");
  EXPECT_EQ(head.capacity(), 0) << "one of two";
  const Json welcome = first.join(0, 2);
  EXPECT_EQ(welcome["proof"], agent_proof(kToken, kHeadSide, first.head_nonce(), "mine")) << "the head proves itself too";
  EXPECT_EQ(head.capacity(), 5);
  const StartedRanks started = start(4);
  const Json to_first = first.next("start"), to_second = second.next("start");
  EXPECT_EQ(to_first["first_rank"], 0);
  EXPECT_EQ(to_first["ranks"], 2);
  EXPECT_EQ(to_second["first_rank"], 2);
  EXPECT_EQ(to_second["ranks"], 2) << "of its three places";
  EXPECT_EQ(to_second["world"], 4);
  EXPECT_EQ(to_second["master_address"], "127.0.0.1");
  EXPECT_EQ(to_second["master_port"], 1234);
}

TEST_F(HeadTest, AgentsWithoutTheSecretAreRefused) {
  Head& head = make_head(1);
  FakeAgent wrong = agent();
  const Json refused = wrong.join(0, 1, "another secret");
  EXPECT_EQ(refused["kind"], "refused");
  EXPECT_FALSE(refused["again"]);
  EXPECT_EQ(head.capacity(), 0);
  FakeAgent mirror = agent();  // repeats what a head has said
  EXPECT_EQ(mirror.join(0, 1, kToken, kHeadSide)["kind"], "refused");
  FakeAgent babbler = agent();
  babbler.next("hello");
  babbler.send({{"kind", "join"}, {"protocol", "one"}, {"node", {{"deep", 1}}}});
  EXPECT_TRUE(babbler.next("welcome").is_null());
  for (const Json& node : {Json(1e300), Json(-0.5), Json(int64_t{1} << 32), Json(~uint64_t{0})}) {  // not the index of a node
    FakeAgent odd = agent();
    const Json hello = odd.next("hello");
    odd.send({{"kind", "join"},
              {"protocol", kAgentProtocol},
              {"proof", agent_proof(kToken, kAgentSide, hello.value("nonce", ""), "mine")},
              {"nonce", "mine"},
              {"host", "odd"},
              {"node", node},
              {"ranks", 1},
              {"free_port", 1234}});
    EXPECT_TRUE(odd.next("welcome").is_null()) << node;
  }
  EXPECT_EQ(head.capacity(), 0);
  FakeAgent outside = agent();
  EXPECT_EQ(outside.join(7, 1)["why"], "--node-rank 7: there is 1 node");
  const std::string secret = "rejected an agent at 127.0.0.1: it does not know the job's secret";
  EXPECT_NE(told_.find(secret), std::string::npos) << told_;
  EXPECT_EQ(told_.find(secret), told_.rfind(secret)) << "printed once: " << told_;
  EXPECT_NE(told_.find("rejected an agent at 127.0.0.1: --node-rank 7"), std::string::npos) << told_;
}

TEST_F(HeadTest, APlaceIsTakenUntilItsAgentIsSilent) {
  make_head(1);
  FakeAgent first = agent(), second = agent();
  EXPECT_EQ(first.join(0, 1)["kind"], "welcome");
  const Json refused = second.join(0, 1);
  EXPECT_EQ(refused["kind"], "refused");
  EXPECT_TRUE(refused["again"]) << "it may be a pod that replaces one that just ended";
  first.connection().close("gone");
  FakeAgent third = agent();
  EXPECT_EQ(third.join(0, 1)["kind"], "welcome");
}

TEST_F(HeadTest, OnlyOutcomesOfThisLaunchCount) {
  Head& head = make_head(1);
  FakeAgent fake = agent();
  fake.join(0, 2);
  const StartedRanks started = start(2);
  RankHost& ranks = *started.hosts.front();
  const Json order = fake.next("start");
  fake.send({{"kind", "ended"}, {"launch", 77}, {"rank", 0}, {"age_ns", 0}, {"status", 256}});
  fake.send({{"kind", "said"},
             {"launch", order["launch"]},
             {"rank", 1},
             {"age_ns", 5'000'000'000},
             {"blame", "self"},
             {"culprit", -1},
             {"text", "mine"}});
  fake.send({{"kind", "ended"}, {"launch", order["launch"]}, {"rank", 1}, {"age_ns", 1000}, {"status", 768}});
  ASSERT_TRUE(wait_until(
      [&] {
        head.receive();
        ranks.receive(false);
        return ranks.outcomes()[1].ended;
      },
      2.0));
  EXPECT_FALSE(ranks.outcomes()[0].ended) << "that belonged to another launch";
  const Verdict verdict = find_culprit(ranks.outcomes());
  EXPECT_EQ(verdict.error, "rank 1 on host fake0: mine");
  EXPECT_EQ(verdict.status, 3);
  ranks.signal(SIGTERM, SignalTo::silent);
  const Json signal = fake.next("signal");
  EXPECT_EQ(signal["number"], SIGTERM);
  EXPECT_TRUE(signal["spare"]);
}

TEST_F(HeadTest, ASilentHostIsGivenUpAndNamed) {
  Head& head = make_head(1);
  FakeAgent fake = agent();
  fake.join(0, 2);
  const StartedRanks started = start(2);
  RankHost& ranks = *started.hosts.front();
  ASSERT_TRUE(wait_until(
      [&] {
        head.receive();
        ranks.receive(false);
        return !ranks.any_left();
      },
      3.0));
  const Verdict verdict = find_culprit(ranks.outcomes());
  EXPECT_TRUE(verdict.failed && verdict.certain);
  EXPECT_EQ(verdict.status, 1);
  EXPECT_EQ(verdict.error.rfind("host fake0 (ranks 0 to 1) has not answered for 7", 0), 0u) << verdict.error;
  EXPECT_EQ(head.capacity(), 0);
}

TEST_F(HeadTest, AFailedStartIsAnError) {
  Head& head = make_head(1);
  FakeAgent fake = agent();
  fake.join(0, 1);
  const StartedRanks started = start(1);
  fake.send({{"kind", "failed"}, {"launch", fake.next("start")["launch"]}, {"text", "cannot run 'x': why"}});
  try {
    wait_until(
        [&] {
          head.receive();
          started.hosts.front()->receive(false);
          return false;
        },
        2.0);
    FAIL() << "went on";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "host fake0: cannot run 'x': why");
  }
}

TEST_F(HeadTest, GathersAllAtFirstAndThenEnough) {
  Head& head = make_head(2, 1);
  FakeAgent fake = agent();
  fake.join(0, 2);
  SignalWatch signals;
  EXPECT_EQ(head.gather(signals, [](int capacity) { return capacity > 0; }), 0);
  EXPECT_EQ(told_, "host of node rank 1 did not join: starting without\n");
  EXPECT_EQ(head.capacity(), 2);
  EXPECT_THROW(head.gather(signals, [](int capacity) { return capacity > 2; }), Error);
}

TEST_F(HeadTest, TheFewestRanksComeFromTheSmallestHosts) {
  Head& head = make_head(3, 2);
  FakeAgent first = agent(), second = agent(), third = agent();
  first.join(0, 5);
  EXPECT_EQ(head.capacity(), 0);
  second.join(1, 2);
  EXPECT_EQ(head.capacity(), 7);
  third.join(2, 3);
  EXPECT_EQ(head.capacity(), 10);
  EXPECT_EQ(head.least_capacity(), 5);
}

TEST_F(HeadTest, HostsWithTheSameNameAreDistinguished) {
  make_head(3);
  FakeAgent first = agent(), beside = agent(), other = agent();
  EXPECT_EQ(first.join(0, 1, kToken, kAgentSide, "one")["shares_as"], "");
  EXPECT_EQ(beside.join(1, 1, kToken, kAgentSide, "one")["shares_as"], "") << "the same host: memory is shared";
  EXPECT_EQ(other.join(2, 1, kToken, kAgentSide, "another")["shares_as"], "box.node2");
  EXPECT_EQ(told_.rfind("node 2 is another host named box: ", 0), 0u) << told_;
}

TEST_F(HeadTest, StepsBelongToTheCurrentLaunch) {
  Head& head = make_head(1);
  FakeAgent fake = agent();
  fake.join(0, 1);
  RunBoard board(0);
  const auto send = [&](int launch, int steps) {
    fake.send({{"kind", "beat"}, {"launch", launch}, {"steps", steps}});
    fake.send({{"kind", "interrupt"}, {"signal", 2}});
    return wait_until(
        [&] {
          head.receive();
          return !head.signals().empty();
        },
        2.0);
  };
  StartedRanks first = start(1, &board);
  ASSERT_TRUE(send(1, 100));
  EXPECT_EQ(board.steps_done(), 100);
  first.hosts.clear();
  const StartedRanks second = start(1, &board);
  ASSERT_TRUE(send(1, 101));
  EXPECT_EQ(board.steps_done(), 100) << "reported before this launch";
  ASSERT_TRUE(send(2, 50));
  EXPECT_EQ(board.steps_done(), 50) << "it resumes from an older checkpoint";
}

TEST_F(HeadTest, LateAgentsLearnHowItEnded) {
  Head& head = make_head(2, 1);
  FakeAgent first = agent();
  first.join(0, 1);
  std::thread ends([&] { head.finish(5, "the line"); });
  FakeAgent late(port_, [] {});  // finish() serves it
  Json end = late.join(1, 1);
  if (end.is_object() && end["kind"] == "welcome") end = late.next("end");
  late.connection().close("printed");
  first.connection().close("printed");
  ends.join();
  ASSERT_TRUE(end.is_object() && end["kind"] == "end") << "it would wait for a new head";
  EXPECT_EQ(end["status"], 5);
  EXPECT_EQ(end["line"], "the line");
}

TEST_F(HeadTest, UnprovenConnectionsKeepNoAgentOut) {
  Head& head = make_head(1);
  std::vector<FileDescriptor> idle;
  for (int i = 0; i < 300; ++i) {
    idle.push_back(connect_to("127.0.0.1", port_, std::chrono::milliseconds(1000)));
    head.receive();
  }
  FakeAgent fake = agent();
  EXPECT_EQ(fake.join(0, 1)["kind"], "welcome");
}

TEST(AgentOrder, SurvivesARoundTrip) {
  AgentOrder order{.token = "t", .head_host = "", .head_port = 7};
  order.command = {"", "train", "it's ä \n"};
  order.environment = {"A=b\nc"};
  const std::string text = order_text(order);
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  const AgentOrder back = parse_order(text);
  EXPECT_EQ(back.environment, order.environment);
  EXPECT_EQ(back.command, order.command);
  EXPECT_THROW(parse_order("ls -l"), InputError);
}

TEST(AgentOrder, NonTextBytesAreRefused) {
  AgentOrder order{.token = "t", .head_host = "", .head_port = 7};
  order.command = {"cat", "\xff.txt"};
  try {
    order_text(order);
    FAIL() << "another file would be read there";
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()).rfind("the command's word \"\\xff.txt\" is not UTF-8", 0), 0u) << error.what();
  }
}

}  // namespace
}  // namespace weft::head_test
