// What is answered to whoever asks how a run is: weft/cli/health/health_server.h serves it.
#pragma once

#include <cstdint>
#include <string>

#include "weft/launch/run_status.h"

namespace weft {

/// What is asked.
enum class HealthQuestion {
  ready,  ///< /healthz: do ranks run, and get on
  alive,  ///< /livez: the same, but a run that waits for hosts, or starts ranks again, lives: ending it would help nobody
};

/// What is answered, and whether it is well: "ok: running, 4 ranks, 12 steps done"
struct HealthAnswer {
  bool well = true;
  std::string text;
};
/// `stalled_s`: ranks that run without a step for longer are not well; 0: they always are. `now_ns`: CLOCK_MONOTONIC.
HealthAnswer health_answer(const RunView& run, HealthQuestion question, double stalled_s, int64_t now_ns);

/// By which the runs of one Prometheus are told apart; each is a label of every metric.
struct HealthLabels {
  std::string run;   ///< the recipe's name, or the program's
  std::string host;  ///< that answers
  std::string job;   ///< of a cluster; empty: none
};

/// What /metrics says, in Prometheus' text format
/// (https://prometheus.io/docs/instrumenting/exposition_formats/).
std::string metrics_text(const RunView& run, const HealthLabels& labels, int64_t now_ns);

}  // namespace weft
