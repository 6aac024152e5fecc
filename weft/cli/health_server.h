// HealthServer: answers over HTTP how a run is: GET /livez for whoever ends what does not live, GET /healthz for whoever wants
// to know whether ranks run, GET /metrics for Prometheus.
#pragma once

#include <memory>
#include <string>

#include "weft/launch/run_status.h"

namespace weft {

/// Where a run's health is told.
struct HealthOptions {
  int port = 0;                       ///< 0: nowhere
  std::string address = "127.0.0.1";  ///< of the interface to listen on
  double stalled_s = 0.0;             ///< ranks that run without a step for longer are not well; 0: they always are
};

/// What is asked.
enum class HealthQuestion {
  ready,  ///< /healthz: do ranks run, and get on
  alive,  ///< /livez: the same, but a run that waits for hosts, or starts ranks again, lives: ending it would help nobody
};

/// What is answered, and whether it is well: "ok: running, 4 ranks, step 12, ..."
struct HealthAnswer {
  bool well = true;
  std::string text;
};
HealthAnswer health_answer(const RunView& run, HealthQuestion question, double stalled_s, int64_t now_ns);

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
