// SshAgents: starts the agents of other hosts through ssh.
//
// Host keys are checked, nothing is asked of the terminal, neither the ssh agent nor X11 is forwarded. What an agent must know,
// the job's secret too, goes to its standard input, so that no command line shows it. What its ranks write comes back through
// ssh's output. Each ssh is a child that ends with this process.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/launch/agent/head.h"
#include "weft/launch/agent/host_places.h"
#include "weft/launch/guardian.h"
#include "weft/launch/process_group.h"

namespace weft {

/// What an agent that was started through ssh reads from its standard input: one line of JSON.
struct AgentOrder {
  std::string token;
  std::string head_host;  ///< empty: where the ssh connection came from
  int head_port = 0;
  int node = 0;
  int num_ranks = 1;
  std::string host = {};                      ///< its name in errors
  std::string folder = {};                    ///< to work in
  std::vector<std::string> command = {};      ///< argv of ranks; an empty first word stands for weft itself
  std::vector<std::string> environment = {};  ///< "KEY=value"
  bool prefix = false;
  double host_timeout_s = 10.0;
};

/// As that line, its end included. Throws InputError for words, variables or a folder that are not UTF-8.
std::string order_text(const AgentOrder& order);
/// From that line. Throws InputError for what is none.
AgentOrder parse_order(const std::string& line);

/// What SshAgents are told.
struct SshOptions {
  std::vector<HostPlace> places;     ///< of all nodes
  std::vector<std::string> options;  ///< "Port=2222": of ssh_config(5); none that the above forbids has an effect
  std::string weft;                  ///< path of weft on those hosts
  AgentOrder order = {};             ///< what is the same for all
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
    FileDescriptor log;    ///< what ssh itself says
    FileDescriptor order;  ///< the agent's standard input, which ends when this process does
    std::string failure;   ///< how the last one ended
    std::optional<ProcessGroup> ssh;
  };

  std::vector<std::string> command(const HostPlace& place, const FileDescriptor& log) const;
  std::string why(const Process& process, int wait_status) const;

  SshOptions options_;
  Guardian guardian_;
  std::vector<Process> processes_;  ///< of each node
  bool has_run_ = false;            ///< ssh has, once: what keeps it from that later is a host's failure
};

}  // namespace weft
