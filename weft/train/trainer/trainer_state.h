// TrainerState: what a Trainer is made of on one rank, for the files that implement it: model, optimizer, engine and groups,
// once started, and what steps change beside them.
#pragma once

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/batch_sizes.h"
#include "weft/base/error.h"
#include "weft/comm/mesh.h"
#include "weft/engine/engine.h"
#include "weft/nn/model.h"
#include "weft/optim/optimizer.h"
#include "weft/train/save/background_save.h"
#include "weft/train/save/staging.h"
#include "weft/train/trainer/attempts.h"
#include "weft/train/trainer/checkpoint_options.h"
#include "weft/train/trainer/out_of_memory.h"
#include "weft/train/trainer/rank_groups.h"
#include "weft/train/trainer/step_updater.h"
#include "weft/train/trainer/thread_state.h"
#include "weft/train/trainer/trainer_options.h"

namespace weft {

/// What LibTorch throws has a stack trace below its first line, and says nothing of where in a training it was.
template <class Call>
auto as_error(const std::string& what, const Call& call) {
  try {
    return call();
  } catch (const c10::Error& error) {
    throw Error(fmt::format("{}: {}", what, error.what_without_backtrace()));
  }
}

/// A rank's trainer.
struct TrainerState {
  TrainerState(const Mesh& mesh, Model model, const OptimizerOptions& optimizer, const TrainerOptions& options)
      : mesh(mesh),
        pending(std::move(model)),
        optimizer(optimizer),
        options(options),
        batches(options.global_batch, options.ramp) {}

  void start();
  /// The programs of all phases, that of the last first.
  void plan();
  /// Sees to it that the engine is in the phase of the step that is due.
  void enter_phase();
  const Program& current() const { return *programs[batches.phase_at(steps_done)]; }  ///< of the step that is due
  int64_t samples_done() const { return batches.samples_before(steps_done) + shift; }
  void check_still_frozen() const;
  /// Throws InputError where a step or an evaluation would compute otherwise than those before: autocast, settings of kernels
  /// that are others than at the start, and parameters of modules that were changed since. Leaves nothing behind.
  void check_caller() const;
  ~TrainerState() {
    if (attempts.failed() || std::uncaught_exceptions() > 0) saving.abandon();
  }
  bool measures_noise() const { return options.noise_scale && has_small_batches(options.global_batch, options.micro_batch); }
  /// The average of a block, where one is kept, begins as its weights are.
  void start_average(int block, std::vector<at::Tensor>& state) const;
  /// Exchanges the weights that this rank owns and their average. Engine::gather_whole() must follow.
  void exchange_average();
  /// Throws InputError while the average stands in for the weights: `what` is of the weights.
  void expect_weights(const char* what) const;
  StepCounts counts(int phase) const;
  Votes own_votes();
  std::shared_ptr<const Program> plan_phase(const ModelCost& cost, int phase,
                                            const std::shared_ptr<const Program>& given) const;
  bool reproducible() const { return options.reproducible_slots > 0; }
  int batch_pieces() const { return batch_pieces_of(options.layout.sync_batch_norm, options.reproducible_slots, data_ranks); }

  Mesh mesh;
  std::optional<Model> pending;  ///< until start() binds it
  OptimizerOptions optimizer;
  TrainerOptions options;
  BatchSizes batches;
  RankGroups groups;
  int data_ranks = 1;
  int data_rank = 0;
  int rank = 0;  ///< in the program
  int64_t steps_done = 0;
  int64_t shift = 0;  ///< samples that were trained on beyond those of so many steps of these sizes: in a run before
  std::shared_ptr<const Program> program;  ///< of the last phase, which is the largest: what all memory is laid out for
  std::vector<std::shared_ptr<const Program>> programs;  ///< by phase, that one too
  int phase = 0;                                         ///< that the engine is in
  int64_t engine_shift = 0;                              ///< the shift that it knows of
  std::vector<uint64_t> parameters;                      ///< by block, when the trainer was made: their fingerprints
  bool has_compared = false;            ///< the first micro-batch of steps, with those of ranks that share its samples
  bool has_compared_evaluated = false;  ///< the same of evaluations
  bool has_trained = false;             ///< any parameter that is trained
  bool average_stands_in = false;       ///< for the weights: with_average()
  std::unique_ptr<FlatModel> model;
  std::unique_ptr<StepUpdater> updater;
  std::unique_ptr<Engine> engine;
  std::map<std::string, RegisteredState> registered;
  std::string half_loaded;  ///< why loading a checkpoint failed, until one is loaded; empty: the state is whole
  Attempts attempts;
  int threads = 0;                       ///< that it computes with: those of the thread that started it; 0: none has yet
  KernelSettings settings;               ///< at the start
  OwnThreadState* own_thread = nullptr;  ///< of the call under way, the innermost
  std::optional<int> next_copy;          ///< that the next snapshot makes
  Staging staging;
  BackgroundSave saving;  ///< after what it reads

  /// call() in the trainer's own thread state; what LibTorch throws as Error.
  template <class Call>
  auto in_own_thread(const std::string& what, const Call& call) {
    if (threads == 0) threads = num_threads();
    OwnThreadState own(options.communication.device, threads);
    struct Innermost {  // a caller's function may call the trainer again
      OwnThreadState*& place;
      OwnThreadState* before;
      ~Innermost() { place = before; }
    } const innermost{own_thread, std::exchange(own_thread, &own)};
    return as_error(what, call);
  }

  /// The same, unless an earlier one has failed.
  template <class Call>
  auto attempt(const std::string& what, const Call& call) {
    if (!half_loaded.empty()) {
      throw Error(
          fmt::format("trainer: loading a checkpoint failed ({}); load one that is whole, or make a new trainer", half_loaded));
    }
    return attempts.run(what, [&] { return in_own_thread(what, [&] { return explain_memory(*program, call); }); });
  }
};

}  // namespace weft
