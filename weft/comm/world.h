// World: who this process (or test thread) is among all ranks, and the store through which ranks find each other.
//
// A World is a small value that shares its state when copied. Making one waits for all ranks; the launcher serves the
// store, or else rank 0. Size one needs no store and no environment. Nothing is global: two Worlds may live side by side.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft {

class Store;

/// This rank's place among all ranks.
class World {
 public:
  /// A world of one rank.
  World();

  /// The world that RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT tell of, as torchrun and weft's
  /// launcher set them (SLURM's SLURM_PROCID etc. where RANK is unset); one rank where none is set. Throws InputError for a
  /// half-set or contradictory environment and CommError if the ranks do not meet within `timeout`.
  static World from_environment(std::chrono::milliseconds timeout = std::chrono::minutes(5));

  /// A world of `size` threads of this process, for tests: element r is handed to thread r.
  static std::vector<World> threads(int size);
  /// The same, as if rank r ran on the host hosts[r].
  static std::vector<World> threads(const std::vector<std::string>& hosts);

  int rank() const;        ///< this rank's number, from 0
  int size() const;        ///< all ranks
  int local_rank() const;  ///< this rank's number among those of its host, from 0
  int local_size() const;  ///< ranks on its host

  /// Name of the host that `rank` runs on. Ranks with equal names share memory.
  const std::string& host(int rank) const;

  /// The first `size` ranks as a world of their own, under the numbers that they have here; none on the others. Does not
  /// communicate; all ranks call it, in the same order as what else they make together. Throws InputError for a size that is
  /// not between 1 and all ranks.
  std::optional<World> part(int size) const;

  /// Key-value store shared by all ranks, for building groups. Defined in comm/store/store.h; size-one worlds have none.
  Store& store() const;

  /// A part of the store for the next group, the same on all ranks that make their groups in the same order.
  Store next_group_store() const;

 private:
  struct State;
  explicit World(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace weft
