// HealthServer: answers over HTTP how a run is: GET /livez for whoever ends what does not live, GET /healthz for whoever wants
// to know whether ranks run, GET /metrics for Prometheus.
#pragma once

#include <memory>
#include <string>

#include "weft/cli/health/health_text.h"
#include "weft/launch/run_status.h"

namespace weft {

/// Where a run's health is told.
struct HealthOptions {
  int port = 0;                       ///< 0: nowhere
  std::string address = "127.0.0.1";  ///< of the interface to listen on
  double stalled_s = 0.0;             ///< health_answer()'s
  std::string run = {};               ///< HealthLabels::run
};

/// Answers while it lives, from a thread of its own: each connection one request, within two seconds.
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
