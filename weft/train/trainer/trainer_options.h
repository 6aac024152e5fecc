// TrainerOptions: how a Trainer trains.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/batch_sizes.h"
#include "weft/comm/call/group_options.h"
#include "weft/data/dataset.h"
#include "weft/engine/finding.h"
#include "weft/engine/memory_ledger.h"
#include "weft/engine/votes.h"
#include "weft/optim/learning_rate.h"
#include "weft/optim/parameter_rule.h"
#include "weft/optim/weight_average.h"
#include "weft/plan/layout/layout.h"
#include "weft/program/program.h"

namespace weft {

class EvidenceWriter;

/// Options of a Trainer.
struct TrainerOptions {
  int64_t global_batch = 1;                 ///< samples per step, over all ranks
  BatchRamp ramp = {};                      ///< earlier steps with smaller batches, in the same micro-batches
  int64_t micro_batch = 1;                  ///< samples per forward; must divide each rank's share
  LearningRate learning_rate = {};          ///< default: constant at the optimizer's lr
  std::vector<RatePhase> rate_phases = {};  ///< earlier peak rates, for a batch ramp
  ParameterRules parameters = {};           ///< by name: other rates and decays, frozen ones
  WeightAverage average = {};               ///< of the weights, for Trainer::with_average(); default: none
  double clip = 0.0;                        ///< largest global gradient norm; 0: no clipping
  uint64_t seed = 1;                        ///< for weights and dropout
  int reproducible_slots = 0;               ///< 0: off; a power of two: the same bits for any number of ranks that divides it
  int reproducible_tp = 0;                  ///< 0: off; a power of two: the same bits for any mesh whose tp divides it
  bool noise_scale = false;   ///< measures inputs of NoiseScale (noise_scale.h); needs at least two micro-batches per step
  int64_t bucket_bytes = 0;   ///< gradients are reduced in ranges of about this size; 0: as automatic_bucket_bytes() says
  LayoutOptions layout = {};  ///< sharding, recompute, offloading, and dtypes
  /// A program for this model, mesh and options; default: the trainer makes its own.
  std::shared_ptr<const Program> program = {};
  std::vector<std::shared_ptr<const Program>> ramp_programs = {};  ///< with `program`: one for each phase of the ramp
  bool program_is_verified = false;  ///< these have passed verify(), as in a Plan, and are not verified again
  bool graph = false;                ///< on a GPU: steps are captured as a graph, after two, and replayed (Engine::use_graph())
  bool float32_rates =
      false;                ///< learning rates are rounded to float32, as `graph` does: for a run of the same bits without it
  int64_t audit_every = 0;  ///< steps between audits (audit.h); 0: none
  int64_t histograms_every = 0;     ///< steps whose gradients are kept for parameter_histograms(); 0: none; not with `graph`
  Votes votes = {};                 ///< values that ranks exchange with the losses of each step: StepResult::votes
  GroupOptions communication = {};  ///< for all groups, and the rank's compute device
  MemoryLedger* ledger = nullptr;   ///< counts this rank's memory by category
  /// Says where this rank stands if the ranks hang (train/stopped/evidence.h); null: nothing does.
  std::shared_ptr<EvidenceWriter> evidence = {};
  /// "sample 77123 of the data": the sample at a position of the run, for a NaN's finding; empty: its position is told.
  std::function<std::string(int64_t position)> sample_name = {};
  /// Called on all ranks once a step was repeated, before its error is thrown, with this rank's micro-batches: the state is
  /// that before the step, and the trainer can still save. Returns what to add to the error's text.
  std::function<std::string(const BadStep& bad, const std::vector<Batch>& taken)> on_bad_step = {};
  std::string agreement = {};  ///< further lines that start() requires to be equal on all ranks (agreement.h)
};

}  // namespace weft
