// World: this process's (or test thread's) rank among all ranks, and the store through which ranks find each other.
//
// A World is a small value whose copies share state. Creating one waits for all ranks; the launcher or, without one, rank 0
// serves the store. A world of size one needs no store and no environment. No state is global: two Worlds may coexist.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft {

class CallLogs;
class Store;
struct DeviceChannels;

/// This rank's place among all ranks.
class World {
 public:
  /// A world of one rank.
  World();

  /// Creates the world from RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as set by torchrun and
  /// weft's launcher (SLURM's SLURM_PROCID etc. if RANK is unset); one rank if no such variable is set. Throws InputError for
  /// an incomplete or contradictory environment and CommError if the ranks do not meet within `timeout`.
  static World from_environment(std::chrono::milliseconds timeout = std::chrono::minutes(5));

  /// Creates the world of a host program that numbers its ranks itself: rank `rank` of `size`, which meet at `address`,
  /// "HOST:PORT", where rank 0 serves the store. Throws InputError for a wrong number or address, and as from_environment().
  static World join(int rank, int size, const std::string& address,
                    std::chrono::milliseconds timeout = std::chrono::minutes(5));

  /// Creates a world of `size` threads of this process, for tests: element r is for thread r.
  static std::vector<World> threads(int size);
  /// The same, with rank r simulated on host hosts[r].
  static std::vector<World> threads(const std::vector<std::string>& hosts);

  int rank() const;        ///< this rank's number, from 0
  int size() const;        ///< number of ranks
  int local_rank() const;  ///< this rank's number on its host, from 0
  int local_size() const;  ///< ranks on its host

  /// Returns the host name of `rank`. Ranks with equal names share memory.
  const std::string& host(int rank) const;

  /// Returns the first `size` ranks, with unchanged numbers, as a separate world; nullopt on the other ranks. Does not
  /// communicate; all ranks call it, in the same order as their other collective operations. Throws InputError unless `size` is
  /// from 1 to this world's size.
  std::optional<World> part(int size) const;

  /// Key-value store of all ranks, for building groups (comm/store/store.h). Throws InputError in a world of one rank.
  Store& store() const;

  /// Connections of this world's groups on devices (comm/call/backend.h).
  const std::shared_ptr<DeviceChannels>& device_channels() const;

  /// Last calls of this world's groups on this rank (comm/call/call_log.h); the same for its parts.
  const std::shared_ptr<CallLogs>& call_logs() const;

  /// Returns the part of the store for the next group, the same on all ranks that create their groups in the same order.
  Store next_group_store() const;

 private:
  struct State;
  explicit World(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace weft
