// Answers of a store server and their times, without a socket and with a simulated clock.
#include "weft/comm/store/key_table.h"

#include <gtest/gtest.h>

#include "weft/comm/store/equal_runs.h"

namespace weft::key_table_test {
namespace {

using message::Reader;
using message::Request;
using message::Status;
using message::Writer;
using std::chrono::milliseconds;

struct Reply {
  uint64_t connection;
  uint32_t number;
  Status status;
  std::string body;
  bool operator==(const Reply&) const = default;
};

void PrintTo(const Reply& got, std::ostream* out) {
  *out << "connection " << got.connection << " request " << got.number << " status " << static_cast<int>(got.status) << " "
       << testing::PrintToString(got.body);
}

class KeyTableTest : public testing::Test {
 protected:
  void ask(uint64_t connection, uint32_t number, Request request, Writer body) {
    table.ask({connection, number}, static_cast<uint8_t>(request), body.take(), now);
  }
  void set(const std::string& key, const std::string& value) {
    ask(9, 0, Request::set, Writer().text(key).text(value));
    ASSERT_EQ(taken().front().connection, 9u) << "the setter is answered first";
  }
  void await(uint64_t connection, const std::vector<std::string>& keys, const std::string& unless = "", uint64_t ms = 1000) {
    Writer body;
    body.u64(ms).text(unless).u32(static_cast<uint32_t>(keys.size()));
    for (const std::string& key : keys) body.text(key);
    ask(connection, 1, Request::await, std::move(body));
  }
  void gather(uint32_t rank, uint32_t size, const std::string& value, uint64_t ms = 1000) {
    ask(rank, 1, Request::gather, Writer().u64(ms).text("failure").text("all").u32(rank).u32(size).text(value));
  }
  std::vector<Reply> taken() { return last = std::exchange(got, {}); }

  std::vector<Reply> got, last;
  KeyTable::Time now{};
  KeyTable table{[this](const KeyTable::Asker& asker, Status status, const KeyTable::Body& body) {
    got.push_back({asker.connection, asker.number, status, *body});
  }};
};

std::string text(const std::string& value) { return Writer().text(value).take(); }
std::string number(uint64_t value) { return Writer().u64(value).take(); }
std::string flag(uint32_t value) { return Writer().u32(value).take(); }

TEST_F(KeyTableTest, Values) {
  set("a", "1");
  ask(1, 1, Request::check, Writer().u32(2).text("a").text("b"));
  ask(1, 2, Request::check, Writer().u32(1).text("a"));
  ask(1, 3, Request::add, Writer().text("a").u64(static_cast<uint64_t>(-3)));
  ask(1, 4, Request::compare_set, Writer().text("a").text("x").text("y"));
  ask(1, 5, Request::compare_set, Writer().text("a").text("-2").text("y"));
  ask(1, 6, Request::compare_set, Writer().text("new").text("").text("z"));
  ask(1, 7, Request::append, Writer().text("new").text("z"));
  ask(1, 8, Request::set_all, Writer().u32(2).text("p").text("1").text("q").text("2"));
  ask(1, 9, Request::count, Writer());
  ask(1, 10, Request::remove, Writer().text("p"));
  ask(1, 11, Request::remove, Writer().text("p"));
  const std::vector<std::string> bodies = {
      flag(0), flag(1), number(static_cast<uint64_t>(-2)), text("-2"), text("y"), text("z"), "", "", number(4),
      flag(1), flag(0)};
  ASSERT_EQ(taken().size(), bodies.size());
  for (size_t i = 0; i < bodies.size(); ++i)
    EXPECT_EQ(last[i], (Reply{1, static_cast<uint32_t>(i + 1), Status::good, bodies[i]}));
}

TEST_F(KeyTableTest, AWaitIsAnsweredOnceAllItsKeysExist) {
  set("a", "1");
  await(1, {"a", "b", "c"});
  await(2, {"b"});
  EXPECT_TRUE(taken().empty());
  set("c", "3");
  EXPECT_EQ(last.size(), 1u);
  set("b", "2");
  ASSERT_EQ(last.size(), 3u);
  const auto& all = last[1].connection == 1 ? last[1] : last[2];
  EXPECT_EQ(all, (Reply{1, 1, Status::good, text("1") + text("2") + text("3")}));
  EXPECT_FALSE(table.next_due()) << "no waits";
}

TEST_F(KeyTableTest, ARemovedKeyIsWaitedForAgain) {
  set("a", "1");
  await(1, {"a", "b"});
  ask(9, 0, Request::remove, Writer().text("a"));
  taken();
  set("b", "2");
  EXPECT_EQ(last.size(), 1u);
  set("a", "3");
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[1].body, text("3") + text("2"));
}

TEST_F(KeyTableTest, AnotherKeyEndsTheWaitUnlessItsKeysExist) {
  await(1, {"a"}, "failure");
  set("failure", "why");
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[1], (Reply{1, 1, Status::instead, text("why")}));
  await(1, {"a"}, "failure");
  EXPECT_EQ(taken().front().status, Status::instead);
  set("a", "1");
  await(1, {"a"}, "failure");
  EXPECT_EQ(taken().front().status, Status::good);
}

