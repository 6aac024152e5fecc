// profile: times of the blocks of a recipe's model on this machine, measured by training steps on all ranks at once.
//
// The ranks train as replicas, each with a few micro-batches of random data, alternating between whole and split backward
// passes; the result is the median per block and direction, averaged over the ranks. So kernels share caches with those of
// other ranks, as in a run. Needs room for the whole model on each rank.
#pragma once

#include "weft/comm/world.h"
#include "weft/program/simulate/hardware.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// Options of a profile.
struct ProfileOptions {
  int rounds = 3;                ///< traced steps of each kind
  int micro_batches = 4;         ///< per step
  bool measures_machine = true;  ///< memory and links too
};

/// Returns hardware with the measured times of a model's blocks, the same on all ranks. Collective over the world. The
/// micro-batch follows from the recipe's layout on this world.
Hardware profile(const Recipe& recipe, const World& world, const ProfileOptions& options = {});

}  // namespace weft
