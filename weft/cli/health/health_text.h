// The answers to health requests: weft/cli/health/health_server.h serves them.
#pragma once

#include <cstdint>
#include <string>

#include "weft/launch/run_status.h"

namespace weft {

/// The two health questions.
enum class HealthQuestion {
  ready,  ///< /healthz: do ranks run and make progress?
  alive,  ///< /livez: the same, but a run that waits for hosts or restarts ranks counts as alive: killing it would not help
};

/// The answer text and whether it is good: "ok: running, 4 ranks, 12 steps done".
struct HealthAnswer {
  bool well = true;
  std::string text;
};
/// `stalled_s`: ranks without a step for longer than this are unhealthy; 0: never. `now_ns`: CLOCK_MONOTONIC.
HealthAnswer health_answer(const RunView& run, HealthQuestion question, double stalled_s, int64_t now_ns);

/// Labels of every metric, which distinguish the runs of one Prometheus.
struct HealthLabels {
  std::string run;   ///< the recipe's name, or the program's
  std::string host;  ///< host that answers
  std::string job;   ///< cluster job; empty: outside a cluster
};

/// Text of /metrics, in Prometheus' text format
/// (https://prometheus.io/docs/instrumenting/exposition_formats/).
std::string metrics_text(const RunView& run, const HealthLabels& labels, int64_t now_ns);

}  // namespace weft
