// SshAgents: starts the agents of other hosts through ssh.
//
// ssh checks host keys, asks nothing on the terminal, and forwards neither the ssh agent nor X11. The agent's order, including
// the job's secret, goes to its standard input, so that no command line shows it. Its ranks' output returns as ssh's output.
// Each ssh is a child that ends with this process.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/launch/agent/head.h"
#include "weft/launch/agent/host_places.h"
#include "weft/launch/guardian.h"
#include "weft/launch/process_group.h"

namespace weft {

/// Order of an agent started through ssh, read from its standard input: one line of JSON.
struct AgentOrder {
  std::string token;
  std::string head_host;  ///< empty: the origin of the ssh connection
  int head_port = 0;
  int node = 0;
  int num_ranks = 1;
  std::string host = {};                      ///< name of the agent's host in errors
  std::string folder = {};                    ///< working folder
  std::vector<std::string> command = {};      ///< argv of ranks; an empty first word means weft itself
  std::vector<std::string> environment = {};  ///< "KEY=value"
  bool prefix = false;
  double host_timeout_s = 10.0;
};

/// Formats an order as that line, including the newline. Throws InputError for words, variables or a folder that are not UTF-8.
std::string order_text(const AgentOrder& order);
/// Parses that line. Throws InputError if it is malformed.
AgentOrder parse_order(const std::string& line);

/// Options of SshAgents.
struct SshOptions {
  std::vector<HostPlace> places;     ///< of all nodes
  std::vector<std::string> options;  ///< "Port=2222", as in ssh_config(5); cannot override the restrictions above
  std::string weft;                  ///< path of weft on those hosts
  AgentOrder order = {};             ///< fields that are the same for all agents
};

/// Starts agents through ssh.
class SshAgents : public AgentStarter {
 public:
  explicit SshAgents(SshOptions options);
  void start(int node) override;
  std::string failure(int node) override;
  void lost(int node) override;
  void finish() override;
  void add_descriptors(std::vector<pollfd>& all) const override;

 private:
  struct Process {
    FileDescriptor log;    ///< ssh's own messages
    FileDescriptor order;  ///< the agent's standard input, which closes when this process ends
    std::string failure;   ///< how the last one ended
    std::optional<ProcessGroup> ssh;
  };

  std::vector<std::string> command(const HostPlace& place, const FileDescriptor& log) const;
  std::string why(const Process& process, int wait_status) const;

  SshOptions options_;
  Guardian guardian_;
  std::vector<Process> processes_;  ///< one per node
  bool has_run_ = false;            ///< ssh has run once; if it cannot run later, that is one host's failure
};

}  // namespace weft
