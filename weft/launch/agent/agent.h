// Agent: starts and watches the ranks of one host for the head of a run (launch/agent/head.h), which it joins over TCP.
//
// It decides nothing: what becomes of its ranks goes to the head, which tells it what to start and which signals to send. Its
// ranks end with it (launch/guardian.h), and it ends them when it hears nothing of the head any more. Signals to it go to the
// head, so that all hosts end together.
#pragma once

#include "weft/launch/agent/agent_options.h"
#include "weft/launch/launch_options.h"

namespace weft {

/// Runs until the head says how the run has ended: the outcome is that. Throws Error where the head is not found in time, does
/// not let this host in, or is lost.
LaunchOutcome run_agent(const AgentOptions& options);

}  // namespace weft
