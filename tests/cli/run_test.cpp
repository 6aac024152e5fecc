// weft run: any program as ranks, and what is left afterwards.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "tests/cli/command.h"
#include "weft/base/loopback.h"

namespace weft::run_test {
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

TEST(WeftRun, PrefixNamesTheRank) {
  const TemporaryFolder folder;
  // Rank 1 fails only after both have written: the other rank is ended then.
  const std::string written = (folder / "written").string();
  const CommandResult result = run_weft({"run", "-n", "2", "--prefix", "--", "/bin/sh", "-c",
                                         "printf 'one\\ntwo'; echo trouble >&2; touch " + written + ".$RANK; while [ ! -e " +
                                             written + ".$((1 - RANK)) ]; do sleep 0.01; done; exit $RANK"});
  EXPECT_EQ(result.status, 1);
  for (const std::string rank : {"0", "1"}) {
    EXPECT_NE(result.out.find("[rank " + rank + "] one\n"), std::string::npos) << result.out;
    EXPECT_NE(result.out.find("[rank " + rank + "] two\n"), std::string::npos) << "a last line without its end";
    EXPECT_NE(result.err.find("[rank " + rank + "] trouble\n"), std::string::npos) << result.err;
  }
  EXPECT_TRUE(result.err.ends_with("weft: rank 1: ended with status 1\n")) << result.err;
  EXPECT_FALSE(processes_left());
}

TEST(WeftRun, UnreadPrefixedOutputDelaysTheEndOnlyBriefly) {
  CommandOptions unread{.deadline_s = 30.0};
  unread.prepare = [] {
    int ends[2];  // both stay open: the writer cannot continue, and gets no error either
    if (pipe(ends) != 0) return;
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
  };
  const CommandResult result =
      run_weft({"run", "-n", "2", "--prefix", "--", "/bin/sh", "-c", "yes | head -c 60000; yes | head -c 60000 >&2"}, unread);
  EXPECT_EQ(result.status, 0);
  EXPECT_LT(result.seconds, 5.0);
  EXPECT_FALSE(processes_left());
}

TEST(WeftRun, ListensInThePortRange) {
  const std::string script = "echo $MASTER_PORT ${WEFT_STORE##*:}";
  const CommandResult result = run_weft({"run", "-n", "1", "--ports", "21000-21499", "--", "/bin/sh", "-c", script});
  EXPECT_EQ(result.status, 0) << result.err;
  int ports[2] = {};
  ASSERT_EQ(std::sscanf(result.out.c_str(), "%d %d", &ports[0], &ports[1]), 2) << result.out;
  for (const int port : ports) EXPECT_TRUE(port >= 21000 && port <= 21499) << port;
  const FileDescriptor taken = listen_on_loopback();
  const std::string one = std::to_string(port_of(taken)), range = one + "-" + one;
  const CommandResult full = run_weft({"run", "-n", "1", "--", "true"}, {.environment = {{"WEFT_PORTS", range}}});
  EXPECT_EQ(full.status, 1);
  EXPECT_EQ(full.err,
            "weft: cannot open a port of " + range + " (run.ports or WEFT_PORTS) on 127.0.0.1: Address already in use\n");
  const CommandResult wrong = run_weft({"run", "-n", "1", "--ports", "21000", "--", "true"});
  EXPECT_EQ(wrong.status, 1);
  EXPECT_NE(wrong.err.find("WEFT_PORTS=\"21000\": expected a range of ports"), std::string::npos) << wrong.err;
}

TEST(WeftRun, ConflictingHostOptionsAreRefusedBeforeAnythingStarts) {
  const std::vector<std::string> program = {"--", "true"};
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"--nodes", "2", "-n", "1"}, "--nodes needs --node-rank"},
      {{"--nodes", "2", "-n", "1", "--node-rank", "2"}, "--node-rank 2 with --nodes 2: node ranks count from 0"},
      {{"--nodes", "2", "-n", "1", "--node-rank", "1"}, "--nodes needs --head HOST:PORT"},
      {{"--nodes", "2", "-n", "1", "--node-rank", "1", "--head", "a"}, "--head \"a\": expected HOST:PORT"},
      {{"--nodes", "2", "-n", "1", "--node-rank", "1", "--head", "a:1"}, "--nodes needs a shared secret"},
      {{"--hosts", "a:2", "--no-token"}, "--no-token is for --nodes"},
      {{"--hosts", "a:2", "-n", "3"}, "-n 3: the hosts have room for 2 ranks"},
      {{"--hosts", "a:2", "--host-file", "f"}, "--hosts and --host-file both list the hosts; use only one"},
      {{"--hosts", "127.0.0.2:2,b", "--head-address", "127.0.0.1", "-x", "NOT_SET_ANYWHERE"},
       "-x NOT_SET_ANYWHERE: not set here"},
      {{"--host-file", "/nowhere"}, "--host-file /nowhere: cannot be read"},
      {{"--host-file", "/dev/zero"}, "--host-file /dev/zero: larger than 16.0 MiB"},
      {{"-n", "1", "--node-rank", "1"}, "--node-rank and --head are for --nodes"},
      {{"-n", "1", "-x", "A=1"}, "-x is for --hosts and --host-file"},
      {{"--hosts", "127.0.0.2:2,b", "--head-address", "127.0.0.1", "-x", "WEFT_TOKEN=1"},
       "-x WEFT_TOKEN=1: set by weft itself"},
      {{"--hosts", "127.0.0.2:2,b", "--head-address", "127.0.0.1", "-x", "RANK=1"}, "-x RANK=1: set by weft itself"},
      {{"--hosts", "a:2", "--nodes", "2"}, "use only one"},
  };
  for (const auto& [words, says] : cases) {
    std::vector<std::string> arguments = {"run"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    arguments.insert(arguments.end(), program.begin(), program.end());
    const CommandResult result = run_weft(arguments);
    EXPECT_EQ(result.status, 1);
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
  }
}

