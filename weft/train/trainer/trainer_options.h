// TrainerOptions: how a Trainer trains.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/batch_sizes.h"
#include "weft/comm/call/group_options.h"
#include "weft/engine/memory_ledger.h"
#include "weft/engine/votes.h"
#include "weft/optim/learning_rate.h"
#include "weft/optim/parameter_rule.h"
#include "weft/optim/weight_average.h"
#include "weft/plan/layout/layout.h"
#include "weft/program/program.h"

namespace weft {

/// What a Trainer does with its model.
struct TrainerOptions {
  int64_t global_batch = 1;                 ///< samples a step, over all ranks
  BatchRamp ramp = {};                      ///< steps with smaller batches before those, in the same micro-batches
  int64_t micro_batch = 1;                  ///< samples a forward; must divide each rank's share
  LearningRate learning_rate = {};          ///< constant at the optimizer's lr unless told
  std::vector<RatePhase> rate_phases = {};  ///< other peaks before, as a ramp of the batch wants
  ParameterRules parameters = {};           ///< by their names: other rates and decays, frozen ones
  WeightAverage average = {};               ///< of the weights, for Trainer::with_average(); none unless told
  double clip = 0.0;                        ///< largest global gradient norm; 0: no clipping
  uint64_t seed = 1;                        ///< of weights and dropout
  int reproducible_slots = 0;               ///< 0: off; a power of two: the same bits for any number of ranks that divides it
  int reproducible_tp = 0;                  ///< 0: off; a power of two: the same bits for any mesh whose tp divides it
  bool noise_scale = false;   ///< steps tell what NoiseScale takes (noise_scale.h); of two micro-batches or more a step
  int64_t bucket_bytes = 0;   ///< gradients are reduced in ranges of about this size; 0: as automatic_bucket_bytes() says
  LayoutOptions layout = {};  ///< what is sharded, recomputed, moved out, and in which types
  /// A program for this model, mesh and options; without one the trainer makes its own.
  std::shared_ptr<const Program> program = {};
  std::vector<std::shared_ptr<const Program>> ramp_programs = {};  ///< with it: one for each phase of the ramp
  bool program_is_verified = false;  ///< verify() has passed these, as it has a Plan's: they are not verified once more
  Votes votes = {};                  ///< what ranks agree on with the losses of each step: StepResult::votes
  GroupOptions communication = {};   ///< of all groups, and the device that the rank computes on
  MemoryLedger* ledger = nullptr;    ///< counts what this rank holds, by category
  std::string agreement = {};        ///< lines that start() finds alike on all ranks or throws, besides its own (agreement.h)
};

}  // namespace weft
