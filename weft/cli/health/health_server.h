// HealthServer: reports a run's health over HTTP: GET /livez (should the process be restarted?), GET /healthz (do ranks run?),
// GET /metrics for Prometheus.
#pragma once

#include <memory>
#include <string>

#include "weft/cli/health/health_text.h"
#include "weft/launch/run_status.h"

namespace weft {

/// Options of a HealthServer.
struct HealthOptions {
  int port = 0;                       ///< 0: not served
  std::string address = "127.0.0.1";  ///< interface to listen on
  double stalled_s = 0.0;             ///< as in health_answer()
  std::string run = {};               ///< HealthLabels::run
};

/// Answers from its own thread while it lives: one request per connection, within two seconds.
class HealthServer {
 public:
  /// Throws InputError if the port is not available. `status` must outlive it.
  HealthServer(const HealthOptions& options, const RunStatus& status);
  ~HealthServer();
  HealthServer(const HealthServer&) = delete;
  HealthServer& operator=(const HealthServer&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