TEST(WeftRun, WithoutAnSshHereNoHostIsBlamed) {
  const CommandResult result = run_weft({"run", "--hosts", "127.0.0.1:1,b", "--head-address", "127.0.0.1", "--", "true"},
                                        {.environment = {{"PATH", "/nowhere"}}});
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(
      result.err.starts_with("weft: cannot run 'ssh': No such file or directory: hosts are started through the ssh of "
                             "this host; install it"))
      << result.err;
  EXPECT_FALSE(processes_left());
}

TEST(WeftRun, FailingRankIsNamedLastAndOnce) {
  const CommandResult result = run_weft(shell(2, "if [ $RANK = 1 ]; then echo trouble >&2; exit 7; fi; sleep 60"));
  EXPECT_EQ(result.status, 7);
  EXPECT_EQ(result.err, "trouble\nweft: rank 1: ended with status 7\n");
  EXPECT_LT(result.seconds, 5.0);
  EXPECT_FALSE(processes_left());
}

TEST(WeftRun, RestartsUntilSuccessOrTheLimit) {
  const TemporaryFolder folder;
  const std::string count = "echo >> $OUT/$RANK; ", times = "$(wc -l < $OUT/$RANK)";
  const CommandOptions with_folder{.environment = {{"OUT", folder.path().string()}}};
  // Several failures: the launcher cannot tell that a program makes no progress.
  const auto command = [](const std::string& restarts, const std::string& script) {
    return std::vector<std::string>{"run", "-n", "2", "--restarts", restarts, "--", "/bin/sh", "-c", script};
  };
  const CommandResult good = run_weft(
      command("4", count + "[ $RANK = 0 ] || [ " + times + " -ge 5 ] || exit 9; [ $RANK = 1 ] || sleep 0.2"), with_folder);
  EXPECT_EQ(good.status, 0) << good.err;
  EXPECT_TRUE(good.err.starts_with("weft: rank 1: ended with status 9; restart 1 of 4\n")) << good.err;
  EXPECT_NE(good.err.find("weft: rank 1: ended with status 9; restart 4 of 4 in "), std::string::npos) << good.err;
  const CommandResult bad = run_weft(command("1", "[ $RANK = 0 ] || exit 9; sleep 60"), with_folder);
  EXPECT_EQ(bad.status, 9);
  EXPECT_TRUE(bad.err.ends_with("weft: rank 1: ended with status 9; not restarted: 1 restart used up\n")) << bad.err;
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

TEST(WeftRun, ConsecutiveProgramsMeetSeparately) {
  const TemporaryFolder folder;
  const std::string train =
      std::string(WEFT_COMMAND) + " train " + WEFT_SOURCE +
      "/recipes/gpt.toml --set model.layers=1 --set model.width=16 --set model.heads=2 --set model.context=16 "
      "--set batch.global=4 --set optimizer.warmup=0 --set run.steps=1 --set run.evaluate_every=0 "
      "--set layout.backend=";
  const std::string script = train + "gloo && " + train + "shm";
  const CommandResult result = run_weft({"run", "-n", "2", "--", "sh", "-c", script});
  EXPECT_EQ(result.status, 0) << result.err;
  const size_t first = result.out.find("step 1/1"), second = result.out.rfind("step 1/1");
  EXPECT_TRUE(first != std::string::npos && first != second) << result.out;
}

TEST(WeftRun, RanksStartedByHandWithWrongNumbersFail) {
  const std::string recipe = std::string(WEFT_SOURCE) + "/recipes/gpt.toml";
  struct Started {
    std::string rank, size;
  };
  struct Case {
    std::vector<Started> ranks;
    std::string says;
    std::string timeout_s = "5";
  };
  const Case cases[] = {
      {{{"0", "2"}, {"1", "3"}}, "rank 0 has a world of 2 ranks but rank 1 has 3; give all ranks the same WORLD_SIZE"},
      {{{"0", "3"}, {"1", "3"}, {"1", "3"}}, "rank 1 of 3: another process has the same rank (RANK=1): process "},
      {{{"0", "2147483647"}}, "rank 0 of 2147483647 waits for rank 1 to start", "1"},
  };
  for (const Case& c : cases) {
    const TemporaryFolder folder;
    const std::string port = std::to_string(free_loopback_port());
    std::vector<pid_t> pids;
    std::string said;
    for (size_t i = 0; i < c.ranks.size(); ++i) {
      const std::filesystem::path own = folder / std::to_string(i);
      std::filesystem::create_directory(own);
      pids.push_back(start_weft({"train", recipe, "--set", "run.timeout_s=" + c.timeout_s}, own,
                                {.environment = {{"RANK", c.ranks[i].rank},
                                                 {"WORLD_SIZE", c.ranks[i].size},
                                                 {"MASTER_ADDR", "127.0.0.1"},
                                                 {"MASTER_PORT", port}}}));
    }
    for (size_t i = 0; i < pids.size(); ++i) {
      EXPECT_EQ(wait_for(pids[i], 60.0), 1);
      said += read_text(folder / std::to_string(i) / "err");
    }
    EXPECT_NE(said.find(c.says), std::string::npos) << said;
  }
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
  const std::function<void()> starts[] = {[] {}, [] { signal(SIGINT, SIG_IGN); }};  // the latter as with `&` in a script
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

// Nested: only the inner launcher's variables are set, and the inner program's failure does not affect the outer one.
TEST(WeftRun, ANestedRunInheritsNothingFromTheOuterLauncher) {
  const std::string weft = WEFT_COMMAND, show = "env | grep -E '^(RANK|WORLD_SIZE|MASTER_PORT|WEFT_)' | sort";
  const CommandResult result =
      run_weft({"run", "-n", "2", "--", "/bin/sh", "-c",
                "[ $RANK = 1 ] || { sleep 0.1; exit 0; }; export SLURM_STEP_ID=0; " + show + "; echo inner; " + weft +
                    " run -n 1 --restarts 1 -- /bin/sh -c \"" + show + "\"; " + weft +
                    " train -n 1 none.toml || echo handled; " + weft + " show none.toml || echo handled"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err,
            "weft: cannot read the recipe 'none.toml': No such file or directory\n"
            "weft: cannot read the recipe 'none.toml': No such file or directory\n");
  EXPECT_TRUE(result.out.ends_with("handled\nhandled\n")) << result.out;
  const size_t middle = result.out.find("inner\n");
  ASSERT_NE(middle, std::string::npos) << result.out;
  const std::string outer = result.out.substr(0, middle), inner = result.out.substr(middle + 6);
  EXPECT_NE(outer.find("RANK=1\n"), std::string::npos);
  for (const std::string line : {"RANK=0\n", "WORLD_SIZE=1\n"}) EXPECT_NE(inner.find(line), std::string::npos) << inner;
  for (const std::string name : {"MASTER_PORT=", "WEFT_STORE=", "WEFT_TOKEN="}) {
    const size_t at = outer.find(name);
    ASSERT_NE(at, std::string::npos) << outer;
    EXPECT_NE(inner.find(name), std::string::npos) << inner;
    EXPECT_EQ(inner.find(outer.substr(at, outer.find('\n', at) - at)), std::string::npos) << inner;
  }
}

/// A launcher whose own output nobody reads still restarts ranks, and ends as usual.
TEST(WeftRun, ContinuesIfNobodyReadsItsErrors) {
  const TemporaryFolder folder;
  const CommandResult result =
      run_weft({"run", "-n", "1", "--restarts", "1", "--", "/bin/sh", "-c", "echo >> $OUT/starts; exit 3"},
               {.environment = {{"OUT", folder.path().string()}}, .prepare = [] {
                  int ends[2];
                  if (pipe(ends) != 0) _exit(99);
                  dup2(ends[1], STDERR_FILENO);
                  close(ends[0]);
                  close(ends[1]);
                }});
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(read_text(folder / "starts"), "\n\n");
}

TEST(WeftRun, ASignalBetweenTwoStartsEndsTheRun) {
  const TemporaryFolder folder;
  const pid_t pid = start_weft({"run", "-n", "1", "--restarts", "9", "--", "/bin/sh", "-c", "exit 9"}, folder.path());
  const auto waits = [&] { return read_text(folder / "err").find(" in 1.00 s") != std::string::npos; };
  for (int i = 0; i < 1000 && !waits(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  kill(pid, SIGTERM);
  EXPECT_EQ(wait_for(pid, 5.0), 128 + SIGTERM);
  const std::string err = read_text(folder / "err");
  EXPECT_TRUE(err.ends_with("weft: rank 0: ended with status 9; ended by SIGTERM before it was restarted\n")) << err;
}

// A program that uses weft meets at the launcher's store, a loopback port known only to its ranks.
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

// A secret that command lines do not show keeps other processes out of that store.
TEST(WeftRun, RanksShareAFreshTokenThatNoCommandLineShows) {
  const TemporaryFolder folder;
  for (const std::string given : {"", "chosen"}) {
    const CommandResult result =
        run_weft({"run", "-n", "2", "--", "python3", "-c",
                  "import os, pathlib\n"
                  "token = os.environ['WEFT_TOKEN']\n"
                  "for pid in ('self', str(os.getppid())):\n"
                  "  assert token.encode() not in pathlib.Path('/proc/' + pid + '/cmdline').read_bytes()\n"
                  "pathlib.Path(os.environ['OUT'], os.environ['RANK']).write_text(token)\n"},
                 {.environment = {{"OUT", folder.path().string()}, {"WEFT_TOKEN", given}}});
    EXPECT_EQ(result.status, 0) << result.err;
    const std::string token = read_text(folder / "0");
    EXPECT_EQ(read_text(folder / "1"), token);
    EXPECT_EQ(token.size(), given.empty() ? 64 : given.size()) << token;
  }
}

}  // namespace
}  // namespace weft::run_test
