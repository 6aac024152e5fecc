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
#include "weft/cli/options/repeatable.h"
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
    throw InputError(fmt::format("--host-file {}: larger than {}; not a list of hosts", shortened(path),
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
    throw InputError(fmt::format("--nodes {}: expected a number of hosts, or fewest and most as in 2:4", text));
  }
  return {*least, *most};
}

void parse_head(const std::string& text, HostPlan& plan) {
  const size_t colon = text.rfind(':');
  const auto port = colon == std::string::npos ? std::nullopt : parse_number<int>(text.substr(colon + 1));
  if (!port || *port < 1 || *port > 65535 || colon == 0) {
    throw InputError(fmt::format("--head \"{}\": expected HOST:PORT of node 0", shortened(text)));
  }
  plan.head_host = text.substr(0, colon);
  if (plan.head_host.front() == '[' && plan.head_host.back() == ']') {
    plan.head_host = plan.head_host.substr(1, plan.head_host.size() - 2);
  }
  plan.head_port = *port;
}

/// Returns true if given on the command line; an environment variable holds for all commands of a shell.
bool is_given(const std::string& value, const char* variable) { return !value.empty() && getenv(variable) == nullptr; }

/// Without a secret, anyone who can reach the head could join the run, so a run without one must be requested.
void check_secret(bool no_token) {
  const bool has_token = !env_string("WEFT_TOKEN").value_or("").empty();
  if (has_token && no_token)
    throw InputError("WEFT_TOKEN is set, yet --no-token is given; use only one, the same on all nodes");
  if (!has_token && !no_token) {
    throw InputError(
        "--nodes needs a shared secret: set WEFT_TOKEN to the same value on all nodes, such as the output of "
        "`openssl rand -hex 32`; or let in any host that can reach the head, with --no-token on all nodes");
  }
}

/// Plan for srun with one task per host: node 0 leads.
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

/// Options for hosts that are started from here.
void add_ssh_options(CLI::App& command, HostOptions& options) {
  command.add_option("--hosts", options.hosts, "Hosts to start through ssh, and ranks on each: a:4,b:4")->group(kSeveralHosts);
  command.add_option("--host-file", options.host_file, "The same from a file, one host per line: \"a:4\" or \"a slots=4\"")
      ->group(kSeveralHosts);
  repeatable(command.add_option("--ssh-option", options.ssh_options, "Option for ssh, as in ssh_config: Port=2222; repeatable"),
             "KEY=VALUE")
      ->group(kSeveralHosts);
  command.add_option("--remote-weft", options.remote_weft, "Path of weft on those hosts. Default: the same as here")
      ->group(kSeveralHosts);
  command
      .add_option("--head-address", options.head_address,
                  "Address at which those hosts reach this one. Default: its address on the network that ssh uses")
      ->group(kSeveralHosts);
  repeatable(command.add_option("-x,--export", options.exported,
                                "Environment variable to pass on, besides OMP_* and WEFT_*; repeatable"),
             "NAME[=VALUE]")
      ->group(kSeveralHosts);
}

/// Options for hosts that something else starts.
void add_node_options(CLI::App& command, HostOptions& options) {
  command.add_option("--nodes", options.nodes, "Number of hosts that run this same command; 2:4: fewest and most")
      ->envname("WEFT_NODES")
      ->group(kSeveralHosts);
  command.add_option("--node-rank", options.node_rank, "Index of this host, from 0; node 0 leads")
      ->check(CLI::NonNegativeNumber)
      ->envname("WEFT_NODE_RANK")
      ->group(kSeveralHosts);
  command.add_option("--head", options.head, "HOST:PORT at which the others reach node 0")
      ->envname("WEFT_HEAD")
      ->group(kSeveralHosts);
  command
      .add_flag("--no-token", options.no_token,
                "With --nodes: accept any host that can reach the head, without the secret WEFT_TOKEN")
      ->group(kSeveralHosts);
}

}  // namespace

void add_health_options(CLI::App& command, HealthOptions& health) {
  CLI::Option* port = command.add_option("--health-port", health.port, "Answer GET /healthz, /livez and /metrics on this port")
                          ->check(CLI::Range(1, 65535));
  command.add_option("--health-address", health.address, "Address to listen on")
      ->capture_default_str()
      ->check([](const std::string& given) { return given.empty() ? std::string("the address is empty") : std::string(); })
      ->needs(port);
  command
      .add_option("--health-stalled", health.stalled_s,
                  "Seconds without a step after which /healthz and /livez return 503; 0: never")
      ->capture_default_str()
      ->check(number_range(0.0, 1e7))
      ->needs(port);
}

void add_host_options(CLI::App& command, HostOptions& options) {
  options.command = &command;
  add_ssh_options(command, options);
  add_node_options(command, options);
  command.add_option("--host-timeout", options.host_timeout_s, "Seconds of silence after which a host counts as lost")
      ->capture_default_str()
      ->check(number_range(1.0, 86400.0))
      ->group(kSeveralHosts);
  command.add_option("--join-timeout", options.join_timeout_s, "Seconds to wait for missing hosts")
      ->capture_default_str()
      ->check(number_range(0.1, 1e7))
      ->group(kSeveralHosts);
  command.add_flag("--prefix", options.prefix, "Prefix each output line with the rank, and with the host if there are several");
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

/// Rejects an option that has no effect with these hosts; it was probably meant for something else.
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
      {"--head-address", by_ssh, "--hosts and --host-file; with --nodes, use --head"},
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
    throw InputError("--no-token is for --nodes: hosts started otherwise are given a secret");
  }
  if (!options.hosts.empty() || !options.host_file.empty()) {
    if (is_given(options.nodes, "WEFT_NODES"))
      throw InputError("--hosts starts all hosts from here, --nodes is given on each host: use only one");
    if (!options.hosts.empty() && !options.host_file.empty()) {
      throw InputError("--hosts and --host-file both list the hosts; use only one");
    }
    plan.kind = HostPlan::Kind::ssh;
    plan.places = options.hosts.empty() ? parse_host_file(text_of_file(options.host_file), options.host_file)
                                        : parse_host_list(options.hosts);
    plan.nodes.most = plan.nodes.least = static_cast<int>(plan.places.size());
    int64_t ranks = 0;
    for (const HostPlace& place : plan.places) ranks += place.ranks;
    if (ranks > kMostHostPlaces) {
      throw InputError(fmt::format("the hosts have {} ranks in all; a run can have at most {}", ranks, kMostHostPlaces));
    }
    return plan;
  }
  if (!options.exported.empty()) {
    throw InputError("-x is for --hosts and --host-file: otherwise ranks inherit weft's environment");
  }
  if (options.nodes.empty()) {
    const std::string node = options.node_rank < 0 ? "" : fmt::to_string(options.node_rank);
    if (is_given(node, "WEFT_NODE_RANK") || is_given(options.head, "WEFT_HEAD")) {
      throw InputError("--node-rank and --head are for --nodes: give the number of hosts");
    }
    return starts_ranks ? plan_of_slurm() : plan;
  }
  plan.nodes = parse_nodes(options.nodes);
  if (options.node_rank >= plan.nodes.most) {
    throw InputError(fmt::format("--node-rank {} with --nodes {}: node ranks count from 0", options.node_rank, options.nodes));
  }
  if (plan.nodes.most == 1) return plan;
  if (options.node_rank < 0) throw InputError("--nodes needs --node-rank (or WEFT_NODE_RANK), the index of this host");
  if (options.head.empty()) throw InputError("--nodes needs --head HOST:PORT (or WEFT_HEAD), the address of node 0");
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
