// Runs the built command and hands back all it said; with a deadline, after which it is killed and the test fails.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace weft {

struct CommandResult {
  int status = -1;  ///< exit status, 128 + signal when killed
  std::string out, err;
  double seconds = 0.0;
};

struct CommandOptions {
  double deadline_s = 60.0;
  std::map<std::string, std::string> environment = {};  ///< added to this process's
  /// Called in the new process before the command starts, its output redirected already: to close descriptors, set limits,
  /// change the working folder.
  std::function<void()> prepare = {};
};

/// `weft` with these arguments. This process becomes the reaper of orphans: what the command left running shows in
/// processes_left().
CommandResult run_weft(const std::vector<std::string>& arguments, const CommandOptions& options = {});

/// The same in the background: its output goes to `folder`/out and `folder`/err.
pid_t start_weft(const std::vector<std::string>& arguments, const std::filesystem::path& folder,
                 const CommandOptions& options = {});
/// A port of the loopback interface at which nothing listens.
std::string free_port();
/// start_weft() of one rank of `size` on this host, as a cluster manager does it; they meet at `port`. The folder is also the
/// one that it works in.
pid_t start_rank(const std::vector<std::string>& arguments, const std::filesystem::path& folder, int rank, int size,
                 const std::string& port);
/// Exit status as in CommandResult; kills the command at the deadline.
int wait_for(pid_t pid, double deadline_s);

/// Whether any child, or orphan of one, is still alive after a second.
bool processes_left();

std::string read_text(const std::filesystem::path& path);

/// What was printed, with one blank instead of each break before an indented line: where a line breaks depends on the path in
/// it.
std::string unwrapped(const std::string& text);

/// For CommandOptions::prepare: what the command writes to `descriptor` goes to that file.
void redirect(const std::filesystem::path& path, int descriptor);

/// A folder of its own that goes with the object.
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
