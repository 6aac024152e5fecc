// profile: what the blocks of a recipe's model take on this machine, measured by training steps on all ranks at once.
//
// The ranks train as replicas, each with a few micro-batches of random data, in turns with whole backwards and with split ones;
// what is kept is the median of each block and direction, averaged over the ranks. So kernels meet caches and neighbours as
// they do in a run. Needs room for the whole model on each rank.
#pragma once

#include "weft/comm/world.h"
#include "weft/program/simulate/hardware.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// How much is measured.
struct ProfileOptions {
  int rounds = 3;         ///< traced steps of each kind
  int micro_batches = 4;  ///< a step
};

/// Measures a model's blocks: hardware with their times, the same on all ranks. Collective over the world. The micro-batch is
/// that of the recipe's layout on this world.
Hardware profile(const Recipe& recipe, const World& world, const ProfileOptions& options = {});

}  // namespace weft
