// RankHealth: answers how a run is (weft/cli/health/health_server.h) from within a rank, where weft's launcher did not start
// it: alone, or in the world of a cluster's.
#pragma once

#include <cstdint>
#include <optional>

#include "weft/cli/health/health_server.h"
#include "weft/comm/world.h"
#include "weft/launch/run_status.h"

namespace weft {

/// Serves on the first rank of each host while it lives; on the others it does nothing.
class RankHealth {
 public:
  /// Throws InputError where the port cannot be had.
  RankHealth(const HealthOptions& options, const World& world) {
    if (options.port == 0 || world.local_rank() != 0) return;
    server_.emplace(options, status_);
    status_.set_local_ranks(world.local_size());
    status_.set_running(world.size());
  }
  void set_steps(int64_t steps_done) { status_.set_steps(steps_done); }

 private:
  RunStatus status_;
  std::optional<HealthServer> server_;  ///< reads status_
};

}  // namespace weft
