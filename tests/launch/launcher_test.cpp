// Launcher: real processes, ended in every possible way; no process may be left afterwards.
#include "weft/launch/launcher.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <thread>

#include "tests/support/wait_until.h"
#include "weft/base/error.h"
#include "weft/base/run_board.h"
#include "weft/launch/error_pipe.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

/// Makes this process the reaper of orphans, so that it sees every process that a launcher leaves behind.
class LauncherTest : public testing::Test {
 protected:
  void SetUp() override {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    std::string name = (std::filesystem::temp_directory_path() / "weft_launch_XXXXXX").string();
    folder_ = mkdtemp(name.data());
    setenv("OUT", folder_.c_str(), 1);
  }

  void TearDown() override {
    EXPECT_TRUE(no_process_left()) << "a process outlived its launcher";
    std::filesystem::remove_all(folder_);
    unsetenv("OUT");
  }

  /// Returns true if every child is gone within a second: reaps dead ones; a live one would keep waitpid at 0.
  static bool no_process_left() {
    return wait_until(
        [] {
          pid_t got = 0;
          while ((got = waitpid(-1, nullptr, WNOHANG)) > 0) {
          }
          return got < 0 && errno == ECHILD;
        },
        1.0);
  }

  LaunchOptions shell(int ranks, const std::string& script) {
    LaunchOptions options;
    options.num_ranks = ranks;
    options.command = {"/bin/sh", "-c", script};
    options.grace_s = 0.3;
    return options;
  }

  int run(const LaunchOptions& options) {
    error_.clear();
    const auto start = Clock::now();
    const int status = launch(options, error_);
    seconds_ = seconds_since(start);
    return status;
  }

  /// Forks the launcher into its own process, for signals; its error goes to a file.
  pid_t fork_launcher(const LaunchOptions& options) {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    std::string error;
    const int status = launch(options, error);
    std::ofstream(folder_ / "error") << error;
    _exit(status);
  }

  bool appeared(const std::string& name) {
    return wait_until([&] { return std::filesystem::exists(folder_ / name); }, 5.0);
  }

  static int wait_status(pid_t pid, double seconds) {
    int status = -1;
    if (!wait_until([&] { return waitpid(pid, &status, WNOHANG) == pid; }, seconds)) kill(pid, SIGKILL);
    return status;
  }

  std::filesystem::path folder_;
  std::string error_;
  double seconds_ = 0.0;
};

TEST_F(LauncherTest, RanksGetTheirEnvironment) {
  unsetenv("OMP_NUM_THREADS");
  setenv("RANK", "7", 1);  // from an outer launcher, not for these ranks
  const int status = run(shell(3,
                               "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR > $OUT/$RANK;"
                               "echo $MASTER_PORT > $OUT/port$RANK; echo ${WEFT_STORE:-none} > $OUT/store$RANK;"
                               "echo $OMP_NUM_THREADS > $OUT/threads$RANK"));
  unsetenv("RANK");
  ASSERT_EQ(status, 0) << error_;
  EXPECT_EQ(error_, "");
  for (const std::string rank : {"0", "1", "2"}) {
    EXPECT_EQ(read_text(folder_ / rank), rank + " 3 " + rank + " 3 127.0.0.1\n");
    EXPECT_EQ(read_text(folder_ / ("port" + rank)), read_text(folder_ / "port0"));
    EXPECT_GE(std::stoi(read_text(folder_ / ("threads" + rank))), 1);
  }
  EXPECT_GT(std::stoi(read_text(folder_ / "port0")), 1023);
  EXPECT_EQ(read_text(folder_ / "store0"), "none\n") << "there is no store";
}

TEST_F(LauncherTest, UsersThreadCountIsKept) {
  setenv("OMP_NUM_THREADS", "5", 1);
  EXPECT_EQ(run(shell(2, "test $OMP_NUM_THREADS = 5")), 0) << error_;
  unsetenv("OMP_NUM_THREADS");
}

