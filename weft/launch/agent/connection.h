// AgentConnection: messages between the head of a run and the agent of a host: JSON objects, one a line, over TCP.
//
// Each has a "kind". Times are told as ages, so that the clocks of hosts need not agree. Both sides send "beat" when they have
// said nothing for half a second; who is silent for longer than the host time-out is gone, as far as the other can tell.
// Whoever has not proved that it knows the job's token (base/token.h) is told nothing and told to go. docs/hosts.md lists them.
#pragma once

#include <poll.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "weft/base/file_descriptor.h"

namespace weft {

inline constexpr int kAgentProtocol = 1;  ///< of the messages; a side of another is refused

/// How the two sides are called where they prove that they know the token.
inline constexpr const char* kAgentSide = "agent";
inline constexpr const char* kHeadSide = "head";
/// token_proof() of a side (base/token.h), in hexadecimal digits. Each side's holds for this connection's two nonces only.
std::string agent_proof(const std::string& token, const std::string& side, const std::string& head_nonce,
                        const std::string& agent_nonce);

/// One end of a connection. Never blocks.
class AgentConnection {
 public:
  /// Takes a non-blocking socket.
  explicit AgentConnection(FileDescriptor socket);

  /// Sends a message, or as much as the system takes now; the rest goes with receive().
  void send(const nlohmann::json& message);
  /// Takes in what has come and sends what is left, and a "beat" where one is due. Beats of the other side are left out, what
  /// they tell ("steps") is in steps(). Nothing more comes once closed(). No more than `most` messages: whoever reads on is
  /// another.
  std::vector<nlohmann::json> receive(size_t most = SIZE_MAX);
  /// Whether the connection has ended; why() says in which way.
  bool closed() const { return !why_.empty(); }
  const std::string& why() const { return why_; }
  /// Ends it.
  void close(const std::string& why);

  void add_descriptors(std::vector<pollfd>& all) const;
  /// Since something was heard; CLOCK_MONOTONIC.
  int64_t heard_ns() const { return heard_ns_; }
  double silent_s() const;
  /// The numeric address of the other side.
  const std::string& address() const { return address_; }

  /// What this side's beats tell: the steps that are done of a run, as the ranks of that launch say.
  void set_steps(int64_t steps, int64_t launch);
  /// Tells them now, before what depends on it.
  void beat();
  /// What the other side's beats have told; of no launch: 0.
  int64_t steps() const { return steps_; }
  int64_t steps_launch() const { return steps_launch_; }
  /// Whether all that was to be sent has been taken by the system.
  bool is_sent() const { return out_.empty(); }

 private:
  void flush();
  void read_some();
  bool parse(std::vector<nlohmann::json>& messages, size_t most);

  FileDescriptor socket_;
  std::string address_, in_, out_, why_;
  int64_t heard_ns_ = 0, said_ns_ = 0, steps_ = 0, steps_launch_ = 0, own_steps_ = 0, own_launch_ = 0;
};

}  // namespace weft
