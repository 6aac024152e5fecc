// Jobs: real programs side by side; their end is reported, a signal ends all, and no process is left.
#include "weft/launch/jobs.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/support/environment_variables.h"
#include "tests/support/wait_until.h"
#include "weft/base/error.h"

namespace weft::jobs_test {
namespace {

class Jobs : public testing::Test {
 protected:
  void SetUp() override {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    std::string name = (std::filesystem::temp_directory_path() / "weft_jobs_XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override {
    EXPECT_TRUE(wait_until(
        [] {
          pid_t got = 0;
          while ((got = waitpid(-1, nullptr, WNOHANG)) > 0) {
          }
          return got < 0;
        },
        2.0))
        << "a process is left";
    std::filesystem::remove_all(folder_);
  }

  Job shell(const std::string& script, const std::string& log) const {
    return {.command = {"/bin/sh", "-c", script}, .environment = {"WORD=printed"}, .log = (folder_ / log).string()};
  }
  std::string read(const std::string& name) const {
    std::ifstream in(folder_ / name);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  }

  std::filesystem::path folder_;
};

TEST_F(Jobs, EachHasItsLogItsEnvironmentAndItsStatus) {
  std::vector<int> statuses(4, -1);
  const std::vector<Job> jobs = {shell("echo out $WORD; echo err >&2", "a"), shell("exit 3", "b"), shell("kill -9 $$", "c"),
                                 shell("read word || echo nothing to read; ! env | grep -E '^(RANK|MASTER_|WEFT_)'", "d")};
  const test::EnvironmentVariables place(
      {{"RANK", "1"}, {"MASTER_PORT", "29500"}, {"WEFT_ERROR_FD", "7"}, {"WEFT_NODES", "2"}, {"WEFT_HEAD", "a:1"}});
  const int interrupt = run_jobs(jobs, {.on_end = [&](size_t job, const JobEnd& end) {
                                   statuses[job] = end.status;
                                   EXPECT_FALSE(end.interrupted);
                                 }});
  EXPECT_EQ(interrupt, 0);
  EXPECT_EQ(statuses, (std::vector<int>{0, 3, 128 + SIGKILL, 0}));
  EXPECT_EQ(read("a"), "out printed\nerr\n");
  EXPECT_EQ(read("d"), "nothing to read\n");
}

TEST_F(Jobs, AtMostTheGivenNumberRunAtOnce) {
  const std::vector<Job> jobs(5, shell("sleep 0.05", "log"));
  for (const int most : {1, 2, 7}) {
    int running = 0, highest = 0;
    std::vector<size_t> started;
    run_jobs(jobs, {.side_by_side = most,
                    .on_start =
                        [&](size_t job) {
                          started.push_back(job);
                          highest = std::max(highest, ++running);
                        },
                    .on_end = [&](size_t, const JobEnd&) { --running; }});
    EXPECT_EQ(started, (std::vector<size_t>{0, 1, 2, 3, 4}));
    EXPECT_EQ(highest, std::min(most, 5));
  }
}

TEST_F(Jobs, AnEndIsSeenAtOnceEvenIfAnotherThreadTakesItsSignal) {
  std::atomic<bool> is_over = false;
  std::thread other([&] { is_over.wait(false); });
  const auto begin = std::chrono::steady_clock::now();
  run_jobs(std::vector<Job>(10, shell("exit 0", "log")));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(2500));
  is_over = true;
  is_over.notify_all();
  other.join();
}

TEST_F(Jobs, ASignalEndsRunningJobsAndStartsNoMore) {
  for (const char* script : {"sleep 60", "trap '' TERM; sleep 60 & wait; sleep 60"}) {
    const auto begin = std::chrono::steady_clock::now();
    int started = 0, ended = 0;
    const int interrupt = run_jobs(std::vector<Job>(4, shell(script, "log")), {.side_by_side = 2,
                                                                               .grace_s = 0.3,
                                                                               .on_start =
                                                                                   [&](size_t) {
                                                                                     if (++started == 2) kill(getpid(), SIGINT);
                                                                                   },
                                                                               .on_end =
                                                                                   [&](size_t, const JobEnd& end) {
                                                                                     ++ended;
                                                                                     EXPECT_TRUE(end.interrupted);
                                                                                     EXPECT_NE(end.status, 0);
                                                                                   }});
    EXPECT_EQ(interrupt, SIGINT);
    EXPECT_EQ(started, 2);
    EXPECT_EQ(ended, 2);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << script;
  }
}

TEST_F(Jobs, WhatCannotBeStartedIsAnError) {
  Job missing = shell("", "log");
  missing.command = {"/no/such/program"};
  EXPECT_THROW(run_jobs({shell("sleep 60", "first"), missing}, {.side_by_side = 2}), InputError);
  EXPECT_THROW(run_jobs({shell("exit 0", "no/such/folder/log")}), InputError);
}

}  // namespace
}  // namespace weft::jobs_test
