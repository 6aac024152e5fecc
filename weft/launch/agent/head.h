// Head: the one process that leads a run over several hosts. Their agents (launch/agent/agent.h) join it over TCP; it tells
// them which ranks to start, hears what becomes of those, and notices when a host is gone.
//
// Ranks are numbered host by host, in the order of the nodes' numbers. A node whose agent is lost may be taken by another agent
// that joins with its number. One thread, which must call receive() several times a second while the head lives: agents that
// hear nothing give it up.
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

/// Starts agents on other hosts, where they do not come by themselves.
class AgentStarter {
 public:
  virtual ~AgentStarter() = default;
  AgentStarter(const AgentStarter&) = delete;
  AgentStarter& operator=(const AgentStarter&) = delete;
  /// Starts the agent of a node. One that is being started already is let be.
  virtual void start(int node) = 0;
  /// Why the agent of that node will not come, one line; empty: it still may.
  virtual std::string failure(int node) = 0;
  /// The agent of that node is lost: ends what is left of it here.
  virtual void lost(int node) = 0;
  /// The agents have been told to end: waits a moment until they have, then ends what is left.
  virtual void finish() = 0;
  /// Adds what to poll for, to ask for failures then.
  virtual void add_descriptors(std::vector<pollfd>& all) const = 0;

 protected:
  AgentStarter() = default;
};

/// What a head is told.
struct HeadOptions {
  std::string token = {};                             ///< that agents must prove to know; empty: none
  int least_nodes = 1;                                ///< that a launch may be made on
  int most_nodes = 1;                                 ///< that there may be
  int own_node = -1;                                  ///< this host's number, whose ranks need no agent; -1: it has none
  int own_ranks = 0;                                  ///< its ranks
  std::string own_name = {};                          ///< its name in errors
  std::string own_address = {};                       ///< what other hosts reach it by, for MASTER_ADDR
  std::vector<std::string> names = {};                ///< of nodes, where they are known beforehand
  double host_timeout_s = 10.0;                       ///< a host that is silent for longer is gone
  double join_timeout_s = 300.0;                      ///< how long hosts that are missing are waited for
  AgentStarter* starter = nullptr;                    ///< null: agents come by themselves
  RunStatus* status = nullptr;                        ///< told of hosts
  std::function<void(const std::string&)> tell = {};  ///< a line on what comes and goes
};

/// The hosts of a run, as their head sees them.
class Head : public Hosts {
 public:
  /// `socket` listens (launch/agent/sockets.h).
  Head(FileDescriptor socket, HeadOptions options);
  /// finish(), where that was not called.
  ~Head() override;

  StartedRanks start(const LaunchOptions& options, const sigset_t& mask) override;
  void add_descriptors(std::vector<pollfd>& all) const override;
  void receive() override;
  std::vector<HostSignal> signals() override;
  int capacity() const override;
  int least_capacity() const override;
  int gather(SignalWatch& signals, const std::function<std::optional<bool>(int capacity)>& enough) override;

  /// Called once the launches are over. Tells the agents how the run has ended, which they end with, also those that join only
  /// now, and waits until they have gone, for a few seconds at most.
  void finish(int status, const std::string& line);

 private:
  struct Node {
    std::string name;
    int num_ranks = 0;
    int free_port = 0;
    std::string shares_as, system;           ///< by what its ranks tell who shares memory, and what says whether that is so
    std::shared_ptr<AgentConnection> agent;  ///< null: none has joined, or it is lost
    RemoteRanks* ranks = nullptr;            ///< of the launch that runs
    int64_t failed_ns = 0;                   ///< when what started its agent was seen to have ended; 0: it was not
    bool tells_nothing = false;              ///< and that this was told
  };
  struct Newcomer {
    std::shared_ptr<AgentConnection> connection;
    std::string nonce;
  };
  struct Refusal {
    std::string why;
    bool again = false;  ///< who is refused may come again, as a pod in the place of one that is just going
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
  std::string told_apart(size_t number) const;
  void hear(size_t number);
  void lose(size_t number, const std::string& why);
  void tell_end(AgentConnection& agent) const;
  void call_agents();
  void tell_steps() const;
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
  std::set<std::string> refusals_;  ///< that were told
  std::vector<HostSignal> signals_;
  RunBoard* board_ = nullptr;  ///< of the launch that runs
  size_t first_node_ = 0;      ///< where its rank 0 is
  int64_t launch_ = 0;
  int64_t call_ns_ = 0;  ///< when agents that are missing were started last
  bool has_gathered_ = false, has_finished_ = false;
  int end_status_ = 0;    ///< once it has finished
  std::string end_line_;  ///< and what it says
};

}  // namespace weft
