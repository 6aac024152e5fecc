// HealthServer: answers over HTTP how a run is: GET /healthz for whoever decides whether it lives, GET /metrics for Prometheus.
#pragma once

#include <memory>
#include <string>

#include "weft/launch/run_status.h"

namespace weft {

/// Where a run's health is told.
struct HealthOptions {
  int port = 0;                       ///< 0: nowhere
  std::string address = "127.0.0.1";  ///< of the interface to listen on
  double stalled_s = 0.0;             ///< a run without a step for longer is not healthy; 0: it always is
};

/// What /healthz says, and whether it is well: "ok: running, 4 ranks, step 12, ..."
struct HealthAnswer {
  bool well = true;
  std::string text;
};
HealthAnswer health_answer(const RunView& run, double stalled_s, int64_t now_ns);

/// What /metrics says, in Prometheus' text format.
std::string metrics_text(const RunView& run, int64_t now_ns);

/// Answers while it lives, from threads of its own.
class HealthServer {
 public:
  /// Throws InputError where the port cannot be had. `status` outlives it.
  HealthServer(const HealthOptions& options, const RunStatus& status);
  ~HealthServer();
  HealthServer(const HealthServer&) = delete;
  HealthServer& operator=(const HealthServer&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
