// DataRings: rings of a mesh's data-parallel axes, along which states are sharded and gradients summed.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <tuple>

#include "weft/program/program.h"
#include "weft/program/simulate/hardware.h"
#include "weft/program/simulate/network.h"

namespace weft {

/// Rings of one mesh.
struct DataRings {
  Ring shard = {};                                     ///< ranks that share a replica's state
  Ring inner = {};                                     ///< neighbours that keep weights until backward
  Ring replicas = {};                                  ///< ranks with the same part of the state
  std::array<bool, kNumPorts> overlap = {true, true};  ///< by port: collectives move bytes beside compute
  /// Seconds of a gather or reduce-scatter of `bytes` in total over the shards.
  double over_shards(Op op, int64_t bytes) const;
  /// Seconds of a gather of `bytes` over the inner axis.
  double over_inner(int64_t bytes) const;
  /// Seconds of a sum of `bytes` over the replicas.
  double over_replicas(int64_t bytes) const;
};

/// Rings of a search's meshes. The hardware must outlive them.
class DataRingTable {
 public:
  explicit DataRingTable(const Hardware& hardware) : hardware_(hardware) {}
  /// Returns the rings of a mesh. `sharded`: states are divided over shard; else these ranks are replicas too.
  const DataRings& at(const MeshSizes& mesh, int inner_shards, bool sharded);

 private:
  const Hardware& hardware_;
  std::map<std::tuple<int, int, int, int, int, int, bool>, DataRings> known_;
};

}  // namespace weft
