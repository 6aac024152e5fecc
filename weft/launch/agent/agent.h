// Agent: joins the head of a run (launch/agent/head.h) over TCP; starts and watches one host's ranks for the head.
//
// It makes no decisions: it reports its ranks to the head, which orders starts and signals. Its ranks end with it
// (launch/guardian.h), and it ends them if it loses the head. Signals to the agent go to the head, so that all hosts end
// together.
#pragma once

#include "weft/launch/agent/agent_options.h"
#include "weft/launch/launch_options.h"

namespace weft {

/// Runs until the head reports how the run ended, and returns that. Throws Error if the head is not found in time, rejects this
/// host, or is lost.
LaunchOutcome run_agent(const AgentOptions& options);

}  // namespace weft
