#include "weft/cli/health_server.h"

#define CPPHTTPLIB_OPENSSL_SUPPORT  // as Debian's library is built: its classes have other members without
#include <fmt/format.h>
#include <httplib.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/monotonic.h"
#include "weft/base/stopwatch.h"
#include "weft/base/tcp_options.h"
#include "weft/base/units.h"

namespace weft {

namespace {

double seconds_between(int64_t from_ns, int64_t to_ns) { return static_cast<double>(to_ns - from_ns) * 1e-9; }

const char* state_name(RunPhase state) {
  switch (state) {
    case RunPhase::starting:
      return "starting";
    case RunPhase::running:
      return "running";
    case RunPhase::restarting:
      return "restarting";
    case RunPhase::led:
      return "led by another host";
  }
  return "";
}

/// Since the last step, or since this launch began where that is later.
double without_step_s(const RunView& run, int64_t now_ns) {
  return seconds_between(std::max(run.step_ns, run.begin_ns), now_ns);
}

/// A label's value in Prometheus' format.
std::string label_value(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result;
}

}  // namespace

HealthAnswer health_answer(const RunView& run, HealthQuestion question, double stalled_s, int64_t now_ns) {
  HealthAnswer answer;
  if (run.state == RunPhase::led) {
    answer.text = fmt::format("ok: {}, {}\n", state_name(run.state), counted(run.ranks, "rank"));
    return answer;
  }
  std::string text =
      fmt::format("{}, {}, {} done", state_name(run.state), counted(run.ranks, "rank"), counted(run.steps_done, "step"));
  if (run.restarts > 0) text += fmt::format(", {}", counted(run.restarts, "restart"));
  for (const HostStatus& host : run.hosts) {
    if (!host.is_there) text += fmt::format(", host {} is missing", host.name);
  }
  if (run.state != RunPhase::running) {
    answer.well = question == HealthQuestion::alive;
  } else if (const double idle_s = without_step_s(run, now_ns); stalled_s > 0.0 && idle_s > stalled_s) {
    answer.well = false;
    text += fmt::format(", no step for {}", format_duration(idle_s));
  }
  answer.text = (answer.well ? "ok: " : question == HealthQuestion::alive ? "stalled: " : "not ready: ") + text + "\n";
  return answer;
}

std::string metrics_text(const RunView& run, int64_t now_ns) {
  std::string text;
  const auto add = [&](const char* name, const char* type, const char* help, const auto& value) {
    text += fmt::format("# HELP weft_{0} {1}\n# TYPE weft_{0} {2}\nweft_{0} {3}\n", name, help, type, value);
  };
  add("ranks", "gauge", "Ranks of the launch that runs", run.state == RunPhase::running ? run.ranks : 0);
  add("running", "gauge", "1 while ranks run, 0 while they are being started", run.state == RunPhase::running ? 1 : 0);
  add("restarts_total", "counter", "How often ranks were started again", run.restarts);
  add("steps_done", "gauge", "Steps of the run that are done, as rank 0 tells", run.steps_done);
  if (run.begin_ns > 0) {
    add("seconds_without_step", "gauge", "Since the last step, or since these ranks were started",
        fmt::format("{:.3f}", without_step_s(run, now_ns)));
  }
  if (run.hosts.empty()) return text;
  text += "# HELP weft_host_up 1 while the host's agent is there\n# TYPE weft_host_up gauge\n";
  for (const HostStatus& host : run.hosts) {
    text +=
        fmt::format("weft_host_up{{host=\"{}\",node=\"{}\"}} {}\n", label_value(host.name), host.node, host.is_there ? 1 : 0);
  }
  text += "# HELP weft_host_silent_seconds Since the host was heard of\n# TYPE weft_host_silent_seconds gauge\n";
  for (const HostStatus& host : run.hosts) {
    if (!host.is_there) continue;
    text += fmt::format("weft_host_silent_seconds{{host=\"{}\",node=\"{}\"}} {:.3f}\n", label_value(host.name), host.node,
                        seconds_between(host.heard_ns, now_ns));
  }
  return text;
}

namespace {

constexpr int kWorkers = 64;  // each sleeps most of the time, some of them beside clients that never end
constexpr double kWholeRequest_s = 2.0;
constexpr std::chrono::milliseconds kSweepEvery{200};

using NameOf = int (*)(int, sockaddr*, socklen_t*);

int port_by(NameOf name_of, int socket) {
  sockaddr_in6 address{};  // whose port is where that of IPv4 is
  socklen_t length = sizeof address;
  return name_of(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0 ? ntohs(address.sin6_port) : 0;
}

/// The library has time-outs for each read only: who sends a byte now and then would keep a worker for ever, and the end of the
/// run would wait for that.
class Sweeper {
 public:
  explicit Sweeper(int port) : port_(port) {}

  /// Closes connections that are older than `seconds`, by what was seen of them before.
  void close_older_than(double seconds) {
    std::map<Connection, Stopwatch> here;
    for (const int socket : tcp_connections()) {
      if (port_by(::getsockname, socket) != port_) continue;
      const Connection connection(socket, port_by(::getpeername, socket));
      const auto known = seen_.find(connection);
      const Stopwatch age = known == seen_.end() ? Stopwatch() : known->second;
      if (age.seconds() >= seconds) ::shutdown(socket, SHUT_RDWR);
      here.emplace(connection, age);
    }
    seen_ = std::move(here);
  }

 private:
  using Connection = std::pair<int, int>;  // descriptor, and the other end's port: descriptors are used again
  int port_;
  std::map<Connection, Stopwatch> seen_;
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
  server.Get("/metrics", [&status](const httplib::Request&, httplib::Response& response) {
    response.set_content(metrics_text(status.view(), monotonic_ns()), "text/plain; version=0.0.4; charset=utf-8");
  });
  if (!server.bind_to_port(options.address.c_str(), options.port)) {
    throw InputError(
        fmt::format("--health-port {}: cannot listen there on {}; is the port taken?", options.port, options.address));
  }
  // Again: the library lets five wait, and the next would have to try once more after a second.
  ::listen(state_->listens, kWorkers);
  // Signals are the launcher's, and go to its thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  state_->thread = std::thread([state = state_.get()] {
    state->server.listen_after_bind();
    state->is_over = true;
  });
  state_->sweeping = std::thread([state = state_.get()] { state->sweep(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
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
