// Trainer: where model, mesh, data and optimizer meet. One object a rank; every rank makes the same calls in the same order.
//
// Making one does not communicate; start() does (it makes the groups, binds the model to flat buffers and draws the weights),
// and the first step calls it. What a rank holds depends on TrainerOptions::layout: docs/memory.md.
//
// Once a start, step, evaluation or prediction has failed, whatever it threw, every later call that needs the weights throws
// Error in one line: they may be half updated. The model's blocks are not to be used again either. A batch of another size than
// the rank's share is refused before the step begins, and leaves nothing behind.
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
#include "weft/train/trainer/checkpoint_options.h"
#include "weft/train/trainer/predict_options.h"
#include "weft/train/trainer/step_updater.h"
#include "weft/train/trainer/trainer_options.h"

namespace weft {

class RankMeeting;
class RunBoard;
struct TrainerState;

/// Trains a model on the ranks of a mesh.
class Trainer {
 public:
  /// Hands out this rank's next micro-batch.
  using Next = std::function<Batch()>;

  /// Makes or checks the program, and communicates with nobody. Throws InputError when ranks and micro-batches do not divide
  /// the global batch, when slots or a pipeline's schedule do not fit them, when the model cannot be split so, and for a mesh
  /// with an axis other than "pp", "dp", "shard", "cp" and "tp" above size one, which nothing here would use.
  Trainer(const Mesh& mesh, Model model, const OptimizerOptions& optimizer, const TrainerOptions& options);
  ~Trainer();

  /// Makes the groups, binds the model and draws the weights, once; whatever needs them calls it. Collective over the world.
  /// Throws InputError on a rank that is about to train otherwise than rank 0 (agreement.h), and CommError on the others then.
  void start();

  /// One step over the global batch; `next` hands out this rank's micro-batches, first to last, by which random numbers are
  /// keyed. Throws InputError for a micro-batch with a tensor of other samples, or nothing to train, and where the first
  /// micro-batches of ranks that differ on "cp" or "tp" alone are not the same.
  StepResult step(const Next& next);
  /// One step on the loader's next micro-batches; made with loader_options().
  StepResult step(Loader& loader);
  /// One step on `batch`, this rank's share of global_batch(): samples [r B, (r + 1) B) with r its place among the n ranks of
  /// "dp" and "shard", B = global batch / n. Ranks that differ on "pp", "cp" and "tp" alone have the same. Throws InputError
  /// for another size.
  StepResult step(const Batch& batch);

  /// The options of a Loader of this rank's micro-batches, from the next step on.
  LoaderOptions loader_options() const;

  /// Evaluates the loader's whole set once, split across the ranks. Collective over the world. Throws InputError for a loader
  /// that is not of this rank's share and a set in which no target counts, NumericError for a loss that is not finite.
  EvaluationResult evaluate(EvaluationLoader& loader);

  /// What the last block puts out for `batch`, of any number of samples, none too (predict_options.h). Ranks that differ on
  /// "pp", "cp" and "tp" alone have the same one. Collective over the world. Throws InputError for inputs of unlike samples.
  Tensors predict(const Batch& batch, const PredictOptions& options = {});
  /// The same of the loader's whole set, split across the ranks.
  Tensors predict(EvaluationLoader& loader, const PredictOptions& options = {});
  /// The same, a micro-batch at a time, so that no more is held.
  void for_each_prediction(EvaluationLoader& loader, const VisitOutputs& visit, const PredictOptions& options = {});

  bool keeps_average() const;  ///< TrainerOptions::average
  /// Calls `call` while the average of the weights stands in for them, for evaluate(), predict() and for_each_weight(); steps,
  /// saves and loads are refused meanwhile. After it the weights have the bits that they had, also where it throws: on all
  /// ranks then, or none. Each rank exchanges what it owns in place, twice, and whole weights are gathered each time.
  /// Collective over the world. Throws InputError where no average is kept.
  void with_average(const std::function<void()>& call);

