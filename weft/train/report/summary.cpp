#include "weft/train/report/summary.h"

#include <nlohmann/json.hpp>

#include "weft/train/report/skipped_data.h"

namespace weft {

// nlohmann writes NaN and infinities as null by itself; the order of keys is kept for people who read the file.
std::string summary_json(const FinalReport& report) {
  using Json = nlohmann::ordered_json;
  Json layout = Json::object();
  for (const auto& [name, size] : report.layout) layout[name] = size;
  Json evaluation = nullptr;
  if (report.evaluation) {
    evaluation = Json{{"loss", report.evaluation->loss}};
    evaluation["accuracy"] = report.evaluation->accuracy ? Json(*report.evaluation->accuracy) : Json(nullptr);
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
      {"evaluation", evaluation},
      {"target", target},
      {"seconds", report.seconds},
      {"samples_per_s", report.samples_per_s},
      {"tokens_per_s", report.tokens_per_s},
      {"first_step_s", report.first_step_s},
      {"step_ms", {{"p50", report.step_ms_p50}, {"p95", report.step_ms_p95}}},
      {"data_wait_share", report.data_wait_share},
      {"skipped_data", {{"count", report.skipped_data.size()}, {"first", first_skipped(report.skipped_data)}}},
      {"communication_share", report.communication_share},
      {"step_communication_share", report.step_communication_share},
      {"peak_rss_mb", report.peak_rss_mb},
      {"traffic_bytes", report.traffic_bytes},
      {"saves", report.saves},
      {"save_stall_s", report.save_stall_s},
      {"skipped_steps", report.skipped_steps},
      {"weights_sha256", report.weights_sha256},
  };
  return json.dump(2) + "\n";
}

}  // namespace weft
