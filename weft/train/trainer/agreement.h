// Agreement: checks that all ranks are about to train the same thing in the same way.
//
// Ranks started with different recipes (such as each host's own file) would wait for each other in different places or, worse,
// train on and drift apart. So each first compares its plan with rank 0's, and no rank starts before all agree. Costs two reads
// and a write in the store on every rank, and one read per rank on rank 0.
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

/// One number per block that identifies its parameters: name, shape, initial-value rule, and whether each is trained, decays or
/// is a statistic.
std::vector<uint64_t> parameter_fingerprints(const Model& model);

/// Lines for everything that must match on all ranks: "micro-batches: 4 per rank, in 2 slots". `programs` has one program per
/// phase of the batch ramp, the last phase's last.
std::string agreement_text(const std::vector<std::shared_ptr<const Program>>& programs, const Model& model,
                           const TrainerOptions& options, const OptimizerOptions& optimizer);

/// Compares such lines, `plan`, with rank 0's. Collective over the world. On a rank whose lines differ, throws InputError with
/// both ranks and the differing lines; on all others CommError with the same text, and if a rank does not arrive within
/// `timeout`, CommError that names it.
void check_agreement(const World& world, const std::string& plan, std::chrono::milliseconds timeout);

}  // namespace weft
