#include "weft/launch/agent/head.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "weft/base/environment.h"
#include "weft/base/error.h"
#include "weft/base/loopback.h"
#include "weft/base/monotonic.h"
#include "weft/base/run_board.h"
#include "weft/base/stopwatch.h"
#include "weft/base/system_host.h"
#include "weft/base/units.h"
#include "weft/launch/agent/patience.h"
#include "weft/launch/agent/sockets.h"
#include "weft/launch/launch_options.h"
#include "weft/launch/local_ranks.h"
#include "weft/launch/run_status.h"
#include "weft/launch/signal_watch.h"

namespace weft {

namespace {

/// Time for agents to leave once the run is over.
constexpr double kFarewell_s = 5.0;
/// Interval between attempts to reach a host.
constexpr int64_t kCallAgain = 10'000'000'000;
/// A lost host's ssh may end before its agent is missed; an agent heard this much later has lost only its ssh.
constexpr int64_t kSurelyThere = 3'000'000'000;
constexpr size_t kMostNames = 8;
constexpr NewcomerLimits kNewcomers{
    .most = 256, .max_per_address = 64, .young = std::chrono::seconds(1), .to_prove = std::chrono::seconds(3)};

}  // namespace

/// The ranks of a node, registered with the head while they live.
class Head::Part : public RemoteRanks {
 public:
  Part(Node& node, const HostStart& start, int64_t launch, const RunBoard* board)
      : RemoteRanks(start, node.name, node.agent, launch, board), node_(node) {
    node.ranks = this;
  }
  ~Part() override { node_.ranks = nullptr; }

 private:
  Node& node_;
};

Head::Head(FileDescriptor socket, HeadOptions options)
    : socket_(std::move(socket)), options_(std::move(options)), unproven_(kNewcomers) {
  nodes_.resize(static_cast<size_t>(options_.most_nodes));
  for (size_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i].name = i < options_.names.size() ? options_.names[i] : fmt::format("of node rank {}", i);
  }
  if (options_.own_node < 0) return;
  Node& own = nodes_.at(static_cast<size_t>(options_.own_node));
  own.name = options_.own_name;
  own.num_ranks = options_.own_ranks;
  own.shares_as = env_string("WEFT_HOST").value_or(system_host_name());
  own.system = system_identity();
}

Head::~Head() {
  try {
    finish(1, "the head of the run has ended");
  } catch (const std::exception&) {
    // The agents will notice.
  }
}

bool Head::is_there(size_t node) const { return static_cast<int>(node) == options_.own_node || nodes_[node].agent; }

int Head::capacity() const {
  int there = 0, ranks = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!is_there(i)) continue;
    ++there;
    ranks += nodes_[i].num_ranks;
  }
  return there < options_.least_nodes ? 0 : ranks;
}

int Head::least_capacity() const {
  std::vector<int> ranks;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (is_there(i)) ranks.push_back(nodes_[i].num_ranks);
  }
  std::sort(ranks.begin(), ranks.end());
  const auto least = std::min(ranks.size(), static_cast<size_t>(options_.least_nodes));
  return std::accumulate(ranks.begin(), ranks.begin() + static_cast<ptrdiff_t>(least), 0);
}

/// Distributes ranks over the nodes: fills nodes in order, so that the numbers on each are consecutive.
std::vector<int> Head::spread(int ranks) const {
  std::vector<int> counts;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    counts.push_back(is_there(i) ? std::min(ranks, nodes_[i].num_ranks) : 0);
    ranks -= counts.back();
  }
  if (ranks > 0) throw Error(fmt::format("the remaining hosts have no room for {}", counted(ranks, "rank")));
  return counts;
}

