// weft check: what it prints for a sound machine and for faults, and its exit status.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/command.h"
#include "tests/support/wait_until.h"

namespace weft::check_test {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class WeftCheck : public testing::Test {
 protected:
  void TearDown() override { EXPECT_FALSE(processes_left()); }
};

TEST_F(WeftCheck, ASoundMachine) {
  const CommandResult result = run_weft({"check", "-n", "2"});
  EXPECT_EQ(result.status, 0) << result.out;
  EXPECT_EQ(result.err, "");
  const std::vector<std::string> lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 26u) << result.out;
  EXPECT_TRUE(lines.front().starts_with("2 ranks on 1 host (")) << lines.front();
  EXPECT_TRUE(lines.back().starts_with("20 ok, 0 FAILED, 4 not checked; ")) << lines.back();
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(), [](const auto& line) { return line.starts_with("ok      layout "); }),
            12);
  for (const char* part :
       {"\nok      collectives shm       96 calls give the right values over all 2 ranks; ",
        "\nok      layout zero-3         trains as one device does, bit by bit; ",
        "\nok      layout tp             trains as one device does, within rounding (",
        "\n-       devices               not checked: ranks compute on the CPU",
        "\n-       host clocks           not checked: one host\n", "\nok      links                 1 pair: "}) {
    EXPECT_TRUE(contains(result.out, part)) << part << " is not in\n" << result.out;
  }
}

/// One rank has nothing to share, and says so.
TEST_F(WeftCheck, WritesJson) {
  const CommandResult result = run_weft({"check", "-n", "1", "--json"});
  EXPECT_EQ(result.status, 0) << result.err;
  const nlohmann::json json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("failed"), 0);
  EXPECT_EQ(json.at("ok").get<int>() + json.at("not_checked").get<int>(), static_cast<int>(json.at("checks").size()));
  for (const nlohmann::json& check : json.at("checks")) {
    const std::string name = check.at("name");
    if (name == "layout recompute") {
      EXPECT_EQ(check.at("verdict"), "ok");
    }
    if (name == "collectives" || name == "links") {
      EXPECT_EQ(check.at("verdict"), "not checked") << name;
      EXPECT_EQ(check.at("text"), "one rank; give -n 2 or more, or --hosts") << name;
    }
  }
}

TEST_F(WeftCheck, ALowLimitFails) {
  const auto check = [](const std::vector<std::string>& arguments) {
    return run_weft(arguments, {.environment = {}, .prepare = [] {
                                  const rlimit limit{60, 60};
                                  setrlimit(RLIMIT_NOFILE, &limit);
                                }});
  };
  const CommandResult alone = check({"check", "-n", "1"});
  EXPECT_EQ(alone.status, 1);
  EXPECT_EQ(alone.err, "weft: 1 of 13 checks failed: limits\n");
  EXPECT_TRUE(contains(alone.out, "FAILED  limits                open files are limited to 60, but 1 rank need")) << alone.out;
  const CommandResult two = check({"check", "-n", "2"});
  EXPECT_EQ(two.status, 1);
  EXPECT_TRUE(contains(two.err, "raise the limit (ulimit -n)")) << two.err;
  EXPECT_EQ(std::count(two.err.begin(), two.err.end(), '\n'), 1) << two.err;
}

TEST_F(WeftCheck, AFullSharedMemoryIsNamed) {
  const CommandResult result = run_weft({"check", "-n", "1"}, {.environment = {{"LD_PRELOAD", WEFT_FAILPOINT},
                                                                               {"WEFT_FAIL_BELOW", "/dev/shm"},
                                                                               {"WEFT_FAIL_AT", "3"},
                                                                               {"WEFT_FAIL_WITH", "ENOSPC"}}});
  EXPECT_EQ(result.status, 0) << "ranks on CPUs do not need it";
  EXPECT_TRUE(contains(result.out,
                       "-       /dev/shm              not checked: cannot be written: No space left on device; ranks on "
                       "CPUs do not use it\n"))
      << result.out;
}

TEST_F(WeftCheck, WhatIsMissingIsNamedOnce) {
  const auto error_of = [](const std::vector<std::string>& arguments, const CommandOptions& options) {
    const CommandResult result = run_weft(arguments, options);
    EXPECT_EQ(result.status, 1) << result.out;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return result.err;
  };
  const CommandOptions half{.environment = {{"RANK", "0"},
                                            {"WORLD_SIZE", "2"},
                                            {"LOCAL_RANK", "0"},
                                            {"LOCAL_WORLD_SIZE", "1"},
                                            {"MASTER_ADDR", "127.0.0.1"},
                                            {"MASTER_PORT", free_port()}}};
  EXPECT_TRUE(contains(error_of({"check", "--timeout", "1"}, half), "rank 1 "));
  EXPECT_TRUE(contains(error_of({"check", "--hosts", "127.0.0.2:1,nosuch.invalid:1", "--head-address", "127.0.0.1"}, {}),
                       "nosuch.invalid"));
}

/// The lines before it stand, the part that it was in fails and names it, and the later parts are not checked.
TEST_F(WeftCheck, ADeadRankEndsIt) {
  const TemporaryFolder places[2];
  const std::string port = free_port();
  pid_t ranks[2];
  for (int r = 0; r < 2; ++r) ranks[r] = start_rank({"check", "--timeout", "10"}, places[r].path(), r, 2, port);
  const auto out = [&] { return read_text(places[0] / "out"); };
  EXPECT_TRUE(wait_until([&] { return contains(out(), "layout dp"); }, 30.0)) << out();
  kill(ranks[1], SIGKILL);
  EXPECT_EQ(wait_for(ranks[1], 10.0), 128 + SIGKILL);
  EXPECT_EQ(wait_for(ranks[0], 30.0), 1);
  const std::vector<std::string> lines = lines_of(out());
  const auto failed = std::find_if(lines.begin(), lines.end(), [](const auto& line) { return line.starts_with("FAILED  "); });
  ASSERT_NE(failed, lines.end()) << out();
  EXPECT_TRUE(failed->starts_with("FAILED  layout ") && contains(*failed, "rank 1")) << *failed;
  EXPECT_EQ(lines[lines.size() - 2], "-       links                 not checked: an earlier check did not end");
  EXPECT_TRUE(contains(lines.back(), ", 1 FAILED, ")) << lines.back();
  const std::string error = read_text(places[0] / "err");
  EXPECT_TRUE(error.starts_with("weft: rank 0: ") && contains(error, "rank 1")) << error;
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 1) << error;
}

}  // namespace
}  // namespace weft::check_test