TEST_F(LauncherTest, StoreIsServedOnTheLoopbackInterfaceWhileRanksLive) {
  // /proc/net/tcp: local address 0100007F:<port>, state 0A is LISTEN; the master port is the program's own.
  LaunchOptions options =
      shell(2,
            "port=${WEFT_STORE%/*}; port=${port#127.0.0.1:}; test ${WEFT_STORE#*/} = $MASTER_PORT || exit 2;"
            "at() { cat /proc/net/tcp /proc/net/tcp6 | grep -i \":$(printf %04X $1) [0:]* 0A\"; };"
            "test \"$(at $port | awk '{print $2}')\" = 0100007F:$(printf %04X $port) || exit 3;"
            "at $MASTER_PORT && exit 4; ls -l /proc/self/fd | grep socket: && exit 5; exit 0");
  std::weak_ptr<FileDescriptor> server;
  options.serve = [&](FileDescriptor socket) {
    const auto served = std::make_shared<FileDescriptor>(std::move(socket));
    server = served;
    return served;
  };
  EXPECT_EQ(run(options), 0) << error_;
  EXPECT_TRUE(server.expired());
}

TEST_F(LauncherTest, RanksReceiveSignalsThatAParentIgnored) {
  const std::vector<int> ignored = {SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGUSR1, SIGTSTP, SIGXFSZ};
  for (const int number : ignored) signal(number, SIG_IGN);
  const int status = run(shell(1, "grep SigIgn /proc/self/status | cut -f2 > $OUT/ignored"));
  for (const int number : ignored) signal(number, SIG_DFL);
  EXPECT_EQ(status, 0) << error_;
  // The two signals below SIGRTMIN are libc's own: nobody can set them, and the parent of this test may have ignored them.
  const uint64_t of_libc = (uint64_t{1} << (SIGRTMIN - 1)) - (uint64_t{1} << (__SIGRTMIN - 1));
  EXPECT_EQ(std::stoull(read_text(folder_ / "ignored"), nullptr, 16) & ~of_libc, uint64_t{1} << (SIGTTOU - 1));
}

TEST_F(LauncherTest, AHangUpThatNohupIgnoresEndsNothing) {
  signal(SIGHUP, SIG_IGN);
  const pid_t launcher = fork_launcher(shell(2, "echo > $OUT/$RANK; while ! test -e $OUT/go; do sleep 0.05; done"));
  signal(SIGHUP, SIG_DFL);
  ASSERT_TRUE(appeared("0") && appeared("1"));
  kill(launcher, SIGHUP);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  std::ofstream(folder_ / "go") << "";
  EXPECT_EQ(wait_status(launcher, 5.0), 0);
}

TEST_F(LauncherTest, StoppedProcessesEndWithTheRest) {
  // A stopped rank receives forwarded signals; a stopped guardian holds nothing up.
  const std::string stop_guardian =
      "for p in $(cat /proc/$PPID/task/$PPID/children); do grep -q guardian /proc/$p/comm && kill -STOP $p; done;";
  const pid_t launcher =
      fork_launcher(shell(2, stop_guardian + "echo > $OUT/$RANK; if [ $RANK = 1 ]; then kill -STOP $$; fi; exec sleep 60"));
  ASSERT_TRUE(appeared("0") && appeared("1"));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  kill(launcher, SIGTERM);
  EXPECT_EQ(WEXITSTATUS(wait_status(launcher, 5.0)), 128 + SIGTERM) << "ten seconds are for ranks that have something to do";
}

TEST_F(LauncherTest, TheSignalThatEndsARunReportsWhatIsNotSaved) {
  const struct {
    int64_t done, saved;
    std::string says;
  } rows[] = {
      {0, 0, ""},
      {7, -1, " after step 7"},
      {7, 0, " after step 7; nothing is saved (save.folder and save.every keep checkpoints)"},
      {7, 5, " after step 7; not saved since step 5"},
      {7, 7, " after step 7, which is saved"},
  };
  for (const auto& row : rows) {
    RunBoard board(0);
    board.set_steps_done(row.done);
    board.set_saved_step(row.saved);
    LaunchOptions options = shell(1, "kill -TERM $PPID; exec sleep 60");
    options.board = &board;
    EXPECT_EQ(run(options), 128 + SIGTERM);
    EXPECT_EQ(error_, "ended by SIGTERM" + row.says);
  }
}

