// weft agent: started by `weft run --hosts` on each other host through ssh; reads its order from standard input.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "weft/base/environment.h"
#include "weft/base/error.h"
#include "weft/base/file_descriptor.h"
#include "weft/base/this_executable.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/output/output.h"
#include "weft/launch/agent/agent.h"
#include "weft/launch/agent/ssh_agents.h"

namespace weft {

namespace {

/// How long to try to reach a head that already listens.
constexpr double kReach_s = 20.0;

void set_variable(const std::string& entry) {
  const size_t equals = entry.find('=');
  if (equals != std::string::npos) setenv(entry.substr(0, equals).c_str(), entry.c_str() + equals + 1, 1);
}

/// Address from which the ssh connection came.
std::string ssh_client() {
  const std::string connection = env_string("SSH_CONNECTION").value_or("");
  const std::string address = connection.substr(0, connection.find(' '));
  if (address.empty()) {
    throw InputError("SSH_CONNECTION is not set here, so the head's address is unknown; give --head-address");
  }
  return address;
}

int follow_order() {
  std::string line;
  std::getline(std::cin, line);
  // The lifeline stays open as long as the head's ssh; ranks get an empty standard input.
  const FileDescriptor lifeline(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  const FileDescriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  dup2(null.get(), STDIN_FILENO);
  AgentOrder order = parse_order(line);
  for (const std::string& entry : order.environment) set_variable(entry);
  setenv("WEFT_TOKEN", order.token.c_str(), 1);
  AgentOptions agent{.head_host = order.head_host.empty() ? ssh_client() : order.head_host, .head_port = order.head_port};
  agent.token = order.token;
  agent.node = order.node;
  agent.num_ranks = order.num_ranks;
  agent.host = order.host;
  agent.command = std::move(order.command);
  if (!agent.command.empty() && agent.command.front().empty()) agent.command.front() = this_executable();
  agent.prefix = order.prefix;
  agent.host_timeout_s = order.host_timeout_s;
  agent.join_timeout_s = kReach_s;
  agent.lifeline = lifeline.get();
  std::error_code error;
  std::filesystem::current_path(order.folder, error);
  if (error) {
    agent.problem = fmt::format("cannot enter the folder {} there: {}; start weft in a folder that all hosts have",
                                order.folder, error.message());
  }
  survive(SIGPIPE);
  return run_agent(agent).status;  // the starter prints the reason
}

}  // namespace

void add_agent(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("agent", "Run one host's part of weft run --hosts");
  command->group("");  // not started by hand
  command->callback([&status] { status = follow_order(); });
}

}  // namespace weft
