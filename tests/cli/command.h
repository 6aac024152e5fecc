// Runs the built command and returns all its output; at the deadline, kills it and fails the test.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace weft {

struct CommandResult {
  int status = -1;  ///< exit status, 128 + signal if killed
  std::string out, err;
  double seconds = 0.0;
};

struct CommandOptions {
  double deadline_s = 60.0;
  std::map<std::string, std::string> environment = {};  ///< in addition to this process's
  /// Called in the new process, after its output is redirected and before the command starts: closes descriptors, sets limits
  /// or changes the working folder.
  std::function<void()> prepare = {};
};

/// Runs `weft` with these arguments. This process becomes the reaper of orphans: processes_left() shows what the command left
/// running. Without `prepare` and variables that a library reads when it is loaded, the command is forked from a process that
/// has loaded LibTorch (tests/cli/preload/fork_server.cpp).
CommandResult run_weft(const std::vector<std::string>& arguments, const CommandOptions& options = {});

/// Does the same in the background, with output in `folder`/out and `folder`/err.
pid_t start_weft(const std::vector<std::string>& arguments, const std::filesystem::path& folder,
                 const CommandOptions& options = {});
/// Returns a loopback port on which nothing listens.
std::string free_port();
/// Like start_weft(), for one rank of `size` on this host, as a cluster manager starts it; ranks meet at `port`. The folder is
/// also the working folder.
pid_t start_rank(const std::vector<std::string>& arguments, const std::filesystem::path& folder, int rank, int size,
                 const std::string& port);
/// Returns the exit status as in CommandResult; kills the command at the deadline.
int wait_for(pid_t pid, double deadline_s);

/// Returns true if a child, or its orphan, is still alive after a second; the fork server does not count.
bool processes_left();

std::string read_text(const std::filesystem::path& path);

/// Joins indented continuation lines with one blank: where a line breaks depends on the path in it.
std::string unwrapped(const std::string& text);

/// For CommandOptions::prepare: redirects `descriptor` to that file.
void redirect(const std::filesystem::path& path, int descriptor);

/// A temporary folder, removed by the destructor.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace weft
