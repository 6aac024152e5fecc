// weft run: any program as ranks, and what is left of it.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "tests/cli/command.h"

namespace weft {
namespace {

std::vector<std::string> shell(int ranks, const std::string& script) {
  return {"run", "-n", std::to_string(ranks), "--", "/bin/sh", "-c", script};
}

bool appeared(const std::filesystem::path& path) {
  for (int i = 0; i < 1000 && !std::filesystem::exists(path); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return std::filesystem::exists(path);
}

TEST(WeftRun, PassesOutputAndTheProgramsOwnOptionsThrough) {
  const CommandResult result = run_weft({"run", "-n", "2", "--", "/bin/sh", "-c", "echo $1 of rank $RANK", "sh", "--help"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("--help of rank 0\n"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("--help of rank 1\n"), std::string::npos) << result.out;
  EXPECT_EQ(result.err, "");
}

TEST(WeftRun, FailingRankIsNamedLastAndOnce) {
  const CommandResult result = run_weft(shell(2, "if [ $RANK = 1 ]; then echo trouble >&2; exit 7; fi; sleep 60"));
  EXPECT_EQ(result.status, 7);
  EXPECT_EQ(result.err, "trouble\nweft: rank 1: ended with status 7\n");
  EXPECT_LT(result.seconds, 5.0);
  EXPECT_FALSE(processes_left());
}

TEST(WeftRun, ProgramMayBindTheMasterPort) {
  const CommandResult result = run_weft({"run", "-n", "2", "--", "python3", "-c",
                                         "import os, socket, time\n"
                                         "address = (os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))\n"
                                         "if os.environ['RANK'] == '0':\n"
                                         "  server = socket.socket(); server.bind(address); server.listen(); server.accept()\n"
                                         "else:\n"
                                         "  for _ in range(1000):\n"
                                         "    if socket.socket().connect_ex(address) == 0: break\n"
                                         "    time.sleep(0.01)\n"
                                         "  else: raise SystemExit(3)\n"});
  EXPECT_EQ(result.status, 0) << result.err;
}

TEST(WeftRun, KilledCommandLeavesNothing) {
  const TemporaryFolder folder;
  const pid_t pid = start_weft(shell(2, "sleep 60 & echo > $OUT/$RANK; sleep 60"), folder.path(),
                               {.deadline_s = 60, .environment = {{"OUT", folder.path().string()}}});
  ASSERT_TRUE(appeared(folder / "0") && appeared(folder / "1"));
  kill(pid, SIGKILL);
  EXPECT_EQ(wait_for(pid, 2.0), 128 + SIGKILL);
  EXPECT_FALSE(processes_left());
}

TEST(WeftRun, InterruptEndsAllAndSaysSo) {
  const std::function<void()> starts[] = {[] {}, [] { signal(SIGINT, SIG_IGN); }};  // the latter as behind `&` in a script
  for (const auto& prepare : starts) {
    const TemporaryFolder folder;
    const pid_t pid = start_weft(shell(2, "echo > $OUT/$RANK; exec sleep 60"), folder.path(),
                                 {.deadline_s = 60, .environment = {{"OUT", folder.path().string()}}, .prepare = prepare});
    ASSERT_TRUE(appeared(folder / "0") && appeared(folder / "1"));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    kill(pid, SIGINT);
    EXPECT_EQ(wait_for(pid, 5.0), 130);
    EXPECT_EQ(read_text(folder / "err"), "weft: ended by Ctrl-C\n");
    EXPECT_FALSE(processes_left());
  }
}

// A program of weft's meets at the launcher's store, a loopback port of which no other process of the ranks knows.
TEST(WeftRun, LauncherServesTheStoreOnTheLoopbackInterface) {
  const CommandResult result =
      run_weft({"run", "-n", "2", "--", "python3", "-c",
                "import os\n"
                "port = '%04X' % int(os.environ['WEFT_STORE'].split('/')[0].split(':')[1])\n"
                "rows = [line.split() for table in ('tcp', 'tcp6') for line in open('/proc/net/' + table)]\n"
                "at = [row[1] for row in rows if row[3] == '0A' and row[1].endswith(':' + port)]\n"
                "assert at == ['0100007F:' + port], at\n"});
  EXPECT_EQ(result.status, 0) << result.err;
}

}  // namespace
}  // namespace weft
