#include "weft/launch/output_prefix.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/stopwatch.h"
#include "weft/base/uninterrupted.h"

namespace weft {

namespace {

constexpr size_t kLongestOutputLine = 64 << 10;
constexpr double kToDrain = 2.0;

/// Returns the read end and the write end.
std::pair<FileDescriptor, FileDescriptor> make_output_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(fmt::format("cannot make a pipe for a rank's output: {}", std::strerror(errno)));
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

}  // namespace

OutputPrefix::OutputPrefix() : stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!stop_) throw Error(fmt::format("cannot watch the ranks' output: {}", std::strerror(errno)));
}

OutputPrefix::~OutputPrefix() {
  const uint64_t one = 1;
  uninterrupted([&] { return write(stop_.get(), &one, sizeof one); });
  if (thread_.joinable()) thread_.join();
}

OutputPrefix::Ends OutputPrefix::add(const std::string& host, int rank) {
  const std::string prefix = host.empty() ? fmt::format("[rank {}] ", rank) : fmt::format("[{}, rank {}] ", host, rank);
  auto [out_read, out_write] = make_output_pipe();
  auto [err_read, err_write] = make_output_pipe();
  streams_.push_back({std::move(out_read), STDOUT_FILENO, prefix, ""});
  streams_.push_back({std::move(err_read), STDERR_FILENO, prefix, ""});
  return {std::move(out_write), std::move(err_write)};
}

void OutputPrefix::start() {
  thread_ = std::thread([this] { run(); });
}

void OutputPrefix::run() {
  sigset_t all;
  sigfillset(&all);  // signals belong to the launcher; a closed reader is a write error here, not a SIGPIPE
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  size_t open = streams_.size();
  while (open > 0 && left_ms() > 0) {
    std::vector<pollfd> ready;
    ready.reserve(streams_.size() + 1);
    for (const Stream& stream : streams_) ready.push_back({stream.from.get(), POLLIN, 0});
    if (!ending_) ready.push_back({stop_.get(), POLLIN, 0});
    poll(ready.data(), ready.size(), ending_ ? std::min(left_ms(), 100) : -1);
    is_ending();
    for (size_t i = 0; i < streams_.size(); ++i) {
      if (ready[i].revents == 0 || read_some(streams_[i])) continue;
      if (!streams_[i].line.empty()) write_line(streams_[i]);
      streams_[i].from.close();  // poll skips -1
      --open;
    }
  }
  for (Stream& stream : streams_) {
    if (!stream.line.empty()) write_line(stream);
  }
}

/// Returns false at the end of the stream.
bool OutputPrefix::read_some(Stream& stream) {
  char buffer[16 << 10];
  const ssize_t got = uninterrupted([&] { return read(stream.from.get(), buffer, sizeof buffer); });
  if (got < 0) return errno == EAGAIN;
  for (const char c : std::string_view(buffer, static_cast<size_t>(got))) {
    stream.line += c;
    // A progress bar returns to the start of its line instead of ending it.
    if (c == '\n' || c == '\r' || stream.line.size() >= kLongestOutputLine) write_line(stream);
  }
  return got > 0;
}

/// Returns true once the end is requested. From then on one deadline covers all streams and lines.
bool OutputPrefix::is_ending() {
  pollfd stop{stop_.get(), POLLIN, 0};
  if (!ending_ && poll(&stop, 1, 0) > 0) ending_.emplace();
  return ending_.has_value();
}

int OutputPrefix::left_ms() const {
  return !ending_ ? INT_MAX : static_cast<int>(std::max(0.0, kToDrain - ending_->seconds()) * 1000.0);
}

/// Lines that nobody reads are lost, as they would be without the prefix.
void OutputPrefix::write_line(Stream& stream) {
  std::string text = stream.prefix + stream.line;
  if (text.back() != '\n' && text.back() != '\r') text += '\n';
  stream.line.clear();
  for (size_t at = 0; at < text.size();) {
    pollfd ready[] = {{stream.to, POLLOUT, 0}, {stop_.get(), POLLIN, 0}};
    poll(ready, 2, -1);
    if (ready[0].revents == 0 && is_ending()) {
      pollfd last{stream.to, POLLOUT, 0};
      if (poll(&last, 1, left_ms()) <= 0) return;
    }
    // At most PIPE_BUF, which a ready pipe accepts at once, so that this never blocks.
    const size_t size = std::min<size_t>(text.size() - at, PIPE_BUF);
    const ssize_t done = uninterrupted([&] { return write(stream.to, text.data() + at, size); });
    if (done < 0 && errno != EAGAIN) return;
    if (done > 0) at += static_cast<size_t>(done);
  }
}

}  // namespace weft
