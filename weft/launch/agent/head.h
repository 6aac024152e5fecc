// Head: the process that leads a run over several hosts. Their agents (launch/agent/agent.h) join it over TCP; it orders them
// to start ranks, receives the outcomes, and detects lost hosts.
//
// Ranks are numbered host by host, in the order of node numbers. If a node's agent is lost, another agent that joins with its
// number may take its place. Single-threaded; call receive() several times per second while the head lives, or agents will
// consider it lost.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "weft/base/file_descriptor.h"
#include "weft/base/newcomers.h"
#include "weft/launch/agent/connection.h"
#include "weft/launch/agent/remote_ranks.h"
#include "weft/launch/hosts.h"

namespace weft {

class RunBoard;
class RunStatus;

/// Starts agents on other hosts, unless something else starts them.
class AgentStarter {
 public:
  virtual ~AgentStarter() = default;
  AgentStarter(const AgentStarter&) = delete;
  AgentStarter& operator=(const AgentStarter&) = delete;
  /// Starts the agent of a node. No effect if it is already being started.
  virtual void start(int node) = 0;
  /// Returns why the agent of that node will not come, in one line; empty: it may still come.
  virtual std::string failure(int node) = 0;
  /// Ends what is left on this host of that node's lost agent.
  virtual void lost(int node) = 0;
  /// Call after the agents were ordered to end: waits briefly for them, then ends what is left.
  virtual void finish() = 0;
  /// Adds descriptors to poll; afterwards check failure().
  virtual void add_descriptors(std::vector<pollfd>& all) const = 0;

 protected:
  AgentStarter() = default;
};

/// Options of a head.
struct HeadOptions {
  std::string token = {};                               ///< secret that agents must prove to know; empty: no secret
  int least_nodes = 1;                                  ///< fewest nodes that a launch may use
  int most_nodes = 1;                                   ///< most nodes that a run may have
  int own_node = -1;                                    ///< this host's node; its ranks need no agent; -1: it has no ranks
  int own_ranks = 0;                                    ///< number of its ranks
  std::string own_name = {};                            ///< its name in errors
  std::string own_address = {};                         ///< address at which other hosts reach it, for MASTER_ADDR
  std::vector<std::string> names = {};                  ///< names of the nodes, if known in advance
  double host_timeout_s = 10.0;                         ///< silence after which a host counts as lost
  double join_timeout_s = 300.0;                        ///< how long to wait for missing hosts
  AgentStarter* starter = nullptr;                      ///< null: something else starts the agents
  RunStatus* status = nullptr;                          ///< receives the state of hosts
  std::function<void(const std::string&)> report = {};  ///< receives a line for each host that joins or leaves
};

/// The hosts of a run, as seen by their head.
class Head : public Hosts {
 public:
  /// `socket` listens (launch/agent/sockets.h).
  Head(FileDescriptor socket, HeadOptions options);
  /// Calls finish() unless it was called.
  ~Head() override;

  StartedRanks start(const LaunchOptions& options, const sigset_t& mask) override;
  void add_descriptors(std::vector<pollfd>& all) const override;
  void receive() override;
  std::vector<HostSignal> signals() override;
  int capacity() const override;
  int least_capacity() const override;
  int gather(SignalWatch& signals, const std::function<std::optional<bool>(int capacity)>& enough) override;

  /// Call after the last launch. Reports the run's outcome to the agents, including those that join only now, and waits a few
  /// seconds at most until they have left.
  void finish(int status, const std::string& line);

 private:
  struct Node {
    std::string name;
    int num_ranks = 0;
    int free_port = 0;
    std::string shares_as, system;           ///< name under which its ranks share memory, and its system's identity
    std::shared_ptr<AgentConnection> agent;  ///< null: not joined, or lost
    RemoteRanks* ranks = nullptr;            ///< ranks of the current launch
    int64_t failed_ns = 0;                   ///< when its agent's starter was seen to have ended; 0: not seen
    bool output_lost = false;                ///< its ranks' output is no longer read, which was reported
  };
  struct Newcomer {
    std::shared_ptr<AgentConnection> connection;
    std::string nonce;
  };
  struct Refusal {
    std::string why;
    bool again = false;  ///< may be retried, e.g. by a pod that replaces one that is just leaving
  };
  struct Join;
  class Part;

  bool is_there(size_t node) const;
  void greet();
  void hear_newcomers();
  bool is_done(const Newcomer& newcomer);
  void admit(const Newcomer& newcomer, const nlohmann::json& message);
  void forget(uint64_t newcomer);
  std::string proof(const char* side, const Newcomer& newcomer, const nlohmann::json& message) const;
  std::string distrust(const Newcomer& newcomer, const nlohmann::json& message) const;
  std::optional<Refusal> objection(const Join& join) const;
  void take_place(const Newcomer& newcomer, const Join& join);
  std::string name_apart(size_t number);
  void refuse(const Newcomer& newcomer, const Refusal& refusal);
  std::string distinct_name(size_t number) const;
  void hear(size_t number);
  void lose(size_t number, const std::string& why);
  void send_end(AgentConnection& agent) const;
  void call_agents();
  void send_steps() const;
  void watch_output(size_t number, const std::string& failure);
  std::vector<int> spread(int ranks) const;
  std::string missing() const;
  void show();

  FileDescriptor socket_;
  HeadOptions options_;
  std::vector<Node> nodes_;
  std::map<uint64_t, Newcomer> newcomers_;  ///< by their numbers in unproven_
  Newcomers unproven_;
  uint64_t next_newcomer_ = 0;
  std::set<std::string> refusals_;  ///< lines already reported
  std::vector<HostSignal> signals_;
  RunBoard* board_ = nullptr;  ///< of the current launch
  size_t first_node_ = 0;      ///< node of that launch's rank 0
  int64_t launch_ = 0;
  int64_t call_ns_ = 0;  ///< when missing agents were last started
  bool has_gathered_ = false, has_finished_ = false;
  int end_status_ = 0;    ///< after finish()
  std::string end_line_;  ///< and its error line
};

}  // namespace weft
