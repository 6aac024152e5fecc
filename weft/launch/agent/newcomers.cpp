// How agents join a head; part of Head (launch/agent/head.h).
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "weft/base/printable.h"
#include "weft/base/token.h"
#include "weft/base/units.h"
#include "weft/launch/agent/head.h"
#include "weft/launch/agent/sockets.h"

namespace weft {

namespace {

/// An agent heard from this recently keeps its place.
constexpr double kSurelyThere_s = 1.5;
constexpr size_t kMostRefusals = 64;

}  // namespace

/// An agent's description of its host in a join request.
struct Head::Join {
  explicit Join(const nlohmann::json& message)
      : node(message.at("node").get<int64_t>()),
        ranks(message.at("ranks").get<int64_t>()),
        free_port(message.at("free_port").get<int64_t>()),
        host(shortened(message.at("host").get<std::string>())),
        shares_as(message.value("shares_as", "")),
        system(message.value("system", "")) {}

  int64_t node, ranks, free_port;
  std::string host, shares_as, system;
};

void Head::greet() {
  while (unproven_.has_room(Newcomers::Clock::now())) {
    FileDescriptor socket = accept_from(socket_);
    if (!socket) return;
    auto connection = std::make_shared<AgentConnection>(std::move(socket));
    if (const auto oldest = unproven_.to_evict(connection->address())) forget(*oldest);
    const uint64_t number = next_newcomer_++;
    unproven_.add(number, Newcomers::Clock::now(), connection->address());
    const Newcomer& newcomer = newcomers_[number] = {std::move(connection), make_nonce()};
    newcomer.connection->send({{"kind", "hello"}, {"protocol", kAgentProtocol}, {"nonce", newcomer.nonce}});
  }
}

void Head::forget(uint64_t newcomer) {
  unproven_.remove(newcomer);
  newcomers_.erase(newcomer);
}

void Head::hear_newcomers() {
  for (auto next = newcomers_.begin(); next != newcomers_.end();) {
    const auto& [number, newcomer] = *next++;
    if (is_done(newcomer)) forget(number);
  }
  while (const auto late = unproven_.expired(Newcomers::Clock::now())) forget(*late);
}

/// Returns true once it is no longer a newcomer.
bool Head::is_done(const Newcomer& newcomer) {
  try {
    for (const nlohmann::json& message : newcomer.connection->receive()) {
      if (message.at("kind") != "join") continue;
      admit(newcomer, message);
      return true;
    }
  } catch (const nlohmann::json::exception&) {
    newcomer.connection->close("it sent a malformed message");
  }
  return newcomer.connection->closed();
}

/// A rejected agent leaves once it has read the reason. It may be a stranger, so the number of printed lines is limited; an
/// agent that may retry prints the reason itself.
void Head::refuse(const Newcomer& newcomer, const Refusal& refusal) {
  newcomer.connection->send({{"kind", "refused"}, {"why", refusal.why}, {"again", refusal.again}});
  newcomer.connection->receive();
  if (refusal.again || !options_.report || has_finished_ || refusals_.size() >= kMostRefusals) return;
  const std::string line = fmt::format("rejected an agent at {}: {}", newcomer.connection->address(), refusal.why);
  if (refusals_.insert(line).second) options_.report(line);
}

/// Returns a distinct name for a node if another host has its name: ranks on equal names would assume shared memory.
std::string Head::distinct_name(size_t number) const {
  const Node& node = nodes_[number];
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& other = nodes_[i];
    if (i == number || !is_there(i) || other.shares_as.empty() || other.shares_as != node.shares_as) continue;
    if (other.system.empty() || node.system.empty() || other.system == node.system) continue;
    return fmt::format("{}.node{}", node.shares_as, number);
  }
  return "";
}

/// Assigns the node that name and reports it; empty if its host's own name is distinct.
std::string Head::name_apart(size_t number) {
  const std::string apart = distinct_name(number);
  if (apart.empty()) return apart;
  std::string& name = nodes_[number].shares_as;
  if (options_.report) {
    options_.report(
        fmt::format("node {} is another host named {}: its ranks use {} (WEFT_HOST) instead; give each host a "
                    "distinct name",
                    number, shortened(name), shortened(apart)));
  }
  return name = apart;
}

void Head::admit(const Newcomer& newcomer, const nlohmann::json& message) {
  if (const std::string why = distrust(newcomer, message); !why.empty()) return refuse(newcomer, {why});
  const Join join(message);
  if (const auto refusal = objection(join)) return refuse(newcomer, *refusal);
  take_place(newcomer, join);
  const auto index = static_cast<size_t>(join.node);
  AgentConnection& agent = *newcomer.connection;
  agent.send({{"kind", "welcome"},
              {"shares_as", name_apart(index)},
              {"proof", options_.token.empty() ? "" : proof(kHeadSide, newcomer, message)}});
  if (has_finished_) {
    send_end(agent);
  } else if (has_gathered_ && options_.report) {
    options_.report(fmt::format("host {} has joined as node {}", nodes_[index].name, join.node));
  }
}

/// Returns why the newcomer is not an agent of this run; empty: it is one.
std::string Head::distrust(const Newcomer& newcomer, const nlohmann::json& message) const {
  if (message.at("protocol") != kAgentProtocol) {
    return "it runs another version of weft; install the same on all hosts";
  }
  if (!options_.token.empty() && !is_same_proof(message.at("proof").get<std::string>(), proof(kAgentSide, newcomer, message))) {
    return "it does not know the job's secret; set the same WEFT_TOKEN on all hosts";
  }
  return "";
}

/// Proof of a side that knows the token.
std::string Head::proof(const char* side, const Newcomer& newcomer, const nlohmann::json& message) const {
  return agent_proof(options_.token, side, newcomer.nonce, message.at("nonce").get<std::string>());
}

/// Returns why there is no place for an agent of this run; nullopt: there is one.
std::optional<Head::Refusal> Head::objection(const Join& join) const {
  if (join.node < 0 || join.node >= options_.most_nodes || join.ranks < 1 || join.ranks > 1 << 16 || join.free_port < 0 ||
      join.free_port > 65535) {
    return Refusal{fmt::format("--node-rank {}: there {} {}", join.node, options_.most_nodes == 1 ? "is" : "are",
                               counted(options_.most_nodes, "node"))};
  }
  const Node& node = nodes_[static_cast<size_t>(join.node)];
  const bool own = join.node == options_.own_node;
  if (!own && (!node.agent || node.agent->silent_s() >= kSurelyThere_s)) return std::nullopt;
  return Refusal{fmt::format("node rank {} is taken by host {}; give each host its own --node-rank", join.node, node.name),
                 !own};
}

void Head::take_place(const Newcomer& newcomer, const Join& join) {
  const auto index = static_cast<size_t>(join.node);
  Node& node = nodes_[index];
  if (node.agent) lose(index, fmt::format("is lost: another agent, on host {}, has taken its place", join.host));
  if (index >= options_.names.size()) node.name = join.host;
  node.num_ranks = static_cast<int>(join.ranks);
  node.free_port = static_cast<int>(join.free_port);
  node.agent = newcomer.connection;
  node.shares_as = join.shares_as;
  node.system = join.system;
}

}  // namespace weft
