// AgentConnection: messages between the head of a run and the agent of a host: JSON objects, one per line, over TCP.
//
// Each message has a "kind". Times are sent as ages, so hosts' clocks need not agree. Each side sends a "beat" after half a
// second without another message; a side that is silent for longer than the host timeout is considered lost. A peer that does
// not prove that it knows the job's token (base/token.h) is disconnected and learns nothing. docs/hosts.md lists the messages.
#pragma once

#include <poll.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "weft/base/file_descriptor.h"

namespace weft {

inline constexpr int kAgentProtocol = 1;  ///< message protocol version; a different one is rejected

/// Names of the two sides in proofs of the token.
inline constexpr const char* kAgentSide = "agent";
inline constexpr const char* kHeadSide = "head";
/// token_proof() of a side (base/token.h), in hexadecimal digits. Each proof is valid only for this connection's two nonces.
std::string agent_proof(const std::string& token, const std::string& side, const std::string& head_nonce,
                        const std::string& agent_nonce);

/// One end of a connection. Never blocks.
class AgentConnection {
 public:
  /// Takes ownership of a non-blocking socket.
  explicit AgentConnection(FileDescriptor socket);

  /// Sends a message, or as much of it as the system accepts now; receive() sends the rest.
  void send(const nlohmann::json& message);
  /// Receives messages, sends unsent data, and a "beat" if one is due. The other side's beats are not returned; steps() has
  /// their content. Once closed(), no more messages arrive. Returns at most `most` messages, so that another reader can take
  /// the rest.
  std::vector<nlohmann::json> receive(size_t most = SIZE_MAX);
  /// Returns true if the connection has ended; why() gives the reason.
  bool closed() const { return !why_.empty(); }
  const std::string& why() const { return why_; }
  /// Closes the connection.
  void close(const std::string& why);

  void add_descriptors(std::vector<pollfd>& all) const;
  /// Time of the last message; CLOCK_MONOTONIC.
  int64_t heard_ns() const { return heard_ns_; }
  double silent_s() const;
  /// Numeric address of the other side.
  const std::string& address() const { return address_; }

  /// Content of this side's beats: the run's completed steps, as reported by the ranks of that launch.
  void set_steps(int64_t steps, int64_t launch);
  /// Sends a beat now, before messages that depend on it.
  void beat();
  /// Content of the other side's beats; 0 before the first launch.
  int64_t steps() const { return steps_; }
  int64_t steps_launch() const { return steps_launch_; }
  /// Returns true if the system has accepted everything to be sent.
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
