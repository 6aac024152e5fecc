// How agents join a head: a part of Head (launch/agent/head.h).
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "weft/base/monotonic.h"
#include "weft/base/printable.h"
#include "weft/base/token.h"
#include "weft/base/units.h"
#include "weft/launch/agent/head.h"
#include "weft/launch/agent/sockets.h"

namespace weft {

namespace {

/// Connections that have proven nothing yet: of one address (several hosts behind a router may share it), and in all. Beyond
/// them the oldest makes room; where the oldest of all is younger than a second, who comes waits in the kernel until it is not.
constexpr ptrdiff_t kMostOfAddress = 64;
constexpr size_t kMostNewcomers = 256;
constexpr int64_t kYoung = 1'000'000'000;
constexpr int64_t kToProve = 3'000'000'000;
/// An agent that was heard of so lately is there: no other takes its place.
constexpr double kSurelyThere_s = 1.5;
constexpr size_t kMostRefusals = 64;

}  // namespace

bool Head::has_room() const {
  return newcomers_.size() < kMostNewcomers || monotonic_ns() - newcomers_.front().since_ns > kYoung;
}

/// For one more from that address. Newcomers are in the order of their coming.
void Head::make_room(const std::string& address) {
  const auto is_from_there = [&](const Newcomer& newcomer) { return newcomer.connection->address() == address; };
  if (std::count_if(newcomers_.begin(), newcomers_.end(), is_from_there) >= kMostOfAddress) {
    newcomers_.erase(std::find_if(newcomers_.begin(), newcomers_.end(), is_from_there));
  } else if (newcomers_.size() >= kMostNewcomers) {
    newcomers_.erase(newcomers_.begin());
  }
}

void Head::greet() {
  while (has_room()) {
    FileDescriptor socket = accept_from(socket_);
    if (!socket) return;
    auto connection = std::make_shared<AgentConnection>(std::move(socket));
    make_room(connection->address());
    newcomers_.push_back({std::move(connection), make_nonce(), monotonic_ns()});
    newcomers_.back().connection->send({{"kind", "hello"}, {"protocol", kAgentProtocol}, {"nonce", newcomers_.back().nonce}});
  }
}

void Head::hear_newcomers() {
  std::erase_if(newcomers_, [this](Newcomer& newcomer) {
    try {
      for (const nlohmann::json& message : newcomer.connection->receive()) {
        if (message.at("kind") == "join") return admit(newcomer, message);
      }
    } catch (const nlohmann::json::exception&) {
      newcomer.connection->close("what it says is no message of weft's");
    }
    return newcomer.connection->closed() || monotonic_ns() - newcomer.since_ns > kToProve;
  });
}

/// One that is refused goes once it has read why. It may be anybody, so what is told of them has an end; who may come again, as
/// a pod in the place of one that is just going, tells of it himself.
void Head::refuse(const Newcomer& newcomer, const std::string& why, bool again) {
  newcomer.connection->send({{"kind", "refused"}, {"why", why}, {"again", again}});
  newcomer.connection->receive();
  if (again || !options_.tell || has_finished_ || refusals_.size() >= kMostRefusals) return;
  const std::string line = fmt::format("an agent at {} was not let in: {}", newcomer.connection->address(), why);
  if (refusals_.insert(line).second) options_.tell(line);
}

/// A name of its own for a node's ranks where another host is called the same: they would take each other's memory for theirs.
std::string Head::told_apart(size_t number) const {
  const Node& node = nodes_[number];
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& other = nodes_[i];
    if (i == number || !is_there(i) || other.shares_as.empty() || other.shares_as != node.shares_as) continue;
    if (other.system.empty() || node.system.empty() || other.system == node.system) continue;
    return fmt::format("{}.node{}", node.shares_as, number);
  }
  return "";
}

/// True: it is a newcomer no more.
bool Head::admit(Newcomer& newcomer, const nlohmann::json& message) {
  if (message.at("protocol") != kAgentProtocol) {
    refuse(newcomer, "its weft is of another version than this one's; install the same on all hosts", false);
    return true;
  }
  if (!options_.token.empty() &&
      !is_same_proof(message.at("proof").get<std::string>(),
                     agent_proof(options_.token, kAgentSide, newcomer.nonce, message.at("nonce").get<std::string>()))) {
    refuse(newcomer, "it does not know the job's secret; set the same WEFT_TOKEN on all hosts", false);
    return true;
  }
  const auto number = message.at("node").get<int64_t>(), ranks = message.at("ranks").get<int64_t>();
  const auto port = message.at("free_port").get<int64_t>();
  const std::string host = shortened(message.at("host").get<std::string>());
  if (number < 0 || number >= options_.most_nodes || ranks < 1 || ranks > 1 << 16 || port < 0 || port > 65535) {
    refuse(newcomer,
           fmt::format("--node-rank {}: there {} {}", number, options_.most_nodes == 1 ? "is" : "are",
                       counted(options_.most_nodes, "node")),
           false);
    return true;
  }
  const auto index = static_cast<size_t>(number);
  Node& node = nodes_[index];
  const bool own = number == options_.own_node;
  if (own || (node.agent && node.agent->silent_s() < kSurelyThere_s)) {
    refuse(newcomer,
           fmt::format("node rank {} is taken by host {}; give each host a --node-rank of its own", number, node.name), !own);
    return true;
  }
  if (node.agent) lose(index, fmt::format("is lost: another agent, on host {}, has taken its place", host));
  if (index >= options_.names.size()) node.name = host;
  node.num_ranks = static_cast<int>(ranks);
  node.free_port = static_cast<int>(port);
  node.agent = newcomer.connection;
  node.shares_as = message.value("shares_as", "");
  node.system = message.value("system", "");
  const std::string apart = told_apart(index);
  if (!apart.empty()) {
    if (options_.tell) {
      options_.tell(
          fmt::format("node {} is another host of the name {}: its ranks call it {} (WEFT_HOST); better give each host a "
                      "name of its own",
                      number, shortened(node.shares_as), shortened(apart)));
    }
    node.shares_as = apart;
  }
  node.agent->send({{"kind", "welcome"},
                    {"shares_as", apart},
                    {"proof", options_.token.empty() ? ""
                                                     : agent_proof(options_.token, kHeadSide, newcomer.nonce,
                                                                   message.at("nonce").get<std::string>())}});
  if (has_finished_) {
    tell_end(*node.agent);
    return true;
  }
  if (has_gathered_ && options_.tell) options_.tell(fmt::format("host {} has joined as node {}", node.name, number));
  return true;
}

}  // namespace weft