TEST_F(LauncherTest, AKilledGuardianEndsNothing) {
  const std::string kill_guardian =
      "for p in $(cat /proc/$PPID/task/$PPID/children); do grep -q guardian /proc/$p/comm && kill -KILL $p; done; sleep 0.2;";
  EXPECT_EQ(run(shell(1, kill_guardian + "exit 0")), 0) << error_;
  EXPECT_EQ(run(shell(1, kill_guardian + "exit 3")), 3);
  EXPECT_EQ(error_, "rank 0: ended with status 3");
}

TEST_F(LauncherTest, OneRankIsAnOrdinaryCase) { EXPECT_EQ(run(shell(1, "exit 0")), 0); }

TEST_F(LauncherTest, MoreRanksThanCores) {
  EXPECT_EQ(run(shell(16, "echo > $OUT/$RANK")), 0) << error_;
  for (int r = 0; r < 16; ++r) EXPECT_TRUE(std::filesystem::exists(folder_ / std::to_string(r)));
}

TEST_F(LauncherTest, FirstFailureEndsTheGroup) {
  EXPECT_EQ(run(shell(3, "if [ $RANK = 1 ]; then exit 9; fi; sleep 60")), 9);
  EXPECT_EQ(error_, "rank 1: ended with status 9");
  EXPECT_LT(seconds_, 2.0);
}

TEST_F(LauncherTest, ARankThatIgnoresSigtermIsKilled) {
  EXPECT_EQ(run(shell(2, "if [ $RANK = 0 ]; then sleep 0.2; exit 4; fi; trap '' TERM INT; while :; do sleep 0.05; done")), 4);
  EXPECT_EQ(error_, "rank 0: ended with status 4");
  EXPECT_LT(seconds_, 2.0);
}

TEST_F(LauncherTest, AReportedErrorOutweighsEchoes) {
  // Rank 0 notices rank 1's death before the launcher does, and reports first.
  const std::string report = "now() { awk '{printf \"%d\", $1 * 1e9}' /proc/uptime; };";
  EXPECT_EQ(run(shell(2, report + "if [ $RANK = 0 ]; then echo \"$(now) 0 peer rank 1 died\" >&$WEFT_ERROR_FD; exit 1; fi;"
                                  "sleep 0.1; echo \"$(now) 1 self loss is nan\" >&$WEFT_ERROR_FD; exit 3")),
            3);
  EXPECT_EQ(error_, "rank 1: loss is nan");
  EXPECT_LT(seconds_, 2.0);
}

TEST_F(LauncherTest, AnEchoWithoutCauseIsReported) {
  EXPECT_EQ(
      run(shell(2, "if [ $RANK = 0 ]; then echo '5 0 peer call 3 does not match' >&$WEFT_ERROR_FD; exit 1; fi; sleep 60")), 1);
  EXPECT_EQ(error_, "rank 0: call 3 does not match");
  EXPECT_LT(seconds_, 2.0);
}

TEST_F(LauncherTest, AnEchoThatNamesARankIsReportedUnchanged) {
  EXPECT_EQ(
      run(shell(2, "if [ $RANK = 0 ]; then echo '5 0 peer:1 rank 1: did not come' >&$WEFT_ERROR_FD; exit 1; fi; sleep 60")), 1);
  EXPECT_EQ(error_, "rank 1: did not come");
  EXPECT_LT(seconds_, 2.0);
}

TEST_F(LauncherTest, AStoppedRankIsBlamedForEchoes) {
  const std::string stop = "if [ $RANK = 2 ]; then kill -STOP $$; fi; sleep 0.3;";
  const std::string echo = "if [ $RANK = 0 ]; then echo '5 0 peer:1 rank 1: did not come' >&$WEFT_ERROR_FD; exit 1; fi;";
  EXPECT_EQ(run(shell(3, stop + echo + "sleep 60")), 1);
  EXPECT_EQ(error_, "rank 2: stopped by a signal; other ranks waited for it");
  EXPECT_LT(seconds_, 4.0);
}

