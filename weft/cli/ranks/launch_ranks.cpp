#include "weft/cli/ranks/launch_ranks.h"

#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "weft/base/environment.h"
#include "weft/base/error.h"
#include "weft/base/interfaces.h"
#include "weft/base/launcher_variables.h"
#include "weft/base/loopback.h"
#include "weft/base/printable.h"
#include "weft/base/system_host.h"
#include "weft/base/this_executable.h"
#include "weft/base/token.h"
#include "weft/base/units.h"
#include "weft/cli/output/output.h"
#include "weft/comm/host/host_name.h"
#include "weft/comm/reported_waits.h"
#include "weft/comm/store/open_store.h"
#include "weft/comm/store/store_server.h"
#include "weft/launch/agent/agent.h"
#include "weft/launch/agent/head.h"
#include "weft/launch/agent/sockets.h"
#include "weft/launch/agent/ssh_agents.h"
#include "weft/launch/agent/ssh_route.h"
#include "weft/launch/rank_limits.h"
#include "weft/launch/run_status.h"
#include "weft/launch/signal_watch.h"

namespace weft {

namespace {

constexpr std::chrono::milliseconds kToReportWaits{700};

/// Serves a store that only this job can reach: its processes share a token, from the environment or, for ranks on one host,
/// made here and passed in the ranks' environment.
void serve_store(LaunchOptions& options, bool one_host) {
  std::string token = env_string("WEFT_TOKEN").value_or("");
  if (token.empty() && one_host) {
    ::unsetenv("WEFT_TOKEN");  // an empty value would shadow the new one
    token = make_token();
    options.environment.push_back("WEFT_TOKEN=" + token);
  }
  const auto served = std::make_shared<std::weak_ptr<StoreServer>>();
  options.serve = [token, served](FileDescriptor socket) {
    auto server = std::make_shared<StoreServer>(std::move(socket), token);
    *served = server;
    return server;
  };
  options.waits_for = [token, served](int world, const std::vector<int>& lost) -> std::string {
    const auto server = served->lock();
    if (!server) return "";
    return reported_waits_for({"the launcher", server->host(), server->port(), token}, world, lost, kToReportWaits);
  };
}

bool has_value(const std::string& exported) { return exported.find('=') != std::string::npos; }

/// Returns the environment variables that agents set, without those of this launch, of an outer one, or of this host.
std::vector<std::string> handed_on(const std::vector<std::string>& exported) {
  const auto is_in = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const std::string& text : exported) {
    const std::string name = text.substr(0, text.find('='));
    if (name.empty() || is_launcher_variable(name)) {
      throw InputError(fmt::format("-x {}: set by weft itself, or not a variable; leave it out", shortened(text)));
    }
    if (!has_value(text) && getenv(name.c_str()) == nullptr) {
      throw InputError(fmt::format("-x {}: not set here; set it, or leave it out", shortened(name)));
    }
  }
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry, name = text.substr(0, text.find('='));
    const bool ours = name.starts_with("OMP_") || name.starts_with("WEFT_");
    if (is_in(exported, name) || (ours && !is_launcher_variable(name))) result.push_back(text);
  }
  std::copy_if(exported.begin(), exported.end(), std::back_inserter(result), has_value);
  return result;
}

/// The hosts of --hosts, or of --nodes on node 0.
class SeveralHosts {
 public:
  SeveralHosts(const LaunchOptions& launch, const LaunchPlace& place, RunStatus& status);
  Head& head() { return *head_; }

 private:
  HeadOptions for_nodes(const LaunchPlace& place) const;
  HeadOptions for_ssh(const LaunchPlace& place) const;
  void prepare_ssh(const LaunchOptions& launch, const LaunchPlace& place, int port, const std::string& token,
                   const std::string& head_host);

  std::unique_ptr<SshAgents> ssh_;
  std::unique_ptr<Head> head_;
};

SeveralHosts::SeveralHosts(const LaunchOptions& launch, const LaunchPlace& place, RunStatus& status) {
  const bool by_ssh = place.plan.kind == HostPlan::Kind::ssh;
  std::string token = env_string("WEFT_TOKEN").value_or("");
  if (by_ssh && token.empty()) {
    token = make_token();
    setenv("WEFT_TOKEN", token.c_str(), 1);  // for this host's ranks and their store server
  }
  HeadOptions options = by_ssh ? for_ssh(place) : for_nodes(place);
  HeadSocket listening = listen_for_agents(options.own_address, by_ssh ? 0 : place.plan.head_port);
  if (!listening.why_everywhere.empty())
    print_error_line("listening on all interfaces for other hosts: " + listening.why_everywhere);
  if (by_ssh) {
    prepare_ssh(launch, place, port_of(listening.socket), token, options.own_address);
    options.starter = ssh_.get();
    if (options.own_address.empty()) options.own_address = system_host_name();
  }
  options.token = token;
  options.host_timeout_s = place.options.host_timeout_s;
  options.join_timeout_s = place.options.join_timeout_s;
  options.status = &status;
  options.report = print_error_line;
  head_ = std::make_unique<Head>(std::move(listening.socket), std::move(options));
}

HeadOptions SeveralHosts::for_nodes(const LaunchPlace& place) const {
  return {.least_nodes = place.plan.nodes.least,
          .most_nodes = place.plan.nodes.most,
          .own_node = 0,
          .own_ranks = place.local_ranks,
          .own_name = shortened(this_host()),
          .own_address = place.plan.head_host};
}

