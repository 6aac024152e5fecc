#include "weft/launch/error_pipe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "weft/base/environment.h"
#include "weft/base/error.h"
#include "weft/base/monotonic.h"
#include "weft/base/parse_number.h"
#include "weft/base/uninterrupted.h"

namespace weft {

namespace {

constexpr int kPatienceMs = 1000;

bool parse(const std::string& line, RankError& error) {
  std::istringstream in(line);
  std::string blame;
  if (!(in >> error.time_ns >> error.rank >> blame)) return false;
  if (const size_t slash = blame.find('/'); slash != std::string::npos) {
    error.status = parse_number<int>(blame.substr(slash + 1)).value_or(1);
    blame.resize(slash);
  }
  const std::string who = blame.substr(0, blame.find(':'));
  if (who != "self" && who != "peer") return false;
  error.blame = who == "peer" ? Blame::peer : Blame::self;
  if (who.size() < blame.size()) error.culprit = parse_number<int>(blame.substr(who.size() + 1)).value_or(-1);
  in.get();
  std::getline(in, error.text);
  return true;
}

/// Returns nothing for a malformed number: reporting an error must not cause another.
std::optional<int> number_of(const char* variable) { return parse_number<int>(env_string(variable).value_or("")); }

}  // namespace

bool report_error(std::string_view text, Blame blame, int culprit, int exit_status) {
  const std::optional<int> fd = number_of("WEFT_ERROR_FD"), rank = number_of("RANK");
  if (!fd || !rank) return false;
  // The variable may outlive the pipe (a grandchild with closed descriptors): never write into another file or pipe.
  struct stat status {};
  if (*fd <= 2 || fstat(*fd, &status) != 0 || !S_ISFIFO(status.st_mode)) return false;
  if (env_string("WEFT_ERROR_PIPE") != fmt::to_string(status.st_ino)) return false;
  const std::string who = blame == Blame::self ? "self" : culprit < 0 ? "peer" : fmt::format("peer:{}", culprit);
  std::string line = fmt::format("{} {} {}/{} {}", monotonic_ns(), *rank, who, exit_status, text);
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  line.resize(std::min<size_t>(line.size(), PIPE_BUF - 1));
  line += '\n';
  // A full pipe means that a stopped launcher has not read it, so nobody is listening.
  pollfd room{*fd, POLLOUT, 0};
  if (poll(&room, 1, kPatienceMs) != 1 || (room.revents & POLLOUT) == 0) return false;
  const ssize_t written = uninterrupted([&] { return write(*fd, line.data(), line.size()); });
  return written == static_cast<ssize_t>(line.size());
}

ErrorPipe::ErrorPipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(fmt::format("cannot create the error pipe: {}", std::strerror(errno)));
  read_end_ = FileDescriptor(ends[0]);
  write_end_ = FileDescriptor(ends[1]);
  // Only the launcher's end is non-blocking: a rank may wait for room.
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
}

std::vector<std::string> ErrorPipe::environment() const {
  struct stat status {};
  fstat(write_end_.get(), &status);
  return {fmt::format("WEFT_ERROR_FD={}", write_end_.get()), fmt::format("WEFT_ERROR_PIPE={}", status.st_ino)};
}

std::vector<RankError> ErrorPipe::receive() {
  char buffer[4096];
  for (;;) {
    const ssize_t got = uninterrupted([&] { return read(read_end_.get(), buffer, sizeof buffer); });
    if (got <= 0) break;
    partial_.append(buffer, static_cast<size_t>(got));
  }
  std::vector<RankError> errors;
  for (size_t end = 0; (end = partial_.find('\n')) != std::string::npos; partial_.erase(0, end + 1)) {
    RankError error;
    if (parse(partial_.substr(0, end), error)) errors.push_back(std::move(error));
  }
  return errors;
}

}  // namespace weft