TEST_F(LauncherTest, ARankThatReportsAndHangsIsEnded) {
  EXPECT_EQ(run(shell(2, "if [ $RANK = 0 ]; then echo '5 0 self bad' >&$WEFT_ERROR_FD; fi; sleep 60")), 1);
  EXPECT_EQ(error_, "rank 0: bad");
  EXPECT_LT(seconds_, 2.0);
}

TEST_F(LauncherTest, KilledRank) {
  EXPECT_EQ(run(shell(2, "if [ $RANK = 1 ]; then kill -9 $$; fi; sleep 60")), 128 + SIGKILL);
  EXPECT_EQ(error_.rfind("rank 1: killed by signal 9", 0), 0u) << error_;
  EXPECT_LT(seconds_, 2.0);
}

TEST_F(LauncherTest, GrandchildrenEndWithTheirRank) {
  // A succeeding rank and a failing one each leave a process behind.
  EXPECT_EQ(run(shell(2, "(trap '' TERM HUP; exec sleep 60) & if [ $RANK = 1 ]; then sleep 0.2; exit 3; fi")), 3);
  EXPECT_TRUE(no_process_left());
  EXPECT_EQ(run(shell(2, "sleep 60 & exit 0")), 0);
  EXPECT_TRUE(no_process_left());
}

TEST_F(LauncherTest, KilledLauncherTakesRanksAndGrandchildrenWithIt) {
  const pid_t launcher = fork_launcher(shell(2, "sleep 60 & echo > $OUT/$RANK; trap '' TERM INT HUP; sleep 60"));
  ASSERT_TRUE(appeared("0") && appeared("1"));
  kill(launcher, SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(wait_status(launcher, 2.0)));
  EXPECT_TRUE(no_process_left());
}

TEST_F(LauncherTest, LauncherKilledWhileItStartsRanks) {
  for (int attempt = 0; attempt < 5; ++attempt) {
    const pid_t launcher = fork_launcher(shell(8, "sleep 60 & sleep 60"));
    std::this_thread::sleep_for(std::chrono::milliseconds(2 * attempt + 1));
    kill(launcher, SIGKILL);
    EXPECT_TRUE(no_process_left()) << "killed after " << 2 * attempt + 1 << " ms";
  }
}

TEST_F(LauncherTest, InterruptIsForwardedAndRanksEndByThemselves) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const std::string name = std::to_string(signal);
    const pid_t launcher =
        fork_launcher(shell(2, "trap 'echo > $OUT/clean" + name + "_$RANK; exit 0' INT TERM HUP; echo > $OUT/up" + name +
                                   "_$RANK; while :; do sleep 0.05; done"));
    ASSERT_TRUE(appeared("up" + name + "_0") && appeared("up" + name + "_1"));
    kill(launcher, signal);
    const int status = wait_status(launcher, 3.0);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 128 + signal);
    EXPECT_TRUE(appeared("clean" + name + "_0") && appeared("clean" + name + "_1"));
    EXPECT_EQ(read_text(folder_ / "error").rfind("ended by", 0), 0u);
  }
}

