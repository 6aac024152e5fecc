// EvaluationSets: what a run is evaluated on: its data's own set first, then those that the recipe names. One object a rank;
// all make the same calls.
#pragma once

#include <string>
#include <vector>

#include "weft/recipe/build/open_data.h"
#include "weft/recipe/recipe.h"
#include "weft/report/report.h"
#include "weft/train/trainer/trainer.h"

namespace weft {

/// Whether evaluations go by the average of the weights, `evaluate` being run.evaluate.
bool evaluates_average(const Trainer& trainer, const std::string& evaluate);

/// The sets of a run, each cut over the ranks that read data.
class EvaluationSets {
 public:
  /// For rank `shard` of `num_shards` of those, in micro-batches of so many samples.
  EvaluationSets(const Recipe& recipe, const Datasets& data, int64_t micro_batch, int shard, int num_shards);

  /// Names of the bad samples of all, on this rank, as EvaluationLoader::skipped().
  std::vector<std::string> skipped() const;

  /// Evaluates on each, first to last, as the reports are: the average of the weights where one is kept, the weights, or first
  /// the one and then the other, as run.evaluate says. Collective over the world.
  std::vector<EvaluationReport> evaluate(Trainer& trainer, int64_t steps);

 private:
  struct Set {
    std::string name;
    EvaluationLoader loader;
  };
  void evaluate(Trainer& trainer, int64_t steps, bool averaged, std::vector<EvaluationReport>& reports);

  std::vector<Set> sets_;
  bool reads_tokens_;
  std::string evaluate_;  ///< run.evaluate
};

}  // namespace weft
