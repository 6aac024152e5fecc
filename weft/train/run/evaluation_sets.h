// EvaluationSets: the evaluation sets of a run: first the data's own, then those that the recipe names. One object per rank;
// all make the same calls.
#pragma once

#include <string>
#include <vector>

#include "weft/recipe/build/open_data.h"
#include "weft/recipe/recipe.h"
#include "weft/report/report.h"
#include "weft/train/trainer/trainer.h"

namespace weft {

/// Returns true if evaluations of the average count, not those of the weights; `evaluate` is run.evaluate.
bool evaluates_average(const Trainer& trainer, const std::string& evaluate);

/// The sets of a run, each split over the ranks that read data.
class EvaluationSets {
 public:
  /// For rank `shard` of `num_shards` data ranks, in micro-batches of this many samples.
  EvaluationSets(const Recipe& recipe, const Datasets& data, int64_t micro_batch, int shard, int num_shards);

  /// Names of bad samples in all sets, on this rank, as in EvaluationLoader::skipped().
  std::vector<std::string> skipped() const;

  /// Evaluates on each set in order, as run.evaluate says: the average of the weights if one is kept, the weights, or both in
  /// this order. Collective over the world.
  std::vector<EvaluationReport> evaluate(Trainer& trainer, int64_t steps);

 private:
  struct Set {
    std::string name;
    EvaluationLoader loader;
  };
  void evaluate(Trainer& trainer, int64_t steps, bool averaged, std::vector<EvaluationReport>& reports);

  std::vector<Set> sets_;
  bool of_words_;         ///< the loss is of tokens, and has a perplexity
  std::string evaluate_;  ///< run.evaluate
};

}  // namespace weft
