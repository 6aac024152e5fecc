// Trainer: joins model, mesh, data and optimizer. One object per rank; every rank makes the same calls in the same order.
//
// The constructor does not communicate; start() does (it makes the groups, binds the model to flat buffers and draws the
// weights), and the first step calls it. Memory per rank depends on TrainerOptions::layout: docs/memory.md.
//
// After a failed start, step, evaluation or prediction, with any exception, every later call that needs the weights throws a
// one-line Error: they may be half updated. The model's blocks must not be used again either.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/comm/mesh.h"
#include "weft/data/evaluation_loader.h"
#include "weft/data/loader.h"
#include "weft/engine/engine.h"
#include "weft/nn/model.h"
#include "weft/optim/optimizer.h"
#include "weft/program/timed.h"
#include "weft/report/report.h"
#include "weft/train/trainer/audit_report.h"
#include "weft/train/trainer/checkpoint_options.h"
#include "weft/train/trainer/phase_times.h"
#include "weft/train/trainer/predict_options.h"
#include "weft/train/trainer/step_updater.h"
#include "weft/train/trainer/trainer_options.h"

namespace weft {

class RunBoard;
struct TrainerState;

/// Trains a model on the ranks of a mesh.
class Trainer {
 public:
  using Next = std::function<Batch()>;  ///< returns this rank's next micro-batch

  /// Makes or checks the program, without communication. Throws InputError if ranks and micro-batches do not divide the global
  /// batch, if slots or a pipeline schedule do not fit them, if the model cannot be split this way, and for an axis above size
  /// one, except "pp", "dp", "shard", "cp" and "tp": it would be unused.
  Trainer(const Mesh& mesh, Model model, const OptimizerOptions& optimizer, const TrainerOptions& options);
  ~Trainer();

  /// Makes the groups, binds the model and draws the weights, once; methods that need them call it. Collective over the world.
  /// Throws InputError on a rank that would train differently from rank 0 (agreement.h), and CommError on the others.
  void start();

  /// Issues a step over the global batch; `next` returns this rank's micro-batches in order; random numbers depend on it. On a
  /// device the host does not wait for the step's numbers if its updates can do without (Engine::submit()). Throws InputError
  /// for a micro-batch whose tensors have different samples, if there is nothing to train, and if the first micro-batches of
  /// ranks that differ only on "cp" or "tp" are not the same. The micro-batches are kept until the step is settled, as a failed
  /// one is repeated (BadStep): `next` must not refill their tensors. If it fails, settle() still has earlier steps' results.
  void submit(const Next& next);
  void submit(Loader& loader);  ///< the next micro-batches of a loader made with loader_options()
  /// `batch` is this rank's share of global_batch(): samples [r B, (r + 1) B), with r its index among the n ranks of "dp" and
  /// "shard", and B = global batch / n. Ranks that differ only on "pp", "cp" and "tp" have the same. Throws InputError for
  /// another size. On a device the trainer keeps a copy.
  void submit(const Batch& batch);
  /// Returns the result of the oldest step submitted and not settled; waits for its numbers. Throws what was wrong with the
  /// step: it has not updated anything then, nor has any after it. Other calls that need the weights wait for all steps first.
  StepResult settle();
  int64_t unsettled() const;              ///< number of steps submitted and not settled
  bool reads_late() const;                ///< the host does not know the numbers of the last step submitted
  StepResult step(const Next&);           ///< submit(), then settle(); throws InputError while an earlier step is not settled
  StepResult step(Loader&);               ///< the same
  StepResult step(const Batch&);          ///< the same, without the copy
  const AuditReport* last_audit() const;  ///< of the last step that TrainerOptions::audit_every audits; null before the first

  LoaderOptions loader_options() const;  ///< for a Loader of this rank's micro-batches, from the next step on

  /// Evaluates the loader's whole set once, split across the ranks. Collective over the world. Throws InputError for a loader
  /// not made for this rank's share and for a set without counted targets, NumericError for a loss that is not finite.
  EvaluationResult evaluate(EvaluationLoader& loader);
  /// Outputs of the last block for `batch`, of any size, even empty (predict_options.h). Ranks that differ only on "pp", "cp"
  /// and "tp" have the same. Collective over the world. Throws InputError for inputs with unequal numbers of samples.
  Tensors predict(const Batch& batch, const PredictOptions& options = {});
  Tensors predict(EvaluationLoader& loader, const PredictOptions& options = {});  ///< of its whole set, split across the ranks
  /// The same, holding one micro-batch at a time.
  void for_each_prediction(EvaluationLoader& loader, const VisitOutputs& visit, const PredictOptions& options = {});