TEST_F(KeyTableTest, TimePasses) {
  await(1, {"a"}, "", 1000);
  await(2, {"a"}, "", 500);
  EXPECT_EQ(table.next_due(), now + milliseconds(500));
  table.expire(now + milliseconds(999));
  EXPECT_EQ(taken(), (std::vector<Reply>{{2, 1, Status::passed, ""}}));
  table.expire(now + milliseconds(1000));
  EXPECT_EQ(taken(), (std::vector<Reply>{{1, 1, Status::passed, ""}}));
  EXPECT_FALSE(table.next_due());
  await(3, {"a"}, "", ~uint64_t{0});
  EXPECT_GT(*table.next_due(), now) << "the longest time does not overflow";
}

TEST_F(KeyTableTest, AClosedConnectionGetsNoAnswers) {
  await(1, {"a"});
  await(2, {"a"});
  gather(1, 2, "x");
  table.forget(1);
  set("a", "1");
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[1].connection, 2u);
  gather(0, 2, "y");
  EXPECT_EQ(taken(), (std::vector<Reply>{{0, 1, Status::good, write_runs({{0, "y"}, {1, "x"}})}})) << "its value counts";
  EXPECT_FALSE(table.next_due());
}

TEST_F(KeyTableTest, AGatheringAnswersAllAtOnceWithRunsOfEqualValues) {
  gather(3, 4, "b");
  gather(0, 4, "a");
  gather(1, 4, "a");
  EXPECT_TRUE(taken().empty());
  gather(2, 4, "b");
  ASSERT_EQ(taken().size(), 4u);
  for (const Reply& one : last) EXPECT_EQ(one.body, write_runs({{0, "a"}, {1, "a"}, {2, "b"}, {3, "b"}}));
}

TEST_F(KeyTableTest, AnExpiredGatheringNamesTheMissing) {
  gather(1, 1000, "x", 500);
  gather(3, 1000, "x", 1000);
  ask(1, 2, Request::missing, Writer().text("all"));
  table.expire(now + milliseconds(500));
  ASSERT_EQ(taken().size(), 2u);
  for (const Reply& one : last) {
    Reader in(one.body);
    EXPECT_EQ(in.u32(), 998u);
    std::vector<uint32_t> named;
    while (!in.at_end()) named.push_back(in.u32());
    EXPECT_EQ(named.size(), message::kMostMissing);
    EXPECT_EQ((std::vector<uint32_t>(named.begin(), named.begin() + 3)), (std::vector<uint32_t>{0, 2, 4}));
  }
  set("failure", "why");
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[1], (Reply{3, 1, Status::instead, text("why")}));
}

TEST_F(KeyTableTest, AMismatchedSizeIsReportedToAllRanks) {
  const auto other = [](uint32_t rank, uint32_t size) { return Writer().u32(rank).u32(size).take(); };
  gather(0, 3, "");
  gather(2, 3, "");
  gather(1, 2, "");
  ASSERT_EQ(taken().size(), 3u);
  for (const Reply& one : last) {
    EXPECT_EQ(one.status, Status::mismatch);
    EXPECT_EQ(one.body, one.connection == 1 ? other(0, 3) : other(1, 2));
  }
  gather(5, 7, "");
  EXPECT_EQ(taken(), (std::vector<Reply>{{5, 1, Status::mismatch, other(0, 3)}})) << "later ranks too";
}

TEST(Runs, AreDecodedAsEncoded) {
  std::map<uint32_t, std::string> values;
  std::vector<std::string> all;
  for (int rank = 0; rank < 1000; ++rank) all.push_back("node" + std::to_string(10'000 + rank / 8));
  all[3] = "";
  all[500] = std::string(300, 'x');
  for (size_t rank = 0; rank < all.size(); ++rank) values[static_cast<uint32_t>(rank)] = all[rank];
  const std::string text = write_runs(values);
  EXPECT_EQ(read_runs(text, all.size()), all);
  EXPECT_LT(text.size(), 300 + 130 * 5u) << "about five bytes per host";
  EXPECT_THROW(read_runs(text, all.size() - 1), message::Malformed);
  EXPECT_THROW(read_runs(text, all.size() + 1), message::Malformed);
  for (size_t cut = 0; cut < text.size(); ++cut) EXPECT_THROW(read_runs(text.substr(0, cut), all.size()), message::Malformed);
  EXPECT_THROW(read_runs(std::string("\x01\x01\x00", 3), 1), message::Malformed) << "shares with nothing";
  EXPECT_THROW(read_runs(std::string("\x00\x00\x00", 3), 1), message::Malformed);
  EXPECT_THROW(read_runs(std::string(20, '\xff'), 1), message::Malformed);
}

TEST_F(KeyTableTest, MalformedRequestsAreRefusedAndChangeNothing) {
  set("text", "x");
  const auto refused = [this](Request request, Writer body) {
    EXPECT_THROW(ask(1, 1, request, std::move(body)), message::Malformed);
  };
  refused(Request::set, Writer().text("k"));
  refused(Request::set, Writer().text("k").text("v").u32(1));
  refused(Request::set, Writer().u32(4'000'000'000));
  refused(Request::check, Writer().u32(4'000'000'000));
  refused(Request::set_all, Writer().u32(2).text("k").text("v"));
  refused(Request::add, Writer().text("text").u64(1));
  refused(Request::gather, Writer().u64(1).text("").text("all").u32(2).u32(2).text("v"));
  refused(Request::gather, Writer().u64(1).text("").text("").u32(0).u32(2).text("v"));
  refused(static_cast<Request>(0), Writer());
  refused(static_cast<Request>(200), Writer());
  ask(1, 1, Request::count, Writer());
  EXPECT_EQ(taken(), (std::vector<Reply>{{1, 1, Status::good, number(1)}}));
}

}  // namespace
}  // namespace weft::key_table_test
