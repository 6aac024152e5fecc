#include "weft/checkpoint/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <thread>

#include "tests/data/expect_input_error.h"
#include "tests/data/temp_folder.h"

namespace weft {
namespace {

using test::expect_input_error;
using test::read_file;
using test::TempFolder;

/// Makes every write past `bytes` fail, like a full disk (EFBIG instead of ENOSPC). The signal is not ignored: in a program
/// that uses the library it ends the process.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SmallDisk() { setrlimit(RLIMIT_FSIZE, &old_); }

 private:
  rlimit old_{};
};

/// Runs `body` in another process, which is killed when it calls its argument.
void killed_in(const std::function<void(const std::function<void()>&)>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    body([] { raise(SIGKILL); });
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

constexpr AtomicFile::Kind kKinds[] = {AtomicFile::Kind::unnamed_if_possible, AtomicFile::Kind::named};

TEST(AtomicFile, WritesAndReplaces) {
  const TempFolder folder;
  const std::string path = folder.file("out.json");
  for (const std::string text : {"first and long", "second", ""}) {
    write_file(path, text);
    EXPECT_EQ(read_file(path), text);
    EXPECT_EQ(folder.names(), std::vector<std::string>{"out.json"});
  }
}

TEST(AtomicFile, TheOldFileStaysUntilCommit) {
  for (const AtomicFile::Kind kind : kKinds) {
    const TempFolder folder;
    const std::string path = folder.write("out", "old");
    {
      AtomicFile file(path, kind);
      file.write("new", 3);
      EXPECT_EQ(read_file(path), "old");
    }
    EXPECT_EQ(read_file(path), "old");
    EXPECT_EQ(folder.names(), std::vector<std::string>{"out"});
    AtomicFile file(path, kind);
    file.write("new", 3);
    file.commit();
    EXPECT_EQ(read_file(path), "new");
    EXPECT_EQ(folder.names(), std::vector<std::string>{"out"});
  }
}

TEST(AtomicFile, AKillLeavesTheOldFileAndNothingElse) {
  const TempFolder folder;
  const std::string path = folder.write("out", "old");
  for (const std::string& target : {path, folder.file("new")}) {
    killed_in([&](const std::function<void()>& kill) {
      AtomicFile file(target);
      file.write("new", 3);
      kill();
    });
    EXPECT_EQ(folder.names(), std::vector<std::string>{"out"});
    EXPECT_EQ(read_file(path), "old");
  }
}

// Where unnamed files cannot be made, the next file written removes what a kill left, but nothing of live processes.
TEST(AtomicFile, LeftOversOfDeadProcessesAreRemoved) {
  const TempFolder folder;
  killed_in([&](const std::function<void()>& kill) {
    AtomicFile file(folder.file("dead"), AtomicFile::Kind::named);
    file.write("half", 4);
    kill();
  });
  ASSERT_EQ(folder.names().size(), 1u) << "or this test shows nothing";
  const std::string left = folder.names()[0];
  EXPECT_TRUE(left.starts_with(".weft-") && left.ends_with(".partial")) << left;
  const std::string other_host = folder.write(".weft-another-host-1-0.partial", "its own");
  // ".weft-HOST-PID-NUMBER.partial" of a host whose name begins with this host's
  const std::string host = left.substr(0, left.rfind('-', left.rfind('-') - 1));
  const std::string longer_host = folder.write(host + "-2-1-0.partial", "its own");
  AtomicFile living(folder.file("living"), AtomicFile::Kind::named);
  living.write("text", 4);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / left));
  write_file(folder.file("out"), "text");
  check_writable(folder.file("out"));
  living.commit();
  EXPECT_EQ(read_file(folder.file("living")), "text");
  EXPECT_TRUE(std::filesystem::exists(other_host));
  EXPECT_TRUE(std::filesystem::exists(longer_host));
  EXPECT_EQ(folder.names().size(), 4u);
}

TEST(AtomicFile, AFullDiskLeavesTheOldFileAndNothingElse) {
  const TempFolder folder;
  const std::string path = folder.write("out", "old");
  {
    const SmallDisk disk(100000);
    expect_input_error([&] { write_file(path, std::string(300000, 'x')); },
                       {path, "cannot write", "too large", "raise the limit on file sizes (ulimit -f)"});
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"out"});
  write_file(path, std::string(300000, 'x'));
  EXPECT_EQ(read_file(path).size(), 300000u);
}

