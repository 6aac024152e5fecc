// TrainerState: the parts of a Trainer on one rank, once started, and the state that steps change besides them.
#pragma once

#include <fmt/format.h>

#include <deque>
#include <functional>
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
#include "weft/train/trainer/audit.h"
#include "weft/train/trainer/checkpoint_options.h"
#include "weft/train/trainer/kept_gradients.h"
#include "weft/train/trainer/out_of_memory.h"
#include "weft/train/trainer/rank_groups.h"
#include "weft/train/trainer/step_updater.h"
#include "weft/train/trainer/submitted_step.h"
#include "weft/train/trainer/thread_state.h"
#include "weft/train/trainer/torch_error.h"
#include "weft/train/trainer/trainer_options.h"

namespace weft {

/// A rank's trainer.
struct TrainerState {
  TrainerState(const Mesh& mesh, Model model, const OptimizerOptions& optimizer, const TrainerOptions& options)
      : mesh(mesh),
        pending(std::move(model)),
        optimizer(optimizer),
        options(options),
        batches(options.global_batch, options.ramp) {}

  void start();
  void plan();                                           ///< makes the programs of all phases, the last phase's first
  void enter_phase();                                    ///< switches the engine to the phase of the next step
  Batch handed_out(const std::function<Batch()>& next);  ///< next(), which hands_out tells of
  void submit(const std::function<Batch()>& next);       ///< Trainer::submit()
  void begin_audit();                                    ///< before submit(), of an audited step
  [[noreturn]] void repeat(SubmittedStep& failed, const std::string& wrong);
  void read_oldest();  ///< of the steps submitted; waits for its numbers
  void read_all();
  void finish_phase();           ///< before a step is submitted
  void keep_results() noexcept;  ///< after a submit that failed: reads what it can of the steps before
  const Program& current() const { return *programs[batches.phase_at(steps_done)]; }  ///< of the next step
  int64_t samples_done() const { return batches.samples_before(steps_done) + shift; }
  void check_still_frozen() const;
  /// Throws InputError in the middle of a step, in autocast, or if kernel settings or module parameters have changed.
  void check_caller() const;
  ~TrainerState();  ///< abandons saves after a failure
  bool measures_noise() const { return options.noise_scale && has_small_batches(options.global_batch, options.micro_batch); }
  /// Initialises the average of a block, if one is kept, from its weights.
  void start_average(int block, std::vector<at::Tensor>& state) const;
  void exchange_average();  ///< of this rank's share, with the weights; Engine::gather_whole() must follow
  /// Throws InputError while the average is in place of the weights; `what` names the call that needs them.
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
  int64_t shift = 0;                       ///< samples beyond those of steps_done steps of these batch sizes: from earlier runs
  std::shared_ptr<const Program> program;  ///< the last and largest phase's, which lays out all memory
  std::vector<std::shared_ptr<const Program>> programs;  ///< by phase, including that one
  int phase = 0;                                         ///< current phase of the engine
  int64_t engine_shift = 0;                              ///< the shift known to the engine
  std::vector<uint64_t> parameters;                      ///< by block: fingerprints from when the trainer was made
  bool has_compared = false;            ///< has compared the first micro-batch of steps with ranks that share its samples
  bool has_compared_evaluated = false;  ///< the same for evaluations
  bool has_trained = false;             ///< any parameter is trained
  bool average_stands_in = false;       ///< the average is in place of the weights: with_average()
  std::shared_ptr<Uploads> uploads;     ///< on a device
  std::unique_ptr<FlatModel> model;
  std::unique_ptr<StepUpdater> updater;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Audit> audit;  ///< null: none
  KeptGradients kept_gradients;  ///< in steps of TrainerOptions::histograms_every
  std::map<std::string, RegisteredState> registered;
  std::string half_loaded;  ///< why loading a checkpoint failed, until one is loaded; empty: the state is complete
  Attempts attempts{options.evidence};
  std::deque<SubmittedStep> submitted;   ///< oldest first
  std::deque<StepResult> results;        ///< of earlier steps, read and not settled
  double divisor = 1.0;                  ///< StepResult::divisor of the last step read
  int threads = 0;                       ///< threads for computing, as in the thread that started it; 0: not started
  KernelSettings settings;               ///< at the start
  OwnThreadState* own_thread = nullptr;  ///< for the call in progress, the innermost
  bool hands_out = false;                ///< a step asks the caller for a micro-batch
  std::optional<int> next_copy;          ///< RunBoard copy that the next snapshot writes
  Staging staging;
  BackgroundSave saving;  ///< last, after the members it reads

  /// Runs call() in the trainer's own thread state; converts LibTorch's errors to Error.
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

  void expect_between_steps() const;  ///< throws InputError while hands_out
  /// The same, once the results of all steps are read, and unless an earlier call has failed.
  template <class Call>
  auto attempt(const std::string& what, const Call& call) {
    read_all();
    return attempt_beside_steps(what, call);
  }
  /// The same without waiting for steps.
  template <class Call>
  auto attempt_beside_steps(const std::string& what, const Call& call) {
    if (!half_loaded.empty()) {
      throw Error(
          fmt::format("trainer: loading a checkpoint failed ({}); load a complete one, or make a new trainer", half_loaded));
    }
    return attempts.run(what, [&] {
      return in_own_thread(what, [&] { return explain_memory(*program, [&] { return groups.checked(call); }); });
    });
  }
};

}  // namespace weft