StartedRanks Head::start(const LaunchOptions& options, const sigset_t& mask) {
  const std::vector<int> counts = spread(options.num_ranks);
  ++launch_;
  board_ = options.board;
  first_node_ = static_cast<size_t>(std::find_if(counts.begin(), counts.end(), [](int n) { return n > 0; }) - counts.begin());
  const bool leads = static_cast<int>(first_node_) == options_.own_node;
  const bool alone = leads && counts[first_node_] == options.num_ranks;  // the other hosts are gone
  FileDescriptor socket;
  if (options.serve) socket = alone ? listen_on_loopback() : listen_beside(socket_);
  HostStart start{.num_ranks = 0, .world = options.num_ranks, .master_address = ""};
  start.master_port = leads ? free_port() : nodes_[first_node_].free_port;
  if (options_.status != nullptr) {
    options_.status->set_local_ranks(options_.own_node < 0 ? 0 : counts[static_cast<size_t>(options_.own_node)]);
    start.restarts = options_.status->view().restarts;
  }
  StartedRanks started;
  for (size_t i = 0; i < nodes_.size(); start.first_rank += counts[i], ++i) {
    start.num_ranks = counts[i];
    if (counts[i] == 0) continue;
    const bool here = static_cast<int>(i) == options_.own_node;
    // The agent's own connection shows the address that reaches it best.
    start.master_address = !leads ? nodes_[first_node_].agent->address() : here ? options_.own_address : "";
    start.store = !socket ? "" : fmt::format("{}:{}", here ? address_here(socket) : "", port_of(socket));
    if (here) {
      LocalRanksOptions own = local_ranks_options(options, mask);
      own.host = options_.own_name;
      auto ranks = std::make_unique<LocalRanks>(std::move(own), counts[i]);
      ranks->start(start);
      started.hosts.push_back(std::move(ranks));
    } else {
      started.hosts.push_back(std::make_unique<Part>(nodes_[i], start, launch_, options.board));
    }
  }
  if (socket) started.server = options.serve(std::move(socket));
  return started;
}

void Head::add_descriptors(std::vector<pollfd>& all) const {
  if (unproven_.has_room(Newcomers::Clock::now())) all.push_back({socket_.get(), POLLIN, 0});
  for (const auto& [number, newcomer] : newcomers_) newcomer.connection->add_descriptors(all);
  for (const Node& node : nodes_) {
    if (node.agent) node.agent->add_descriptors(all);
  }
  if (options_.starter != nullptr && !has_finished_) options_.starter->add_descriptors(all);
}

void Head::receive() {
  greet();
  hear_newcomers();
  call_agents();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].agent) hear(i);
  }
  // May also decrease: a launch may resume from a checkpoint older than the end of the last launch.
  const Node& first = nodes_[first_node_];
  if (board_ != nullptr && first.agent && first.ranks != nullptr && first.agent->steps_launch() == launch_) {
    board_->set_steps_done(first.agent->steps());
  }
  send_steps();
  show();
}

/// Sends the steps to each host, which may be asked for the run's health.
void Head::send_steps() const {
  if (board_ == nullptr) return;
  for (const Node& node : nodes_) {
    if (node.agent) node.agent->set_steps(board_->steps_done(), launch_);
  }
}

/// An agent that will not come ends the run before the first start, but not later, since its host may return.
void Head::call_agents() {
  if (options_.starter == nullptr || has_finished_) return;
  const bool again = monotonic_ns() - call_ns_ >= kCallAgain;
  if (again) call_ns_ = monotonic_ns();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const std::string failure = options_.starter->failure(static_cast<int>(i));
    if (is_there(i)) {
      watch_output(i, failure);
      continue;
    }
    if (!failure.empty() && !has_gathered_) throw Error(fmt::format("host {}: {}", nodes_[i].name, failure));
    if (again) options_.starter->start(static_cast<int>(i));
  }
}

/// A host's output arrives through the process that started its agent.
void Head::watch_output(size_t number, const std::string& failure) {
  Node& node = nodes_[number];
  if (failure.empty() || !node.agent || node.output_lost) return;
  if (node.failed_ns == 0) node.failed_ns = monotonic_ns();
  if (node.agent->heard_ns() - node.failed_ns < kSurelyThere) return;
  node.output_lost = true;
  if (options_.report) {
    options_.report(
        fmt::format("host {}: {}: the output of its ranks is no longer read, so ranks that print may end", node.name, failure));
  }
}

