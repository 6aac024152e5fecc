// ProcessGroup: real processes, whose end wakes a poll, and which leave nothing behind.
#include "weft/launch/process_group.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "tests/support/wait_until.h"
#include "weft/base/error.h"
#include "weft/launch/guardian.h"

namespace weft::process_group_test {
namespace {

constexpr std::chrono::milliseconds kSoon{10'000};  // far less than the children's sleep

/// Children write to a pipe.
class ProcessGroupTest : public testing::Test {
 protected:
  void SetUp() override {
    prctl(PR_SET_CHILD_SUBREAPER, 1);  // this process reaps orphans
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    from_ = FileDescriptor(ends[0]);
    to_ = FileDescriptor(ends[1]);
    guardian_.emplace(16);
  }
  void TearDown() override {
    guardian_.reset();
    EXPECT_TRUE(wait_until(
        [] {
          pid_t got = 0;
          while ((got = waitpid(-1, nullptr, WNOHANG)) > 0) {
          }
          return got < 0 && errno == ECHILD;
        },
        2.0))
        << "a process is left";
  }

  ProcessStart shell(const std::string& script) {
    ProcessStart start{.command = {"/bin/sh", "-c", script}, .standard_output = to_.get()};
    start.guardian = &*guardian_;
    return start;
  }

  /// Reads the number that a child writes.
  pid_t read_pid() const {
    char text[32] = {};
    return read(from_.get(), text, sizeof text - 1) > 0 ? std::atoi(text) : 0;
  }

  std::optional<Guardian> guardian_;
  FileDescriptor from_, to_;
};

TEST_F(ProcessGroupTest, TheEndOfTheChildWakesAPoll) {
  ProcessGroup process(shell("read word; exit 3"));
  EXPECT_TRUE(process.wait(kSoon));
  pollfd ended = process.descriptor();
  EXPECT_EQ(poll(&ended, 1, 0), 1);
  EXPECT_TRUE(process.is_left());
  const std::optional<int> status = process.reap();
  ASSERT_TRUE(status);
  EXPECT_EQ(WEXITSTATUS(*status), 3);
  EXPECT_FALSE(process.is_left());
  EXPECT_FALSE(process.reap()) << "it was reported once";
  ended = process.descriptor();
  EXPECT_EQ(poll(&ended, 1, 0), 0) << "poll() skips a reaped child";
}

TEST_F(ProcessGroupTest, WhatTheChildLeftBehindIsGone) {
  ProcessGroup process(shell("sleep 600 & echo $!"));
  const pid_t left_behind = read_pid();
  ASSERT_GT(left_behind, 0);
  ASSERT_TRUE(process.wait(kSoon));
  EXPECT_EQ(kill(left_behind, 0), 0);
  EXPECT_EQ(process.reap(), 0);
  // TearDown() checks that nothing is left.
}

TEST_F(ProcessGroupTest, TheDestructorLeavesNothing) {
  ProcessGroup process(shell("trap '' TERM; sleep 600 & echo $!; wait; sleep 600"));
  ASSERT_GT(read_pid(), 0);
  EXPECT_FALSE(process.wait(std::chrono::milliseconds(20)));
  EXPECT_FALSE(process.reap()) << "it lives";
}

TEST_F(ProcessGroupTest, AStoppedChildReceivesASignal) {
  ProcessGroup process(shell("trap 'exit 4' TERM; echo $$; while :; do sleep 0.01; done"));
  const pid_t pid = read_pid();
  ASSERT_GT(pid, 0);
  EXPECT_FALSE(process.is_stopped());
  kill(pid, SIGSTOP);
  EXPECT_TRUE(wait_until([&] { return process.is_stopped(); }, 2.0));
  process.signal(SIGTERM);
  ASSERT_TRUE(process.wait(kSoon));
  const std::optional<int> status = process.reap();
  EXPECT_FALSE(process.is_stopped());
  EXPECT_EQ(status, W_EXITCODE(4, 0));
}

TEST_F(ProcessGroupTest, AProgramThatCannotBeRunIsAnError) {
  ProcessStart start = shell("");
  start.command = {"/no/such/program"};
  const ProcessGroup process(start);
  EXPECT_THROW(process.check_run(kSoon), InputError);
}

/// Runs in its own process, so that this one keeps its system calls.
[[noreturn]] void start_without_pidfd(const ProcessStart& start) {
  sock_filter lines[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter{4, lines};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
  try {
    ProcessGroup process(start);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s; %s", error.what(), waitpid(-1, nullptr, WNOHANG) < 0 ? "none is left" : "it is left");
  }
  std::_Exit(1);
}

TEST_F(ProcessGroupTest, AKernelWithoutPidfdIsReported) {
  EXPECT_EXIT(start_without_pidfd(shell("sleep 600")), testing::ExitedWithCode(1),
              "cannot watch the started '/bin/sh': .* needs Linux 5.3 or newer.*; none is left");
}

}  // namespace
}  // namespace weft::process_group_test
