#include "weft/launch/agent/connection.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "weft/base/interfaces.h"
#include "weft/base/monotonic.h"
#include "weft/base/token.h"
#include "weft/base/uninterrupted.h"
#include "weft/launch/agent/sockets.h"

namespace weft {

namespace {

constexpr int64_t kBeat = 500'000'000;
constexpr size_t kLongestMessage = 64 << 10;
constexpr size_t kMostUnsent = 4 << 20;

}  // namespace

std::string agent_proof(const std::string& token, const std::string& side, const std::string& head_nonce,
                        const std::string& agent_nonce) {
  return hexadecimal(token_proof(token, side, head_nonce, agent_nonce));
}

AgentConnection::AgentConnection(FileDescriptor socket) : socket_(std::move(socket)), address_(peer_address_of(socket_)) {
  heard_ns_ = said_ns_ = monotonic_ns();
}

void AgentConnection::send(const nlohmann::json& message) {
  if (closed()) return;
  said_ns_ = monotonic_ns();
  // Texts should be printable(); a byte that is not UTF-8 must not make dump() throw.
  out_ += message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
  if (out_.size() > kMostUnsent) return close("it no longer accepts messages");
  flush();
}

void AgentConnection::flush() {
  while (!out_.empty() && !closed()) {
    const ssize_t sent = uninterrupted([&] { return ::send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL); });
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (sent < 0) return close(std::strerror(errno));
    out_.erase(0, static_cast<size_t>(sent));
  }
}

void AgentConnection::read_some() {
  char buffer[16 << 10];
  while (!closed()) {
    const ssize_t got = uninterrupted([&] { return recv(socket_.get(), buffer, sizeof buffer, 0); });
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got < 0) return close(std::strerror(errno));
    if (got == 0) return close("connection closed");
    in_.append(buffer, static_cast<size_t>(got));
    heard_ns_ = monotonic_ns();
    if (in_.size() > 2 * kLongestMessage) return;  // read the rest once these are parsed
  }
}

/// Returns false for a malformed message.
bool AgentConnection::parse(std::vector<nlohmann::json>& messages, size_t most) {
  size_t begin = 0;
  for (size_t end = 0; messages.size() < most && (end = in_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    nlohmann::json message = nlohmann::json::parse(in_.begin() + static_cast<std::ptrdiff_t>(begin),
                                                   in_.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    if (!message.is_object() || !message.contains("kind") || !message["kind"].is_string()) return false;
    // weft's messages have no fractions, and one beyond an integer's range must not become an integer.
    const bool has_fraction =
        std::any_of(message.begin(), message.end(), [](const nlohmann::json& v) { return v.is_number_float(); });
    if (has_fraction) return false;
    if (message["kind"] != "beat") {
      messages.push_back(std::move(message));
    } else if (message.contains("steps") && message["steps"].is_number_integer()) {
      steps_ = message["steps"];
      const auto launch = message.find("launch");
      steps_launch_ = launch != message.end() && launch->is_number_integer() ? launch->get<int64_t>() : 0;
    }
  }
  in_.erase(0, begin);
  return in_.size() <= kLongestMessage || in_.find('\n') <= kLongestMessage;
}

std::vector<nlohmann::json> AgentConnection::receive(size_t most) {
  std::vector<nlohmann::json> messages;
  const bool was_open = !closed();
  read_some();
  // Messages that arrived before the end count.
  if (was_open && !parse(messages, most)) close("it sent a malformed message");
  if (!closed() && monotonic_ns() - said_ns_ >= kBeat) beat();
  flush();
  return messages;
}

void AgentConnection::set_steps(int64_t steps, int64_t launch) {
  own_steps_ = steps;
  own_launch_ = launch;
}

void AgentConnection::beat() { send({{"kind", "beat"}, {"steps", own_steps_}, {"launch", own_launch_}}); }

void AgentConnection::close(const std::string& why) {
  if (closed()) return;
  why_ = why;
  socket_.close();
}

void AgentConnection::add_descriptors(std::vector<pollfd>& all) const {
  if (closed()) return;
  all.push_back({socket_.get(), static_cast<short>(out_.empty() ? POLLIN : POLLIN | POLLOUT), 0});
}

double AgentConnection::silent_s() const { return static_cast<double>(monotonic_ns() - heard_ns_) * 1e-9; }

}  // namespace weft