TEST(AtomicFile, FollowsLinks) {
  const TempFolder folder;
  const std::string path = folder.write("real", "old");
  std::filesystem::create_symlink("real", folder.path() / "link");
  std::filesystem::create_symlink("later", folder.path() / "dangling");
  write_file(folder.file("link"), "new");
  write_file(folder.file("dangling"), "made");
  EXPECT_EQ(read_file(path), "new");
  EXPECT_EQ(read_file(folder.file("later")), "made");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path() / "link"));
}

TEST(AtomicFile, NewFilesHaveTheUsualMode) {
  const TempFolder folder;
  const std::string atomic = folder.file("a"), plain = folder.write("b", "");
  write_file(atomic, "text");
  struct stat a {
  }, b{};
  ASSERT_EQ(stat(atomic.c_str(), &a), 0);
  ASSERT_EQ(stat(plain.c_str(), &b), 0);
  EXPECT_EQ(a.st_mode, b.st_mode);
}

TEST(AtomicFile, KeepsTheModeOfTheReplacedFile) {
  const TempFolder folder;
  for (const AtomicFile::Kind kind : {AtomicFile::Kind::unnamed_if_possible, AtomicFile::Kind::named}) {
    for (const mode_t mode : {0600, 0664, 0640}) {
      const std::string path = folder.write("a", "old");
      ASSERT_EQ(chmod(path.c_str(), mode), 0);
      AtomicFile file(path, kind);
      file.write("new", 3);
      file.commit();
      struct stat info {};
      ASSERT_EQ(stat(path.c_str(), &info), 0);
      EXPECT_EQ(info.st_mode & 07777, mode);
      EXPECT_EQ(test::read_file(path), "new");
    }
  }
}

TEST(AtomicFile, WritersOfOnePathDoNotMix) {
  const TempFolder folder;
  const std::string path = folder.file("out");
  std::vector<std::thread> writers;
  for (const char c : {'a', 'b', 'c', 'd'}) {
    writers.emplace_back([&, c] {
      for (int i = 0; i < 6; ++i) {
        AtomicFile file(path, kKinds[i % 2]);
        const std::string text(200000, c);
        file.write(text.data(), text.size());
        file.commit();
      }
    });
  }
  for (auto& writer : writers) writer.join();
  const std::string text = read_file(path);
  EXPECT_EQ(text, std::string(200000, text.at(0)));
  EXPECT_EQ(folder.names().size(), 1u);
}

TEST(CheckWritable, LeavesNothingAndChangesNothing) {
  const TempFolder folder;
  const std::string old = folder.write("old", "text");
  check_writable(old);
  check_writable(folder.file("new"));
  EXPECT_EQ(read_file(old), "text");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"old"});
}

/// Paths at which nobody, not even root, can make a file.
TEST(CheckWritable, FailsAsWritingDoes) {
  const TempFolder folder;
  const std::string file = folder.write("file", "text"), missing = folder.file("missing"), loop = folder.file("loop");
  std::filesystem::create_symlink("loop", loop);
  const std::string long_name = folder.file(std::string(300, 'x'));
  struct Row {
    std::string path;
    std::vector<std::string> pieces;
  };
  const std::vector<Row> table = {
      {missing + "/out", {missing + "/out", "cannot write", missing + " does not exist", "mkdir -p"}},
      {folder.path().string(), {"is a folder", "name a file"}},
      {missing + "/", {missing}},
      {file + "/out", {file + "/out", "Not a directory"}},
      {"/proc/self/out", {"/proc/self/out", "cannot write", "name another path"}},
      {"/dev/null", {"/dev/null", "not a regular file"}},
      {loop, {loop, "cannot write"}},
      {long_name, {"cannot write", "too long"}},
      {"", {"empty path"}},
      {folder.file("a") + '\0' + "b", {"cannot write", "NUL"}},
  };
  for (const Row& row : table) {
    expect_input_error([&] { check_writable(row.path); }, row.pieces);
    expect_input_error([&] { write_file(row.path, "text"); }, row.pieces);
  }
  EXPECT_EQ(folder.names().size(), 2u);
  EXPECT_EQ(read_file(file), "text");
}

}  // namespace
}  // namespace weft