TEST_F(LauncherTest, SecondInterruptKillsAtOnce) {
  const pid_t launcher =
      fork_launcher(shell(2, "trap '' INT TERM; echo > $OUT/$RANK; sleep 60 & while :; do sleep 0.05; done"));
  ASSERT_TRUE(appeared("0") && appeared("1"));
  kill(launcher, SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_EQ(waitpid(launcher, nullptr, WNOHANG), 0) << "the ranks have time to end after the first";
  const auto second = Clock::now();
  kill(launcher, SIGINT);
  const int status = wait_status(launcher, 2.0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_LT(seconds_since(second), 1.0);
}

/// SLURM sends SIGUSR1 and then SIGTERM, systemd SIGTERM and then SIGHUP.
TEST_F(LauncherTest, OnlyASecondCtrlCKillsRanksThatSave) {
  const struct {
    int first, second, status;
  } rows[] = {
      {SIGUSR1, SIGTERM, 75}, {SIGTERM, SIGTERM, 75}, {SIGTERM, SIGHUP, 75}, {SIGINT, SIGTERM, 75}, {SIGINT, SIGINT, 130}};
  for (const auto& row : rows) {
    LaunchOptions options =
        shell(2, "trap 'sleep 1; exit 75' INT TERM HUP USR1; echo > $OUT/up$RANK; while :; do sleep 0.05; done");
    options.stopped_status = 75;
    for (const char* name : {"up0", "up1"}) std::filesystem::remove(folder_ / name);
    const pid_t launcher = fork_launcher(options);
    ASSERT_TRUE(appeared("up0") && appeared("up1"));
    kill(launcher, row.first);
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    kill(launcher, row.second);
    EXPECT_EQ(WEXITSTATUS(wait_status(launcher, 10.0)), row.status) << row.first << " and " << row.second;
  }
}

/// Ranks that are ended because one failed: their state in memory must still be saved.
TEST_F(LauncherTest, AFirstInterruptWhileRanksAreEndedIsNoSecondOne) {
  LaunchOptions options = shell(2,
                                "if [ $RANK = 0 ]; then while [ ! -e $OUT/1 ]; do sleep 0.02; done; echo > $OUT/0; exit 3; fi;"
                                "trap '' TERM; echo > $OUT/1; while :; do sleep 0.05; done");
  options.grace_s = 20.0;
  const pid_t launcher = fork();
  if (launcher == 0) {
    const LaunchOutcome outcome = launch_once(options);
    std::ofstream(folder_ / "outcome") << outcome.interrupted << ' ' << outcome.at_once;
    _exit(0);
  }
  ASSERT_TRUE(appeared("0"));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  kill(launcher, SIGTERM);
  EXPECT_EQ(wait_status(launcher, 5.0), 0);
  EXPECT_EQ(read_text(folder_ / "outcome"), "15 0");
}

TEST_F(LauncherTest, InterruptHasADeadline) {
  LaunchOptions options = shell(1, "trap '' INT TERM; echo > $OUT/$RANK; while :; do sleep 0.05; done");
  options.interrupt_grace_s = 0.5;
  const pid_t launcher = fork_launcher(options);
  ASSERT_TRUE(appeared("0"));
  kill(launcher, SIGINT);
  EXPECT_EQ(WEXITSTATUS(wait_status(launcher, 3.0)), 130);
}

TEST_F(LauncherTest, BadInput) {
  for (const int ranks : {0, -3}) {
    LaunchOptions options = shell(ranks, "exit 0");
    EXPECT_THROW(launch(options, error_), InputError);
  }
  EXPECT_THROW(launch({.num_ranks = 1, .command = {}, .serve = {}, .grace_s = 1, .interrupt_grace_s = 1}, error_), InputError);
  LaunchOptions missing = shell(2, "");
  missing.command = {"/nonexistent/program"};
  try {
    launch(missing, error_);
    FAIL() << "started a program that is not there";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "cannot run '/nonexistent/program': No such file or directory");
  }
}

TEST_F(LauncherTest, SignalsAreRestored) {
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  signal(SIGCHLD, SIG_IGN);  // a parent that never reaps: the launcher must still see its ranks' status
  EXPECT_EQ(run(shell(2, "exit 6")), 6);
  EXPECT_EQ(signal(SIGCHLD, SIG_DFL), SIG_IGN);
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD})
    EXPECT_EQ(sigismember(&before, number), sigismember(&after, number));
}

TEST_F(LauncherTest, RankZeroReadsStandardInput) {
  const FileDescriptor saved(dup(STDIN_FILENO));
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(write(ends[1], "words\n", 6), 6);
  close(ends[1]);
  dup2(ends[0], STDIN_FILENO);
  close(ends[0]);
  EXPECT_EQ(run(shell(2, "read line; echo $RANK:$line > $OUT/$RANK")), 0) << error_;
  dup2(saved.get(), STDIN_FILENO);
  EXPECT_EQ(read_text(folder_ / "0"), "0:words\n");
  EXPECT_EQ(read_text(folder_ / "1"), "1:\n");
}

}  // namespace
}  // namespace weft
