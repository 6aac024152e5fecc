#include "weft/cli/options/host_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "weft/base/environment.h"
#include "weft/base/error.h"
#include "weft/base/launcher_variables.h"
#include "weft/base/parse_number.h"
#include "weft/base/printable.h"
#include "weft/base/units.h"
#include "weft/cli/options/number_range.h"
#include "weft/launch/slurm/slurm_nodes.h"

namespace weft {

namespace {

constexpr int kMostNodes = 1 << 16;
constexpr int64_t kMostHostPlaces = 1 << 24;
constexpr size_t kMostFileBytes = 16 << 20;

std::string text_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(kMostFileBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  const auto size = static_cast<size_t>(in.gcount());
  if (size == 0) throw InputError(fmt::format("--host-file {}: cannot be read, or is empty", shortened(path)));
  if (size > kMostFileBytes) {
    throw InputError(fmt::format("--host-file {}: more than {}, which is no list of hosts", shortened(path),
                                 format_bytes(static_cast<int64_t>(kMostFileBytes))));
  }
  text.resize(size);
  return text;
}

NodeCounts parse_nodes(const std::string& text) {
  const size_t colon = text.find(':');
  const auto most = parse_number<int>(text.substr(colon == std::string::npos ? 0 : colon + 1));
  const auto least = colon == std::string::npos ? most : parse_number<int>(text.substr(0, colon));
  if (!most || !least || *least < 1 || *least > *most || *most > kMostNodes) {
    throw InputError(fmt::format("--nodes {}: that is no number of hosts, nor the fewest and the most as in 2:4", text));
  }
  return {*least, *most};
}

void parse_head(const std::string& text, HostPlan& plan) {
  const size_t colon = text.rfind(':');
  const auto port = colon == std::string::npos ? std::nullopt : parse_number<int>(text.substr(colon + 1));
  if (!port || *port < 1 || *port > 65535 || colon == 0) {
    throw InputError(fmt::format("--head \"{}\": expected HOST:PORT, where node 0 is reached", shortened(text)));
  }
  plan.head_host = text.substr(0, colon);
  if (plan.head_host.front() == '[' && plan.head_host.back() == ']') {
    plan.head_host = plan.head_host.substr(1, plan.head_host.size() - 2);
  }
  plan.head_port = *port;
}

/// On the command line, and not by a variable that is set for all commands of a shell.
bool is_told(const std::string& value, const char* variable) { return !value.empty() && getenv(variable) == nullptr; }

/// Whoever reaches the head could join in the run otherwise, which must be wanted.
void check_secret(bool no_token) {
  const bool has_token = !env_string("WEFT_TOKEN").value_or("").empty();
  if (has_token && no_token)
    throw InputError("WEFT_TOKEN is set, and --no-token wants none: leave out one of them, on all nodes");
  if (!has_token && !no_token) {
    throw InputError(
        "--nodes needs a secret by which the hosts know one another: set WEFT_TOKEN to the same on all nodes, such as what "
        "`openssl rand -hex 32` prints; or let in whoever reaches the head, with --no-token on all nodes");
  }
}

/// One task a host of srun's: node 0 leads.
HostPlan plan_of_slurm() {
  HostPlan plan;
  const auto place = slurm_nodes();
  if (!place) return plan;
  plan.kind = place->node_rank == 0 ? HostPlan::Kind::head : HostPlan::Kind::agent;
  plan.nodes = {place->nodes, place->nodes};
  plan.node = place->node_rank;
  plan.head_host = place->head_host;
  plan.head_port = place->head_port;
  setenv("WEFT_TOKEN", place->token.c_str(), 1);  // for agents and ranks alike
  return plan;
}

constexpr const char* kSeveralHosts = "Several hosts";

/// Hosts that are started from here.
void add_ssh_options(CLI::App& command, HostOptions& options) {
  command.add_option("--hosts", options.hosts, "Hosts that are started through ssh, and the ranks of each: a:4,b:4")
      ->group(kSeveralHosts);
  command.add_option("--host-file", options.host_file, "The same, from a file: a line a host, \"a:4\" or \"a slots=4\"")
      ->group(kSeveralHosts);
  command.add_option("--ssh-option", options.ssh_options, "An option for ssh, as in ssh_config: Port=2222. May be repeated")
      ->group(kSeveralHosts)
      ->allow_extra_args(false);
  command.add_option("--remote-weft", options.remote_weft, "Path of weft on those hosts. Left out: the same as here")
      ->group(kSeveralHosts);
  command
      .add_option("--head-address", options.head_address,
                  "What those hosts reach this one by. Left out: its address on the network through which ssh reaches them")
      ->group(kSeveralHosts);
  command
      .add_option("-x,--export", options.exported,
                  "An environment variable to hand on, NAME or NAME=VALUE, besides OMP_* and WEFT_*. May be repeated")
      ->group(kSeveralHosts)
      ->allow_extra_args(false);
}

/// Hosts that something else starts.
void add_node_options(CLI::App& command, HostOptions& options) {
  command
      .add_option("--nodes", options.nodes, "Hosts on each of which this same command is started; 2:4: the fewest and the most")
      ->envname("WEFT_NODES")
      ->group(kSeveralHosts);
  command.add_option("--node-rank", options.node_rank, "Which of them this is, from 0. Node 0 leads")
      ->check(CLI::NonNegativeNumber)
      ->envname("WEFT_NODE_RANK")
      ->group(kSeveralHosts);
  command.add_option("--head", options.head, "HOST:PORT where node 0 is reached by the others")
      ->envname("WEFT_HEAD")
      ->group(kSeveralHosts);
  command
      .add_flag("--no-token", options.no_token,
                "With --nodes: let in whoever reaches the head, instead of those that know the secret WEFT_TOKEN")
      ->group(kSeveralHosts);
}

}  // namespace

void add_health_options(CLI::App& command, HealthOptions& health) {
  CLI::Option* port = command.add_option("--health-port", health.port, "Answer GET /healthz, /livez and /metrics on this port")
                          ->check(CLI::Range(1, 65535));
  command.add_option("--health-address", health.address, "Address to answer on")
      ->capture_default_str()
      ->check([](const std::string& given) { return given.empty() ? std::string("the address is empty") : std::string(); })
      ->needs(port);
  command
      .add_option("--health-stalled", health.stalled_s,
                  "Seconds without a step after which /healthz and /livez say 503. 0: no number is too large")
      ->capture_default_str()
      ->check(number_range(0.0, 1e7))
      ->needs(port);
}

void add_host_options(CLI::App& command, HostOptions& options) {
  options.command = &command;
  add_ssh_options(command, options);
  add_node_options(command, options);
  command.add_option("--host-timeout", options.host_timeout_s, "Seconds of silence after which a host is given up")
      ->capture_default_str()
      ->check(number_range(1.0, 86400.0))
      ->group(kSeveralHosts);
  command.add_option("--join-timeout", options.join_timeout_s, "Seconds for which hosts that are missing are waited for")
      ->capture_default_str()
      ->check(number_range(0.1, 1e7))
      ->group(kSeveralHosts);
  command.add_flag("--prefix", options.prefix,
                   "Begin each line of the ranks' output with the host, where there are several, and the rank");
  add_health_options(command, options.health);
}

int HostPlan::num_places() const {
  int ranks = 0;
  for (const HostPlace& place : places) ranks += place.ranks;
  return ranks;
}

void leave_outer_place(const HostOptions& options) {
  if (options.nodes.empty() && env_string("RANK")) leave_outer_place();
}

namespace {

/// An option that only some ways of naming hosts read, beside none of these, was meant otherwise.
void check_read(const HostOptions& options, const HostPlan& plan) {
  const bool by_ssh = plan.kind == HostPlan::Kind::ssh;
  const bool several = plan.kind != HostPlan::Kind::one || !options.nodes.empty();
  const struct {
    const char* option;
    bool is_read;
    const char* readers;
  } rules[] = {
      {"--ssh-option", by_ssh, "--hosts and --host-file, which start hosts through ssh"},
      {"--remote-weft", by_ssh, "--hosts and --host-file, which start hosts through ssh"},
      {"--head-address", by_ssh, "--hosts and --host-file; hosts of --nodes are told it by --head"},
      {"--host-timeout", several, "several hosts: --hosts, --host-file or --nodes"},
      {"--join-timeout", several, "several hosts: --hosts, --host-file or --nodes"},
  };
  for (const auto& [option, is_read, readers] : rules) {
    if (!is_read && options.has(option))
      throw InputError(fmt::format("{} is for {}; leave it out, or name hosts", option, readers));
  }
}

HostPlan plan_of_options(const HostOptions& options, bool starts_ranks) {
  HostPlan plan;
  if (options.no_token && options.nodes.empty()) {
    throw InputError("--no-token is for --nodes: hosts that are started otherwise are given a secret");
  }
  if (!options.hosts.empty() || !options.host_file.empty()) {
    if (is_told(options.nodes, "WEFT_NODES"))
      throw InputError("--hosts starts all hosts from here, --nodes is told on each: not both");
    if (!options.hosts.empty() && !options.host_file.empty()) throw InputError("--hosts or --host-file, not both");
    plan.kind = HostPlan::Kind::ssh;
    plan.places = options.hosts.empty() ? parse_host_file(text_of_file(options.host_file), options.host_file)
                                        : parse_host_list(options.hosts);
    plan.nodes.most = plan.nodes.least = static_cast<int>(plan.places.size());
    int64_t ranks = 0;
    for (const HostPlace& place : plan.places) ranks += place.ranks;
    if (ranks > kMostHostPlaces) throw InputError(fmt::format("the hosts name {} ranks in all, more than any run has", ranks));
    return plan;
  }
  if (!options.exported.empty()) {
    throw InputError("-x is for --hosts and --host-file: otherwise ranks have the environment that weft is started with");
  }
  if (options.nodes.empty()) {
    const std::string node = options.node_rank < 0 ? "" : fmt::to_string(options.node_rank);
    if (is_told(node, "WEFT_NODE_RANK") || is_told(options.head, "WEFT_HEAD")) {
      throw InputError("--node-rank and --head are for --nodes: tell how many hosts there are");
    }
    return starts_ranks ? plan_of_slurm() : plan;
  }
  plan.nodes = parse_nodes(options.nodes);
  if (options.node_rank >= plan.nodes.most) {
    throw InputError(fmt::format("--node-rank {} with --nodes {}: they are counted from 0", options.node_rank, options.nodes));
  }
  if (plan.nodes.most == 1) return plan;
  if (options.node_rank < 0) throw InputError("--nodes needs --node-rank, which of them this host is (or WEFT_NODE_RANK)");
  if (options.head.empty()) throw InputError("--nodes needs --head HOST:PORT, where node 0 is reached (or WEFT_HEAD)");
  parse_head(options.head, plan);
  check_secret(options.no_token);
  plan.node = options.node_rank;
  plan.kind = plan.node == 0 ? HostPlan::Kind::head : HostPlan::Kind::agent;
  return plan;
}

}  // namespace

HostPlan host_plan(const HostOptions& options, bool starts_ranks) {
  HostPlan plan = plan_of_options(options, starts_ranks);
  check_read(options, plan);
  return plan;
}

}  // namespace weft
