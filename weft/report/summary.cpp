#include "weft/report/summary.h"

#include <nlohmann/json.hpp>
#include <span>

#include "weft/report/skipped_data.h"

namespace weft {

namespace {

using Json = nlohmann::ordered_json;

template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json json_of(const EvaluationReport& report) {
  return {{"averaged", report.averaged},
          {"loss", report.loss},
          {"accuracy", or_null(report.accuracy)},
          {"top5", or_null(report.top5)},
          {"perplexity", or_null(report.perplexity)}};
}

Json json_of(const std::optional<BestValue>& best) {
  return best ? Json{{"value", best->value}, {"step", best->step}} : Json(nullptr);
}

Json json_of(const std::optional<NoiseEstimate>& noise) {
  if (!noise) return nullptr;
  return {{"critical_batch", or_null(noise->batch)},
          {"spread", or_null(noise->spread)},
          {"gradient_squared", noise->gradient},
          {"variance", noise->trace},
          {"steps", noise->steps}};
}

Json json_of(const std::optional<StepPrediction>& predicted) {
  if (!predicted) return nullptr;
  return {{"hardware", predicted->hardware}, {"step_ms", 1e3 * predicted->step_s}, {"memory_mb", predicted->memory_mb}};
}

Json json_of(const SkippedData& skipped) {
  return {{"count", static_cast<int64_t>(skipped.names.size()) + skipped.more}, {"first", first_skipped(skipped.names)}};
}

/// Reports by name, without the first.
template <class Reports>
Json json_of_others(const EvaluationReport& first, const Reports& others) {
  Json json = Json::object();
  for (const EvaluationReport& other : others) json[name_beside(first, other)] = json_of(other);
  return json;
}

}  // namespace

// nlohmann writes NaN and infinities as null; the key order is kept for human readers.
std::string summary_json(const FinalReport& report) {
  Json layout = Json::object();
  for (const auto& [name, size] : report.layout) layout[name] = size;
  const Json others = json_of_others(report.evaluation.value_or(EvaluationReport{}), report.other_evaluations);
  Json target = nullptr;
  if (!report.target.empty()) {
    target = Json{{"asked", report.target}};
    target["step"] = report.target_step ? Json(*report.target_step) : Json(nullptr);
  }
  const Json json = {
      {"model", report.model},
      {"parameters", report.parameters},
      {"world", report.world},
      {"layout", layout},
      {"backend", report.backend},
      {"threads_per_rank", report.threads_per_rank},
      {"steps", report.steps},
      {"steps_done", report.steps_done},
      {"resumed_from", report.resumed_from},
      {"stopped", report.stopped},
      {"learning_rate", report.learning_rate},
      {"loss", report.loss},
      {"late_loss", report.late_loss},
      {"least_loss", report.least_loss},
      {"evaluation", report.evaluation ? json_of(*report.evaluation) : Json(nullptr)},
      {"best", {{"loss", json_of(report.best.loss)}, {"accuracy", json_of(report.best.accuracy)}}},
      {"other_evaluations", others},
      {"target", target},
      {"noise_scale", json_of(report.noise_scale)},
      {"job", report.job.empty() ? Json(nullptr) : Json(report.job)},
      {"user", report.user},
      {"hosts", report.hosts},
      {"core_hours", report.core_hours},
      {"seconds", report.seconds},
      {"samples_per_s", report.samples_per_s},
      {"tokens_per_s", report.tokens_per_s},
      {"first_step_s", report.first_step_s},
      {"step_ms", {{"p50", report.step_ms_p50}, {"p95", report.step_ms_p95}}},
      {"predicted", json_of(report.predicted)},
      {"data_wait_share", report.data_wait_share},
      {"skipped_data", json_of(SkippedData{report.skipped_data, report.skipped_more})},
      {"communication_share", report.communication_share},
      {"step_communication_share", report.step_communication_share},
      {"peak_rss_mb", report.peak_rss_mb},
      {"peak_device_mb", report.peak_device_mb},
      {"traffic_bytes", report.traffic_bytes},
      {"saves", report.saves},
      {"save_stall_s", report.save_stall_s},
      {"skipped_steps", report.skipped_steps},
      {"weights_sha256", report.weights_sha256},
      {"average_sha256", report.average_sha256.empty() ? Json(nullptr) : Json(report.average_sha256)},
  };
  return json.dump(2) + "\n";
}

std::string summary_json(const SavedEvaluation& evaluation, const SkippedData& skipped) {
  const EvaluationReport& first = evaluation.evaluations.at(0);
  double seconds = 0.0;
  for (const EvaluationReport& each : evaluation.evaluations) seconds += each.seconds;
  const Json json = {
      {"weights", evaluation.path},
      {"recipe", evaluation.recipe.empty() ? Json(nullptr) : Json(evaluation.recipe)},
      {"model", evaluation.model},
      {"parameters", evaluation.parameters},
      {"world", evaluation.world},
      {"steps_done", first.step < 0 ? Json(nullptr) : Json(first.step)},
      {"evaluation", json_of(first)},
      {"other_evaluations", json_of_others(first, std::span(evaluation.evaluations).subspan(1))},
      {"seconds", seconds},
      {"skipped_data", json_of(skipped)},
  };
  return json.dump(2) + "\n";
}

}  // namespace weft
