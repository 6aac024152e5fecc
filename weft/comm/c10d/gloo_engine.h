// GlooEngine: c10d's Gloo, connected for one group, with connections that can be closed from outside.
#pragma once

#include <optional>
#include <set>
#include <string>

// LibTorch is built with Gloo; its header shows it only if this macro is defined, as in LibTorch's own build.
#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO
#endif
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "weft/base/deadline.h"
#include "weft/comm/call/backend.h"
#include "weft/comm/store/store_errors.h"

namespace weft {

class GlooEngine : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;

  /// Connects the group's ranks: over the loopback interface if they share a host, else over GLOO_SOCKET_IFNAME or the host's
  /// own address.
  static c10::intrusive_ptr<GlooEngine> connect(const GroupPlan& plan);

  /// Ends operations in flight, so that no wait lasts until its timeout.
  void close();

  /// Returns a rank whose process has closed its connection. Sends each rank a byte that nobody takes: call it seldom.
  std::optional<int> closed_peer();

  /// Waits until the other hosts have received all data. Gloo's connections close with SO_LINGER of 0 s, which discards unsent
  /// data, yet Gloo considers a send done once the system has it. Without this, peers on a slow link would lose the end of the
  /// last call.
  void wait_until_sent(const Deadline& deadline) const;

 private:
  std::set<int> sockets_;  ///< connections to other hosts
};

/// The failure of this rank, which waits (`wait`) for a position that has closed its connection.
GroupFailure closed_connection(const Axis& axis, int peer, const std::string& wait);

/// Returns the first line of an error's text, which may continue with a stack trace.
std::string first_line_of(const char* text);

}  // namespace weft
