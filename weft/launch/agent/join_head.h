// How an agent finds the head of its run and is let in.
#pragma once

#include <memory>

#include "weft/launch/agent/agent_options.h"
#include "weft/launch/agent/connection.h"
#include "weft/launch/signal_watch.h"

namespace weft {

/// A head that has let this host in, or the signal that came first.
struct JoinedHead {
  std::unique_ptr<AgentConnection> connection;
  int signal = 0;
};

/// Tries until AgentOptions::join_timeout_s has passed: the head may start later than its agents, and a place may be taken
/// still by an agent that has gone. Throws Error where nothing came of it, InputError where the head refuses this host.
JoinedHead join_head(const AgentOptions& options, SignalWatch& signals);

}  // namespace weft
