// RankHealth: serves a run's health (weft/cli/health/health_server.h) from within a rank that weft's launcher did not start: a
// rank alone, or one that a cluster started.
#pragma once

#include <cstdint>
#include <optional>

#include "weft/cli/health/health_server.h"
#include "weft/comm/world.h"
#include "weft/launch/run_status.h"

namespace weft {

/// Serves on the first rank of each host while it lives; does nothing on the others.
class RankHealth {
 public:
  /// Throws InputError if the port is not available.
  RankHealth(const HealthOptions& options, const World& world) {
    if (options.port == 0 || world.local_rank() != 0) return;
    server_.emplace(options, status_);
    status_.set_local_ranks(world.local_size());
    status_.set_running(world.size());
  }
  void set_steps(int64_t steps_done) { status_.set_steps(steps_done); }
  void set_figures(const RunFigures& figures) { status_.set_figures(figures); }

 private:
  RunStatus status_;
  std::optional<HealthServer> server_;  ///< reads status_
};

}  // namespace weft
