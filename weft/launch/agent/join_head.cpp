#include "weft/launch/agent/join_head.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "weft/base/connect.h"
#include "weft/base/environment.h"
#include "weft/base/error.h"
#include "weft/base/stopwatch.h"
#include "weft/base/system_host.h"
#include "weft/base/token.h"
#include "weft/base/units.h"
#include "weft/launch/agent/patience.h"
#include "weft/launch/agent/sockets.h"

namespace weft {

namespace {

constexpr std::chrono::milliseconds kConnect(2000);
constexpr double kAnswer_s = 10.0;

class Joining {
 public:
  Joining(const AgentOptions& options, SignalWatch& signals) : options_(options), signals_(signals), nonce_(make_nonce()) {}

  /// Tries once. Null: a later attempt may succeed; see why().
  std::unique_ptr<AgentConnection> attempt();
  /// Waits; returns false if a signal came.
  bool pause(int ms, const AgentConnection* connection = nullptr);
  const std::string& why() const { return why_; }
  int signal() const { return signal_; }

 private:
  bool is_let_in(AgentConnection& connection, const nlohmann::json& message);

  const AgentOptions& options_;
  SignalWatch& signals_;
  std::string nonce_, head_nonce_, why_;
  int signal_ = 0;
};

bool Joining::pause(int ms, const AgentConnection* connection) {
  std::vector<pollfd> ready = {{signals_.fd(), POLLIN, 0}, {options_.lifeline, POLLIN, 0}};  // poll skips -1
  if (connection != nullptr) connection->add_descriptors(ready);
  poll(ready.data(), ready.size(), ms);
  for (const int signal : signals_.receive()) signal_ = signal;
  if (ready[1].revents != 0) signal_ = SIGHUP;
  return signal_ == 0;
}

std::unique_ptr<AgentConnection> Joining::attempt() {
  std::unique_ptr<AgentConnection> connection;
  try {
    connection = std::make_unique<AgentConnection>(connect_to(options_.head_host, options_.head_port, kConnect));
    const Stopwatch waited;
    while (waited.seconds() < kAnswer_s && pause(100, connection.get())) {
      for (const nlohmann::json& message : connection->receive(1)) {
        if (is_let_in(*connection, message)) return connection;
      }
      if (!connection->closed()) continue;
      if (why_.empty()) why_ = connection->why();
      return nullptr;
    }
    why_ = "the listener there does not answer like weft";
  } catch (const InputError&) {
    throw;
  } catch (const nlohmann::json::exception&) {
    why_ = "the listener there is not this version of weft";
  } catch (const Error& error) {
    why_ = error.what();
  }
  return nullptr;
}

bool Joining::is_let_in(AgentConnection& connection, const nlohmann::json& message) {
  const std::string kind = message.at("kind");
  if (kind == "hello") {
    if (message.at("protocol") != kAgentProtocol) {
      throw InputError(fmt::format("the head at {}:{} runs another version of weft; install the same on all hosts",
                                   options_.head_host, options_.head_port));
    }
    head_nonce_ = message.at("nonce");
    connection.send({{"kind", "join"},
                     {"protocol", kAgentProtocol},
                     {"proof", options_.token.empty() ? "" : agent_proof(options_.token, kAgentSide, head_nonce_, nonce_)},
                     {"nonce", nonce_},
                     {"host", options_.host},
                     {"shares_as", env_string("WEFT_HOST").value_or(system_host_name())},
                     {"system", system_identity()},
                     {"node", options_.node},
                     {"ranks", options_.num_ranks},
                     {"free_port", free_port()}});
  } else if (kind == "refused") {
    why_ = message.at("why");
    if (message.at("again").get<bool>()) return false;
    throw InputError(
        fmt::format("the head at {}:{} rejected host {}: {}", options_.head_host, options_.head_port, options_.host, why_));
  } else if (kind == "welcome") {
    // A stranger that only listens at the head's address must not lead this host's ranks.
    if (options_.token.empty() ||
        is_same_proof(message.at("proof").get<std::string>(), agent_proof(options_.token, kHeadSide, head_nonce_, nonce_))) {
      // Another host has this one's name; ranks inherit their agent's environment.
      const std::string name = message.value("shares_as", "");
      if (!name.empty()) setenv("WEFT_HOST", name.c_str(), 1);
      return true;
    }
    throw InputError(fmt::format("the listener at {}:{} does not know the job's secret; set the same WEFT_TOKEN on all hosts",
                                 options_.head_host, options_.head_port));
  }
  return false;
}

}  // namespace

JoinedHead join_head(const AgentOptions& options, SignalWatch& signals) {
  Joining joining(options, signals);
  Patience patience(options.join_timeout_s);
  do {
    if (auto connection = joining.attempt()) return {std::move(connection), 0};
    if (!patience.is_due() || !options.report) continue;
    options.report(fmt::format("host {} is waiting for the run's head at {}:{}, at most {} more: {}", options.host,
                               options.head_host, options.head_port, format_duration(patience.left_s()), joining.why()));
  } while (!patience.is_over() && joining.pause(500));
  if (joining.signal() != 0) return {nullptr, joining.signal()};
  throw Error(
      fmt::format("host {} cannot join the run's head at {}:{} (tried for {}): {}; is node 0 running, and the "
                  "port open between the hosts?",
                  options.host, options.head_host, options.head_port, format_duration(patience.waited_s()), joining.why()));
}

}  // namespace weft
