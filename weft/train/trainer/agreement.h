// Agreement: all ranks are about to train the same thing in the same way.
//
// Ranks that were started with different recipes (a file on each host, say) would wait for one another in different places, or,
// worse, train on and drift apart. So before anything else each compares what it is about to do with what rank 0 is, and none
// goes on before all agree. Costs two reads and a write in the store on every rank, and a read for every rank on rank 0.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/comm/world.h"
#include "weft/nn/model.h"
#include "weft/optim/optimizer.h"
#include "weft/program/program.h"
#include "weft/train/trainer/trainer_options.h"

namespace weft {

/// A number for each block, of what its parameters are: name, shape, first values' rule, and whether each is trained, decays or
/// is a statistic.
std::vector<uint64_t> parameter_fingerprints(const Model& model);

/// Lines, one for each thing that must be alike on all ranks: "micro-batches: 4 a rank, in 2 slots". Of the programs of all
/// phases of the batch, the last one's last.
std::string agreement_text(const std::vector<std::shared_ptr<const Program>>& programs, const Model& model,
                           const TrainerOptions& options, const OptimizerOptions& optimizer);

/// Compares `plan`, such lines, with rank 0's. Collective over the world. On a rank whose lines are not those of rank 0, throws
/// InputError that names both ranks and the lines that differ; on all others CommError with the same text, and where a rank
/// does not come within `timeout` CommError that names it.
void check_agreement(const World& world, const std::string& plan, std::chrono::milliseconds timeout);

}  // namespace weft