  /// Sets whether the next steps keep the times of their instructions.
  void trace(bool on);
  /// When all ranks, of several hosts too, ran the instructions of the last step, counted from the first of them; the same on
  /// every rank. Collective over the world. Throws InputError before the start.
  std::vector<TimedInstruction> step_times();

  /// The model, bound: which parameters there are, and what this rank has of them.
  FlatModel& model();
  /// Visits every parameter and buffer, whole, on the CPU, in order of names: parameters and statistics in float32, other
  /// buffers in their own type. Collective over the world; one block at a time is whole.
  void for_each_weight(const std::function<void(const std::string& name, const at::Tensor& value)>& visit);

  /// Joins state of the caller's to the checkpoints that follow, under a name of its own. On all ranks, before load().
  void register_state(const std::string& name, RegisteredState state);

  /// Saves the state of the run (weights, optimizer, loss scale, clock, registered state) as a checkpoint: the folder `path`,
  /// new or empty, or a URL. A checkpoint that is there is refused, or replaced, but a kill meanwhile would lose it. Each rank
  /// writes its share. Collective over the world. Throws InputError or CommError on all ranks where one cannot.
  SaveReport save(const std::string& path, const SaveOptions& options = {});
  /// The same beside the steps that follow: returns once the rank's share is copied (offloaded state: written).
  void save_in_background(const std::string& path, const SaveOptions& options = {});
  bool is_saving() const;     ///< a save has begun that finish_save() has not told of
  bool is_save_done() const;  ///< finish_save() would not wait
  /// Waits for the save under way; throws on all ranks what it failed with on one. An empty report where there is none.
  SaveReport finish_save();
  /// Loads a checkpoint of save(), whose model had the same parameters; ranks, layout and precision may be others. Loader and
  /// caller go on from steps_done(). Collective over the world. Throws on all ranks DamageError for a damaged one, InputError
  /// for another's, IoError where it cannot be read (base/storage_error.h); only another may be loaded then.
  LoadReport load(const std::string& path, const LoadOptions& options = {});

  /// Copies this rank's share of the state to the launcher's memory, on all ranks after the same step. No rank waits.
  void save_to(RunBoard& board);
  /// Loads the newest snapshot that is whole, if it was made after more steps than `after_step`. Collective over the world.
  std::optional<LoadReport> load_from(RunBoard& board, int64_t after_step);

  /// Starts from weights that lie in a file, or in several (checkpoint/weights/weights_file.h), in any type. Optimizer state
  /// and clock stay as they are. Collective over the world. Throws InputError on all ranks, before anything is changed, where a
  /// weight is missing or has another shape, where the file has a part of a layer that the model lacks (a bias, a norm), and
  /// where config.json or what weft saved beside them tells of other options than Model::options.
  WeightsReport load_weights(const std::string& path, const WeightsOptions& options = {});

  const Program& program() const;             ///< what the last step did; before the first one, the last phase's of a ramp
  const Group& data_group() const;            ///< ranks that read different samples
  const Group& world_group() const;           ///< all ranks
  std::vector<Group> groups() const;          ///< all that the steps use, that one first
  const LossScale& loss_scale() const;        ///< fp16's; a scale of 1 otherwise; InputError before the start
  int64_t steps_done() const;                 ///< of the run
  int64_t samples_done() const;               ///< of the run: those of its steps
  int64_t global_batch() const;               ///< of the next step
  double learning_rate() const;               ///< of the next step
  std::chrono::milliseconds timeout() const;  ///< of every wait

 private:
  StepResult one_step(const Next& next);
  std::unique_ptr<RankMeeting> meet(const std::string& doing) const;
  void start_to_load();
  void fill(const std::string& path, const std::function<void()>& fill);
  void begin_save(const std::string& path, const SaveOptions& options, bool in_background);

  std::unique_ptr<TrainerState> state_;
};

}  // namespace weft