void Head::hear(size_t number) {
  Node& node = nodes_[number];
  try {
    for (const nlohmann::json& message : node.agent->receive()) {
      const std::string kind = message.at("kind");
      if (kind == "interrupt") {
        signals_.push_back({message.at("signal"), static_cast<int>(number)});
      } else if (kind == "idle") {
        node.free_port = message.at("free_port");
      } else if (node.ranks != nullptr) {
        node.ranks->take(message);
      }
    }
  } catch (const nlohmann::json::exception&) {
    node.agent->close("it sent a malformed message");
  }
  if (node.agent->closed()) {
    lose(number, fmt::format("is lost: its agent is gone ({})", node.agent->why()));
  } else if (node.agent->silent_s() > options_.host_timeout_s) {
    lose(number, fmt::format("has not answered for {}; it or its network is down", format_duration(node.agent->silent_s())));
  }
}

void Head::lose(size_t number, const std::string& why) {
  Node& node = nodes_[number];
  node.agent->close("given up");
  if (node.ranks != nullptr) node.ranks->lose(why);
  if (node.ranks == nullptr && !has_finished_ && options_.report) options_.report(fmt::format("host {} {}", node.name, why));
  node.agent.reset();
  node.failed_ns = 0;
  node.output_lost = false;
  if (options_.starter != nullptr && !has_finished_) options_.starter->lost(static_cast<int>(number));
}

std::vector<HostSignal> Head::signals() { return std::exchange(signals_, {}); }

std::string Head::missing() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!is_there(i)) names.push_back("host " + nodes_[i].name);
  }
  const size_t shown = std::min(names.size(), kMostNames), more = names.size() - shown;
  names.resize(shown);
  return fmt::format("{}{}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

int Head::gather(SignalWatch& signals, const std::function<std::optional<bool>(int capacity)>& enough) {
  Patience patience(options_.join_timeout_s);
  while (true) {
    receive();
    for (const int signal : signals.receive()) return signal;
    for (const HostSignal& signal : this->signals()) return signal.number;
    const std::string absent = missing();
    const std::optional<bool> is_enough = enough(capacity());
    if (absent.empty() || (has_gathered_ && is_enough.value_or(false))) break;
    if (patience.is_over() && is_enough) {
      if (*is_enough) {
        if (options_.report) options_.report(absent + " did not join: starting without");
        break;
      }
      throw Error(
          fmt::format("{} did not join within {}; is weft running there?", absent, format_duration(options_.join_timeout_s)));
    }
    if (patience.is_due() && options_.report) {
      options_.report(fmt::format("waiting for {}, at most {} more", absent, format_duration(patience.left_s())));
    }
    std::vector<pollfd> ready = {{signals.fd(), POLLIN, 0}};
    add_descriptors(ready);
    poll(ready.data(), ready.size(), 200);
  }
  has_gathered_ = true;
  return 0;
}

void Head::finish(int status, const std::string& line) {
  if (std::exchange(has_finished_, true)) return;
  board_ = nullptr;  // the board does not outlive the run
  end_status_ = status;
  end_line_ = line;
  for (const Node& node : nodes_) {
    if (node.agent) send_end(*node.agent);
  }
  const Stopwatch waited;
  const auto any_there = [this] { return std::any_of(nodes_.begin(), nodes_.end(), [](const Node& n) { return !!n.agent; }); };
  while ((any_there() || !newcomers_.empty()) && waited.seconds() < kFarewell_s) {
    std::vector<pollfd> ready;
    add_descriptors(ready);
    poll(ready.data(), ready.size(), 100);
    receive();
  }
  if (options_.starter != nullptr) options_.starter->finish();
}

void Head::send_end(AgentConnection& agent) const {
  agent.send({{"kind", "end"}, {"status", end_status_}, {"line", end_line_}});
}

void Head::show() {
  if (options_.status == nullptr) return;
  std::vector<HostStatus> hosts;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    hosts.push_back({node.name, static_cast<int>(i), is_there(i), node.agent ? node.agent->heard_ns() : monotonic_ns()});
  }
  options_.status->set_hosts(std::move(hosts));
}

}  // namespace weft
