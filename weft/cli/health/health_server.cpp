#include "weft/cli/health/health_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <exception>
#include <iterator>
#include <list>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/accounting.h"
#include "weft/base/blocked_signals.h"
#include "weft/base/deadline.h"
#include "weft/base/error.h"
#include "weft/base/file_descriptor.h"
#include "weft/base/interfaces.h"
#include "weft/base/monotonic.h"
#include "weft/comm/host/host_name.h"

namespace weft {

namespace {

using std::chrono::milliseconds;

constexpr size_t kMostClients = 64;  // beyond that the oldest is dropped
constexpr size_t kMostRequestBytes = 8192;
constexpr milliseconds kWholeRequest{2000};

bool is_whole(std::string_view request) {
  return request.find("\r\n\r\n") != std::string_view::npos || request.find("\n\n") != std::string_view::npos;
}

std::string http_answer(std::string_view status, std::string_view header = {}, std::string_view body = {}) {
  return fmt::format("HTTP/1.1 {}\r\nConnection: close\r\nContent-Length: {}\r\n{}\r\n{}", status, body.size(), header, body);
}

}  // namespace

struct HealthServer::State {
  /// One request and its answer; afterwards the client closes the connection, or the deadline does.
  struct Client {
    FileDescriptor socket;
    Deadline until = kWholeRequest;
    std::string request = {};
    std::string unsent = {};  ///< rest of the answer
    bool is_answered = false;
  };

  const RunStatus& status;
  HealthLabels labels;
  double stalled_s;
  FileDescriptor listening = {};   ///< shutting it down ends the thread
  std::list<Client> clients = {};  ///< oldest first
  std::thread thread = {};

  void run();
  void accept();
  bool serve(Client& client) const;
  std::string answer(std::string_view request) const;
  std::string page(std::string_view path) const;
};

void HealthServer::State::run() {
  for (;;) {
    std::vector<pollfd> entries = {{listening.get(), POLLIN, 0}};
    for (const Client& client : clients) {
      entries.push_back({client.socket.get(), static_cast<short>(client.unsent.empty() ? POLLIN : POLLOUT), 0});
    }
    ::poll(entries.data(), entries.size(), clients.empty() ? -1 : static_cast<int>(clients.front().until.left().count()));
    if ((entries[0].revents & POLLHUP) != 0) return;
    auto entry = entries.begin() + 1;
    for (auto client = clients.begin(); client != clients.end(); ++entry) {
      const bool stays = !client->until.passed() && (entry->revents == 0 || serve(*client));
      client = stays ? std::next(client) : clients.erase(client);
    }
    if (entries[0].revents != 0) accept();
  }
}

/// Accepts one connection per call: existing clients are served before the oldest makes room.
void HealthServer::State::accept() {
  FileDescriptor socket(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const bool is_short = !socket && errno != EAGAIN && errno != ECONNABORTED;  // out of descriptors or memory
  if (is_short) std::this_thread::sleep_for(milliseconds(10));
  if (!clients.empty() && (is_short || clients.size() == kMostClients)) clients.pop_front();
  if (socket) clients.push_back({std::move(socket)});
}

/// Returns true if the client stays.
bool HealthServer::State::serve(Client& client) const try {
  if (client.unsent.empty()) {
    char part[4096];
    const ssize_t got = ::recv(client.socket.get(), part, sizeof part, 0);
    if (got <= 0) return got < 0 && errno == EAGAIN;
    // Closing a connection with unread input would discard the answer.
    if (client.is_answered) return true;
    client.request.append(part, static_cast<size_t>(got));
    if (!is_whole(client.request) && client.request.size() < kMostRequestBytes) return true;
    client.unsent = answer(client.request);
    client.is_answered = true;
  }
  const ssize_t sent = ::send(client.socket.get(), client.unsent.data(), client.unsent.size(), MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN;
  client.unsent.erase(0, static_cast<size_t>(sent));
  return !client.unsent.empty() || ::shutdown(client.socket.get(), SHUT_WR) == 0;
} catch (const std::exception&) {  // an error here concerns only this client
  return false;
}

std::string HealthServer::State::answer(std::string_view request) const {
  const std::string_view line = request.substr(0, request.find_first_of("\r\n"));
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (!is_whole(request) || first == last || !line.substr(last + 1).starts_with("HTTP/1.")) {
    return http_answer("400 Bad Request");
  }
  const std::string_view method = line.substr(0, first), target = line.substr(first + 1, last - first - 1);
  const bool is_head = method == "HEAD";
  if (method != "GET" && !is_head) return http_answer("405 Method Not Allowed", "Allow: GET, HEAD\r\n");
  const std::string whole = page(target.substr(0, target.find('?')));
  return is_head ? whole.substr(0, whole.find("\r\n\r\n") + 4) : whole;
}

std::string HealthServer::State::page(std::string_view path) const {
  const RunView run = status.view();
  const int64_t now_ns = monotonic_ns();
  if (path == "/metrics") {
    return http_answer("200 OK", "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n",
                       metrics_text(run, labels, now_ns));
  }
  if (path != "/healthz" && path != "/livez") return http_answer("404 Not Found");
  const HealthQuestion question = path == "/livez" ? HealthQuestion::alive : HealthQuestion::ready;
  const HealthAnswer health = health_answer(run, question, stalled_s, now_ns);
  return http_answer(health.well ? "200 OK" : "503 Service Unavailable", "Content-Type: text/plain; charset=utf-8\r\n",
                     health.text);
}

HealthServer::HealthServer(const HealthOptions& options, const RunStatus& status)
    : state_(std::make_unique<State>(State{.status = status,
                                           .labels = {.run = options.run, .host = this_host(), .job = cluster_job()},
                                           .stalled_s = options.stalled_s})) {
  try {
    state_->listening = listen_at(options.address, options.port);
  } catch (const Error&) {
    throw InputError(
        fmt::format("--health-port {}: cannot listen on this port at {}; is it in use?", options.port, options.address));
  }
  ::fcntl(state_->listening.get(), F_SETFL, O_NONBLOCK);
  const BlockedSignals blocked;
  state_->thread = std::thread([state = state_.get()] {
    pthread_setname_np(pthread_self(), "weft-health");
    state->run();
  });
}

HealthServer::~HealthServer() {
  ::shutdown(state_->listening.get(), SHUT_RDWR);
  state_->thread.join();
}

}  // namespace weft