  bool keeps_average() const;  ///< TrainerOptions::average
  /// Runs `call` with the average in place of the weights, for evaluate(), predict() and for_each_weight(); steps, saves and
  /// loads are refused meanwhile. Afterwards the weights have their former bits, even if it throws, which it must do on all
  /// ranks or none. Each rank exchanges its share in place, twice, and whole weights are gathered each time. Collective over
  /// the world. Throws InputError if no average is kept.
  void with_average(const std::function<void()>& call);

  void check(bool watches_operators);           ///< the next steps: Engine::check()
  const StepChecks* checks() const;             ///< of the last step; null: none
  void trace(bool on, bool operators = false);  ///< whether the next steps record times of instructions, and of operators
  const std::vector<InstructionTime>& instruction_times() const;  ///< of this rank in the last step, if it was traced
  const std::vector<MeasuredOperator>& operators() const;         ///< the same
  PhaseTimes phase_times() const;                                 ///< the same
  /// When all ranks ran the last step's instructions, from the earliest. Collective. Throws InputError before the start.
  std::vector<TimedInstruction> step_times();
  FlatModel& model();     ///< the bound model: its parameters, and this rank's part of them
  TrainerState& state();  ///< for functions of this room
  /// Visits every parameter and saved buffer, whole, on the CPU, sorted by name: parameters and statistics in float32, other
  /// buffers in their own type. Collective over the world; one block at a time is whole.
  void for_each_weight(const std::function<void(const std::string& name, const at::Tensor& value)>& visit);

  /// Adds the caller's state to later checkpoints, under a unique name. On all ranks, before load().
  void register_state(const std::string& name, RegisteredState state);

  /// Saves the state of the run (weights, optimizer, loss scale, clock, registered state) as a checkpoint: the folder `path`,
  /// new or empty, or a URL. An existing checkpoint is refused or, by option, replaced; a kill meanwhile would lose it. Each
  /// rank writes its share. Collective over the world. Throws InputError or CommError on all ranks if one fails.
  SaveReport save(const std::string& path, const SaveOptions& options = {});
  /// The same, overlapping later steps: returns once the rank's share is copied (offloaded state: written).
  void save_in_background(const std::string& path, const SaveOptions& options = {});
  bool is_saving() const;     ///< a save has begun that finish_save() has not reported
  bool is_save_done() const;  ///< finish_save() would not wait
  /// Waits for the save in progress; throws one rank's error on all ranks. Returns an empty report if there is none.
  SaveReport finish_save();
  /// Loads a checkpoint from save(), of a model with the same parameters; ranks, layout and precision may differ. Loader and
  /// caller resume at steps_done(). Collective over the world. Throws on all ranks DamageError for a damaged one, InputError
  /// for a mismatched one, IoError if it cannot be read (base/storage_error.h); then only another load may follow.
  LoadReport load(const std::string& path, const LoadOptions& options = {});

  void save_to(RunBoard& board);  ///< copies this rank's share to the launcher's memory, on all ranks after the same step
  /// Loads the newest complete snapshot made after more steps than `after_step`, if any. Collective over the world.
  std::optional<LoadReport> load_from(RunBoard& board, int64_t after_step);

  /// Starts from weights in one or several files (checkpoint/weights/weights_file.h), of any type. Optimizer state and clock
  /// are unchanged. Collective over the world. Throws InputError on all ranks, before any change, if a weight is missing or has
  /// another shape, if the file has a part of a layer that the model lacks, and if its options differ from Model::options.
  WeightsReport load_weights(const std::string& path, const WeightsOptions& options = {});

  const Program& program() const;             ///< of the last step; before the first one, of a ramp's last phase
  const Group& data_group() const;            ///< ranks that read different samples
  const Group& world_group() const;           ///< all ranks
  std::vector<Group> groups() const;          ///< all groups used by steps, the data group first
  const LossScale& loss_scale() const;        ///< fp16's; a scale of 1 otherwise; InputError before the start
  int64_t steps_done() const;                 ///< of the run, submitted ones too
  int64_t samples_done() const;               ///< of the run, over all its steps
  int64_t global_batch() const;               ///< of the next step
  double learning_rate() const;               ///< of the next step
  std::chrono::milliseconds timeout() const;  ///< of every wait

 private:
  void start_to_load();
  void begin_save(const std::string& path, const SaveOptions& options, bool in_background);
  std::unique_ptr<TrainerState> state_;
};

}  // namespace weft
