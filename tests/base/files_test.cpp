// Descriptors and input files.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>

#include "tests/data/temp_folder.h"
#include "weft/base/file_descriptor.h"
#include "weft/base/file_error.h"
#include "weft/base/input_file.h"
#include "weft/base/scratch_file.h"
#include "weft/base/standard_descriptors.h"
#include "weft/base/without_signal.h"

namespace weft {
namespace {

using test::TempFolder;

/// Runs `body` in a child process. Returns its exit status, or 128 + the signal that ended it.
int in_process(const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void close_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) ::close(fd);
}

TEST(AboveStandard, takes_no_standard_descriptor) {
  const int status = in_process([] {
    close_standard_descriptors();
    const FileDescriptor file(above_standard(::open("/dev/null", O_WRONLY | O_CLOEXEC)));
    if (file.get() <= 2) return 1;
    if (::write(1, "x", 1) != -1 || errno != EBADF) return 2;  // output goes nowhere, as it would have
    const bool closed_on_exec = (fcntl(file.get(), F_GETFD) & FD_CLOEXEC) != 0;
    return closed_on_exec && ::write(file.get(), "x", 1) == 1 ? 0 : 3;
  });
  EXPECT_EQ(status, 0);
}

TEST(AboveStandard, a_failed_call_keeps_its_reason) {
  EXPECT_EQ(above_standard(::open("/nonexistent/file", O_RDONLY)), -1);
  EXPECT_EQ(errno, ENOENT);
}

TEST(ScratchFile, does_not_receive_output_after_standard_output_was_closed) {
  const TempFolder folder;
  const int status = in_process([&] {
    close_standard_descriptors();
    ScratchFile file(folder.path().string());
    const int64_t at = file.reserve(8);
    const char data[9] = "weights!";
    file.write(at, data, 8);
    if (::lseek(1, 0, SEEK_SET) == 0 && ::write(1, "step 1/2", 8) == 8) return 1;
    char back[9] = {};
    file.read(at, back, 8);
    return std::string(back) == data ? 0 : 2;
  });
  EXPECT_EQ(status, 0);
}

TEST(OpenStandardDescriptors, opens_only_the_closed_ones) {
  const int status = in_process([] {
    ::close(0);
    ::close(1);
    open_standard_descriptors();
    const int next = ::open("/dev/null", O_RDONLY);
    if (next <= 2) return 1;
    return ::write(1, "x", 1) == 1 ? 0 : 2;
  });
  EXPECT_EQ(status, 0);
}

TEST(WithoutSignal, a_write_beyond_the_limit_is_an_error) {
  const TempFolder folder;
  const auto over_the_limit = [&](const std::function<int()>& body) {
    return in_process([&] {
      const rlimit small{1000, 1000};
      setrlimit(RLIMIT_FSIZE, &small);
      return body();
    });
  };
  const auto grow = [&] {
    const FileDescriptor file(::open(folder.file("out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const std::string text(1000, 'x');
    if (::write(file.get(), text.data(), text.size()) != 1000) return 1;
    return ::write(file.get(), "y", 1) == -1 && errno == EFBIG ? 0 : 2;
  };
  EXPECT_EQ(over_the_limit(grow), 128 + SIGXFSZ) << "otherwise this test shows nothing";
  EXPECT_EQ(over_the_limit([&] {
              {
                const WithoutSignal guard(SIGXFSZ);
                if (grow() != 0) return 1;
              }
              sigset_t left;
              sigpending(&left);
              return sigismember(&left, SIGXFSZ) == 0 ? 0 : 3;
            }),
            0);
  EXPECT_EQ(over_the_limit([&] {
              { const WithoutSignal guard(SIGXFSZ); }
              return grow();
            }),
            128 + SIGXFSZ)
      << "the program's own handling is restored";
}

TEST(ScratchFile, reports_a_file_size_limit) {
  const TempFolder folder;
  const int status = in_process([&] {
    const rlimit small{100'000, 100'000};
    setrlimit(RLIMIT_FSIZE, &small);
    ScratchFile file(folder.path().string());
    try {
      file.reserve(1 << 20);
    } catch (const InputError& error) {
      return std::string(error.what()).find("File too large; raise the limit on file sizes (ulimit -f)") != std::string::npos
                 ? 0
                 : 2;
    }
    return 1;
  });
  EXPECT_EQ(status, 0);
}

void make_socket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
}

TEST(OpenInput, opens_only_regular_files_and_never_blocks) {
  const TempFolder folder;
  const std::string file = folder.write("file", "text"), fifo = folder.file("fifo"), socket = folder.file("socket");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  make_socket(socket);
  std::filesystem::create_symlink("fifo", folder.path() / "link");
  std::filesystem::create_symlink("file", folder.path() / "good_link");
  struct Row {
    std::string path, reason;
  };
  const Row rows[] = {
      {file, ""},
      {folder.file("good_link"), ""},
      {folder.file("none"), "No such file or directory"},
      {folder.path().string(), "it is a folder, not a regular file"},
      {fifo, "it is a FIFO, not a regular file"},
      {folder.file("link"), "it is a FIFO, not a regular file"},
      {socket, "it is a socket, not a regular file"},
      {"/dev/zero", "it is a device, not a regular file"},
      {file + '\0' + "more", "a path cannot contain a NUL"},
      {file + "/in", "Not a directory"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.path);
    const InputFile input = open_input(row.path);
    EXPECT_EQ(input.reason, row.reason);
    EXPECT_EQ(static_cast<bool>(input.descriptor), row.reason.empty());
  }
}

std::string error_of(const std::string& path, int64_t most) {
  try {
    read_text_file("recipe", path, most);
  } catch (const FileError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ReadTextFile, reads_the_whole_file_or_gives_the_reason) {
  const TempFolder folder;
  const std::string text(10'000, 'x'), path = folder.write("r.toml", text);
  EXPECT_EQ(read_text_file("recipe", path, 10'000), text);
  EXPECT_EQ(read_text_file("recipe", folder.write("empty", ""), 10), "");
  EXPECT_NE(read_text_file("statistics", "/proc/self/stat", 1 << 20), "") << "a file that reports length 0";
  EXPECT_EQ(error_of(path, 9'999),
            "cannot read the recipe '" + path + "': it is longer than 9.76 KiB, too long for such a file; name another one");
  EXPECT_EQ(error_of("/proc/self/stat", 10).find("cannot read the recipe '/proc/self/stat': it is longer than 10 B"), 0u);
  EXPECT_EQ(error_of("/dev/zero", 10), "cannot read the recipe '/dev/zero': it is a device, not a regular file");
}

}  // namespace
}  // namespace weft
