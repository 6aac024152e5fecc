// PythonTrainer: a trainer of blocks and data that Python passes. Its methods are called without Python's lock
// (python_block.h), one at a time.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "weft/comm/world.h"
#include "weft/data/dataset.h"
#include "weft/data/loader.h"
#include "weft/python/python_block.h"
#include "weft/recipe/recipe.h"
#include "weft/train/trainer/trainer.h"

namespace weft::python {

/// The world of this process, made once, from the environment.
const World& this_world(double timeout_s);

/// A result of a step, as Python sees it.
struct StepOfPython {
  int64_t step = 0;            ///< steps done, with this one
  int64_t samples = 0;         ///< trained on, over the run
  double loss = 0.0;           ///< mean over the targets that counted
  int64_t targets = 0;         ///< number of those, over all ranks
  double gradient_norm = 0.0;  ///< global, before clipping; 0: not measured
  double learning_rate = 0.0;  ///< of the step
  bool skipped = false;        ///< fp16: a gradient was not finite, so nothing was updated
  double seconds = 0.0;        ///< duration on this rank
};

/// Samples by index, fetched by a function of Python's: (indices, epoch) -> (inputs, target).
class [[gnu::visibility("hidden")]] PythonDataset : public Dataset {
 public:
  PythonDataset(int64_t size, const pybind11::object& fetch) : size_(size), fetch_(std::make_shared<Callback>(fetch)) {}
  int64_t size() const override { return size_; }
  Batch get(const std::vector<int64_t>& indices, int64_t epoch) const override;

 private:
  int64_t size_;
  std::shared_ptr<Callback> fetch_;
};

/// A trainer, its recipe and the order of its data.
class [[gnu::visibility("hidden")]] PythonTrainer {
 public:
  /// `recipe`: TOML without [model] and [data]. `log` is a function of a line, called on rank 0. Collective, called with the
  /// lock.
  PythonTrainer(const std::string& recipe, const std::vector<BlockOfPython>& blocks, const pybind11::object& loss,
                const pybind11::object& log);
  ~PythonTrainer();

  StepOfPython step(const Tensors& inputs, const at::Tensor& target);
  /// Sets what next_step() trains on, from the next step on; `shuffle`: in an order that depends on the seed alone.
  void read(const std::shared_ptr<PythonDataset>& data, bool shuffle, int workers);
  StepOfPython next_step();
  /// Ends its threads (Loader::end()), which wait for Python's lock. Also while another thread is in next_step().
  void end_reading(double limit_s) const;
  /// The same, and read() begins anew.
  void stop_reading(double limit_s);

  EvaluationResult evaluate(const std::shared_ptr<PythonDataset>& data);
  Tensors predict(const Tensors& inputs, bool gathered);
  /// The `values` of all ranks, in their order; each gives as many. Collective. `what` names the call in errors.
  std::vector<int64_t> gather(const std::vector<int64_t>& values, const std::string& what);

  void save(const std::string& path, bool replace, bool in_background);
  void finish_save() { trainer_->finish_save(); }
  int64_t load(const std::string& path, bool strict);
  /// `names`: a file of WeightNames, or empty.
  void load_weights(const std::string& path, const std::string& names, const std::vector<std::string>& skip);
  /// Adds a text of the caller's to checkpoints. Called with the lock.
  void keep(const std::string& name, const pybind11::object& save, const pybind11::object& load);
  std::vector<std::pair<std::string, at::Tensor>> weights(bool averaged);
  /// Parameters at least half of whose gradient was exactly zero in the last step, with that share.
  std::vector<std::pair<std::string, double>> zero_gradients();

  const Trainer& trainer() const { return *trainer_; }
  std::pair<int64_t, int64_t> share() const;  ///< this rank's samples of the next step's global batch: first, count
  int64_t steps() const { return steps_; }    ///< of the recipe's run

 private:
  void note(const std::string& line) const;
  std::shared_ptr<Loader> loader() const;
  void set_loader(std::shared_ptr<Loader> loader);
  template <class Step>
  StepOfPython timed(const Step& step);
  void with_evaluated(const std::function<void()>& call);

  std::shared_ptr<Callback> log_;  ///< null: none
  Recipe recipe_;
  int64_t steps_ = 0;
  int shard_ = 0;  ///< this rank's index among those with other samples
  int num_shards_ = 1;
  int64_t micro_batch_ = 1;  ///< samples per forward of an evaluation
  std::unique_ptr<Trainer> trainer_;
  mutable std::mutex loader_mutex_;  ///< of the pointer below
  std::shared_ptr<Loader> loader_;
};

}  // namespace weft::python
