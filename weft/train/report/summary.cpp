#include "weft/train/report/summary.h"

#include <nlohmann/json.hpp>

#include "weft/train/report/skipped_data.h"

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

}  // namespace

// nlohmann writes NaN and infinities as null by itself; the order of keys is kept for people who read the file.
std::string summary_json(const FinalReport& report) {
  Json layout = Json::object();
  for (const auto& [name, size] : report.layout) layout[name] = size;
  Json others = Json::object();
  for (const EvaluationReport& other : report.other_evaluations) {
    others[name_beside(report.evaluation.value_or(EvaluationReport{}), other)] = json_of(other);
  }
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
      {"evaluation", report.evaluation ? json_of(*report.evaluation) : Json(nullptr)},
      {"best", {{"loss", json_of(report.best.loss)}, {"accuracy", json_of(report.best.accuracy)}}},
      {"other_evaluations", others},
      {"target", target},
      {"noise_scale", json_of(report.noise_scale)},
      {"seconds", report.seconds},
      {"samples_per_s", report.samples_per_s},
      {"tokens_per_s", report.tokens_per_s},
      {"first_step_s", report.first_step_s},
      {"step_ms", {{"p50", report.step_ms_p50}, {"p95", report.step_ms_p95}}},
      {"data_wait_share", report.data_wait_share},
      {"skipped_data",
       {{"count", report.skipped_data.size() + report.skipped_more}, {"first", first_skipped(report.skipped_data)}}},
      {"communication_share", report.communication_share},
      {"step_communication_share", report.step_communication_share},
      {"peak_rss_mb", report.peak_rss_mb},
      {"traffic_bytes", report.traffic_bytes},
      {"saves", report.saves},
      {"save_stall_s", report.save_stall_s},
      {"skipped_steps", report.skipped_steps},
      {"weights_sha256", report.weights_sha256},
      {"average_sha256", report.average_sha256.empty() ? Json(nullptr) : Json(report.average_sha256)},
  };
  return json.dump(2) + "\n";
}

}  // namespace weft
