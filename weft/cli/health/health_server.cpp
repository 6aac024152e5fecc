#include "weft/cli/health/health_server.h"

#define CPPHTTPLIB_OPENSSL_SUPPORT  // as Debian's library is built: its classes have other members without
#include <fcntl.h>
#include <fmt/format.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "weft/base/accounting.h"
#include "weft/base/blocked_signals.h"
#include "weft/base/error.h"
#include "weft/base/file_descriptor.h"
#include "weft/base/monotonic.h"
#include "weft/base/stopwatch.h"
#include "weft/base/tcp_options.h"
#include "weft/comm/host/host_name.h"

namespace weft {

namespace {

constexpr int kWorkers = 64;  // each sleeps most of the time, some of them beside clients that never end
constexpr double kWholeRequest_s = 2.0;
constexpr std::chrono::milliseconds kSweepEvery{200};

/// The port by which a socket was connected to; 0: it is no connection.
int port_of_connection(const FileDescriptor& socket) {
  sockaddr_in6 own{}, peer{};  // whose port is where that of IPv4 is
  socklen_t own_length = sizeof own, peer_length = sizeof peer;
  const bool is_one = ::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&peer), &peer_length) == 0 &&
                      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &own_length) == 0;
  return is_one ? ntohs(own.sin6_port) : 0;
}

/// The system's number of a socket, which no other has while it runs.
uint64_t number_of(const FileDescriptor& socket) {
  uint64_t number = 0;
  socklen_t length = sizeof number;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_COOKIE, &number, &length);
  return number;
}

/// The library has time-outs for each read only: who sends a byte now and then would keep a worker for ever, and the end of the
/// run would wait for that. The library closes its descriptors when it likes, and others get their numbers: so each is looked
/// at, and shut down, by a duplicate, which stays what it is.
class Sweeper {
 public:
  explicit Sweeper(int port) : port_(port) {}

  /// Shuts connections down that are older than `seconds`, by what was seen of them before.
  void close_older_than(double seconds) {
    std::map<uint64_t, Stopwatch> here;
    for (const int socket : tcp_connections()) {
      const FileDescriptor own(fcntl(socket, F_DUPFD_CLOEXEC, 3));
      if (!own || port_of_connection(own) != port_) continue;
      const uint64_t number = number_of(own);
      const auto known = seen_.find(number);
      const Stopwatch age = known == seen_.end() ? Stopwatch() : known->second;
      if (age.seconds() >= seconds) ::shutdown(own.get(), SHUT_RDWR);
      here.emplace(number, age);
    }
    seen_ = std::move(here);
  }

 private:
  int port_;
  std::map<uint64_t, Stopwatch> seen_;  ///< by number_of()
};

}  // namespace

struct HealthServer::State {
  explicit State(int port) : sweeper(port) {}
  httplib::Server server;
  int listens = -1;  ///< the server's socket
  std::thread thread, sweeping;
  std::atomic<bool> is_over = false;
  Sweeper sweeper;
  std::atomic<bool> ends = false;

  // At the end all are closed, until the workers are free.
  void sweep() {
    while (!is_over) {
      sweeper.close_older_than(ends ? 0.0 : kWholeRequest_s);
      std::this_thread::sleep_for(ends ? std::chrono::milliseconds(5) : kSweepEvery);
    }
  }
};

HealthServer::HealthServer(const HealthOptions& options, const RunStatus& status)
    : state_(std::make_unique<State>(options.port)) {
  httplib::Server& server = state_->server;
  server.new_task_queue = [] { return new httplib::ThreadPool(kWorkers); };
  // Not SO_REUSEPORT, with which a second launcher would take half of what is asked of the first.
  server.set_socket_options([&listens = state_->listens](socket_t socket) {
    const int reuse = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
    listens = socket;
  });
  server.set_read_timeout(1, 0);
  server.set_write_timeout(1, 0);
  server.set_keep_alive_max_count(1);
  server.set_payload_max_length(1024);
  for (const auto& [path, question] :
       {std::pair{"/healthz", HealthQuestion::ready}, std::pair{"/livez", HealthQuestion::alive}}) {
    server.Get(path, [&status, question, stalled_s = options.stalled_s](const httplib::Request&, httplib::Response& response) {
      const HealthAnswer answer = health_answer(status.view(), question, stalled_s, monotonic_ns());
      response.status = answer.well ? 200 : 503;
      response.set_content(answer.text, "text/plain; charset=utf-8");
    });
  }
  const HealthLabels labels{.run = options.run, .host = this_host(), .job = cluster_job()};
  server.Get("/metrics", [&status, labels](const httplib::Request&, httplib::Response& response) {
    response.set_content(metrics_text(status.view(), labels, monotonic_ns()), "text/plain; version=0.0.4; charset=utf-8");
  });
  if (!server.bind_to_port(options.address.c_str(), options.port)) {
    throw InputError(
        fmt::format("--health-port {}: cannot listen there on {}; is the port taken?", options.port, options.address));
  }
  // Again: the library lets five wait, and the next would have to try once more after a second.
  ::listen(state_->listens, kWorkers);
  const BlockedSignals blocked;
  state_->thread = std::thread([state = state_.get()] {
    state->server.listen_after_bind();
    state->is_over = true;
  });
  state_->sweeping = std::thread([state = state_.get()] { state->sweep(); });
}

HealthServer::~HealthServer() {
  // A server that does not listen yet would not hear it.
  while (!state_->is_over && !state_->server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  state_->ends = true;
  state_->server.stop();
  state_->thread.join();
  state_->sweeping.join();
}

}  // namespace weft
