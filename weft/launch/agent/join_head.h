// Finding and joining the head of a run.
#pragma once

#include <memory>

#include "weft/launch/agent/agent_options.h"
#include "weft/launch/agent/connection.h"
#include "weft/launch/signal_watch.h"

namespace weft {

/// A head that has admitted this host, or the signal that came first.
struct JoinedHead {
  std::unique_ptr<AgentConnection> connection;
  int signal = 0;
};

/// Retries until AgentOptions::join_timeout_s has passed: the head may start later than its agents, and this node's previous
/// agent may still hold its place. Throws Error after the timeout, InputError if the head rejects this host.
JoinedHead join_head(const AgentOptions& options, SignalWatch& signals);

}  // namespace weft
