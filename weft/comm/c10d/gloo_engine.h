// GlooEngine: c10d's Gloo, connected for one group, whose connections can be closed from outside.
#pragma once

#include <set>
#include <string>

// LibTorch is built with Gloo; its header shows that only where this is defined, as in LibTorch's own build.
#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO
#endif
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "weft/base/deadline.h"
#include "weft/comm/call/backend.h"

namespace weft {

class GlooEngine : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;

  /// Connects the group's ranks: over the loopback interface where they share a host, else over GLOO_SOCKET_IFNAME or the
  /// host's own address.
  static c10::intrusive_ptr<GlooEngine> connect(const GroupPlan& plan);

  /// Ends whatever is under way, so that nothing waits for its time-out.
  void close();

  /// Waits until the other hosts have all that was sent to them, before the engine goes: Gloo closes its connections so that
  /// the system throws away what it still had to send (SO_LINGER of 0 s), while a send is done for Gloo once the system has it.
  /// On a slow link peers would lose the end of the last call.
  void wait_until_sent(const Deadline& deadline) const;

 private:
  std::set<int> sockets_;  ///< to other hosts
};

/// The first line of an error's text, which may go on with a stack trace.
std::string first_line_of(const char* text);

}  // namespace weft
