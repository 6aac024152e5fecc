#include "weft/train/run/evaluation_sets.h"

#include <cmath>
#include <utility>

#include "weft/base/stopwatch.h"
#include "weft/recipe/build/build_model.h"

namespace weft {
namespace {

EvaluationReport report_of(const EvaluationResult& result, const Model& model, bool of_words) {
  const auto share = [&result](int64_t hits) { return static_cast<double>(hits) / static_cast<double>(result.count); };
  EvaluationReport report{.loss = result.loss};
  if (model.hits) report.accuracy = share(result.hits);
  if (model.top5) report.top5 = share(result.top5);
  if (of_words) report.perplexity = std::exp(result.loss);
  return report;
}

}  // namespace

bool evaluates_average(const Trainer& trainer, const std::string& evaluate) {
  return trainer.keeps_average() && evaluate != "weights";
}

EvaluationSets::EvaluationSets(const Recipe& recipe, const Datasets& data, int64_t micro_batch, int shard, int num_shards)
    : of_words_(reads_tokens(recipe.model) && has_classes(recipe.model)), evaluate_(recipe.run.evaluate) {
  sets_.push_back({"", {data.evaluation, micro_batch, shard, num_shards}});
  for (const NamedDataset& set : data.others) sets_.push_back({set.name, {set.data, micro_batch, shard, num_shards}});
}

std::vector<std::string> EvaluationSets::skipped() const {
  std::vector<std::string> names;
  for (const Set& set : sets_) {
    for (std::string& name : set.loader.skipped()) names.push_back(std::move(name));
  }
  return names;
}

std::vector<EvaluationReport> EvaluationSets::evaluate(Trainer& trainer, int64_t steps) {
  std::vector<EvaluationReport> reports;
  const bool averages = evaluates_average(trainer, evaluate_);
  if (averages) trainer.with_average([&] { evaluate(trainer, steps, /*averaged=*/true, reports); });
  if (!averages || evaluate_ == "both") evaluate(trainer, steps, /*averaged=*/false, reports);
  return reports;
}

void EvaluationSets::evaluate(Trainer& trainer, int64_t steps, bool averaged, std::vector<EvaluationReport>& reports) {
  for (Set& set : sets_) {
    const Stopwatch start;
    EvaluationReport report = report_of(trainer.evaluate(set.loader), trainer.model().model(), of_words_);
    report.set = set.name;
    report.averaged = averaged;
    report.step = trainer.steps_done();
    report.steps = steps;
    report.seconds = start.seconds();
    reports.push_back(report);
  }
}

}  // namespace weft
