// HostTrainer: a trainer whose data a host program passes, made from a recipe as `weft train` makes it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/c/arrays.h"
#include "weft/c/weft.h"
#include "weft/comm/world.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/recipe.h"
#include "weft/train/trainer/trainer.h"

namespace weft::c {

/// Arrays as a call passes them.
struct HostBatch {
  const weft_array* inputs = nullptr;
  int num_inputs = 0;
  const weft_array* target = nullptr;
};

/// A trainer and what its data must be. Its members throw; one call at a time, whose Turn is the caller's.
class HostTrainer {
 public:
  using Log = std::function<void(const std::string& line)>;

  /// Collective over the world.
  HostTrainer(const World& world, const std::string& recipe, Log log);

  std::atomic_flag taken = {};  ///< by a call

  std::pair<int64_t, int64_t> share() const;  ///< weft_trainer_share(): first, count
  weft_step step(const HostBatch& batch);
  weft_evaluation evaluate(const HostBatch& set);
  void predict(const HostBatch& batch, const weft_array* outputs, int num_outputs);

  void save(const std::string& path, bool replace) { trainer_->save(path, {.replace = replace}); }
  int64_t load(const std::string& path);
  void load_weights(const std::string& path, const WeightsOptions& options = {});
  void keep(const std::string& name, const weft_array* value);
  void visit_weights(const std::function<void(const std::string& name, const weft_array* value)>& visit);

 private:
  void make(const World& world);
  void register_run();
  /// The batch as tensors; `samples` below 0: any number.
  Batch batch_of(Arrays& arrays, const HostBatch& batch, int64_t samples, bool has_target) const;
  /// Runs `call` with the averaged weights, if the recipe evaluates those.
  void with_evaluated(const std::function<void()>& call);

  Log log_;
  Recipe recipe_;
  at::Device device_ = at::kCPU;
  int shard_ = 0;  ///< this rank's index among those with other samples
  int num_shards_ = 1;
  int64_t micro_batch_ = 1;       ///< samples per forward of an evaluation
  MetaBatch expected_;            ///< of one sample
  std::unique_ptr<Arrays> kept_;  ///< by keep()
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace weft::c