/// Sets `own_address` only if it is known in advance.
HeadOptions SeveralHosts::for_ssh(const LaunchPlace& place) const {
  HeadOptions options{.most_nodes = place.plan.nodes.most};
  std::vector<std::string> others;
  for (const HostPlace& host : place.plan.places) {
    if (options.own_node < 0 && is_this_host(short_host_name(host.host))) {
      options.own_node = static_cast<int>(options.names.size());
      options.own_ranks = host.ranks;
      options.own_name = short_host_name(host.host);
    } else {
      others.push_back(host.host);
    }
    options.names.push_back(short_host_name(host.host));
  }
  options.own_address = place.options.head_address;
  if (options.own_address.empty()) {
    options.own_address = others.empty() ? "127.0.0.1" : address_towards(others, place.options.ssh_options);
  }
  return options;
}

void SeveralHosts::prepare_ssh(const LaunchOptions& launch, const LaunchPlace& place, int port, const std::string& token,
                               const std::string& head_host) {
  SshOptions ssh{.places = place.plan.places, .options = place.options.ssh_options, .weft = place.options.remote_weft};
  if (ssh.weft.empty()) ssh.weft = this_executable();
  ssh.order = {.token = token, .head_host = head_host, .head_port = port};
  ssh.order.folder = std::filesystem::current_path().string();
  ssh.order.command = launch.command;
  if (ssh.order.command.front() == this_executable()) ssh.order.command.front().clear();
  ssh.order.environment = handed_on(place.options.exported);
  ssh.order.prefix = launch.prefix;
  ssh.order.host_timeout_s = place.options.host_timeout_s;
  ssh_ = std::make_unique<SshAgents>(std::move(ssh));
}

/// A cluster manager's SIGTERM reaches each host at a different time; a host whose run is over and whose process is about to
/// exit ignores it.
void ignore_late_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) ::signal(number, SIG_IGN);
}

int serve_head(const LaunchOptions& options, bool joins_again, const LaunchPlace& place) {
  AgentOptions agent{.head_host = place.plan.head_host, .head_port = place.plan.head_port};
  agent.token = env_string("WEFT_TOKEN").value_or("");
  agent.node = place.plan.node;
  agent.num_ranks = place.local_ranks;
  agent.host = shortened(this_host());
  agent.command = options.command;
  agent.prefix = options.prefix;
  agent.host_timeout_s = place.options.host_timeout_s;
  agent.join_timeout_s = place.options.join_timeout_s;
  agent.joins_again = joins_again;
  agent.status = options.status;
  agent.report = print_error_line;
  const LaunchOutcome outcome = run_agent(agent);
  ignore_late_signals();
  print_error_line(outcome.error);
  return outcome.status;
}

}  // namespace

void print_error_line(const std::string& line) {
  if (line.empty()) return;
  // A rank that was ended may have left half a progress bar.
  if (isatty(STDERR_FILENO) != 0) std::fputs("\r\x1b[K", stderr);
  std::fprintf(stderr, "weft: %s\n", shortened(line, 2000).c_str());
}

void check_rank_total(const LaunchPlace& place, std::optional<int> num_ranks) {
  if (!num_ranks) return;
  if (place.plan.kind != HostPlan::Kind::ssh) return check_rank_count(*num_ranks);
  if (*num_ranks < 1) throw InputError(fmt::format("-n {}: the number of ranks must be at least 1", *num_ranks));
  if (*num_ranks > place.plan.num_places()) {
    throw InputError(fmt::format("-n {}: the hosts have room for {}; give them more, as in a:4", *num_ranks,
                                 counted(place.plan.num_places(), "rank")));
  }
}

RestartOptions no_restarts(int num_ranks) {
  return {.limits = {.restarts = 0, .least_ranks = num_ranks, .most_ranks = num_ranks}};
}

int launch_ranks(LaunchOptions options, RestartOptions restarts, const LaunchPlace& place) {
  survive(SIGPIPE);  // a closed log does not end the run
  options.prefix = place.options.prefix;
  restarts.report = print_error_line;
  RunStatus status;
  if (!restarts.counts_steps) status.set_custom_program();
  options.status = &status;
  std::optional<HealthServer> health;
  if (place.options.health.port != 0) health.emplace(place.options.health, status);
  if (place.plan.kind == HostPlan::Kind::agent) {
    status.set_led();
    return serve_head(options, restarts.limits.restarts > 0, place);
  }
  if (place.plan.kind == HostPlan::Kind::one) {
    serve_store(options, true);
    SignalWatch signals;
    options.signals = &signals;
    const LaunchOutcome outcome = launch_again(std::move(options), restarts);
    ignore_late_signals();
    print_error_line(place.told(outcome));
    return outcome.status;
  }
  const std::vector<std::string>& exported = place.options.exported;
  std::copy_if(exported.begin(), exported.end(), std::back_inserter(options.environment), has_value);
  SeveralHosts hosts(options, place, status);
  SignalWatch signals;
  options.hosts = &hosts.head();
  options.signals = &signals;
  serve_store(options, false);
  const auto finish = [&](int exit_status, const std::string& line) {
    hosts.head().finish(exit_status, line);
    ignore_late_signals();
  };
  try {
    const LaunchOutcome outcome = launch_again(std::move(options), restarts);
    const std::string line = place.told(outcome);
    finish(outcome.status, line);
    print_error_line(line);
    return outcome.status;
  } catch (const Error& error) {
    finish(1, error.what());
    throw;
  }
}

}  // namespace weft
