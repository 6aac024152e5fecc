#include "weft/study/study_result.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "weft/base/error.h"
#include "weft/base/input_file.h"

namespace weft {
namespace {

constexpr int64_t kLongestSummary = 1 << 24;

std::optional<double> number_in(const nlohmann::json& json, const char* key) {
  const auto& value = json.at(key);
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

bool has_ended(const PointResult& result) {
  return result.outcome == PointOutcome::reached || result.outcome == PointOutcome::not_reached;
}

/// Sort key; lower is better.
auto order_of(const PointResult& result, TargetMetric metric) {
  const bool is_reached = result.outcome == PointOutcome::reached;
  const bool by_accuracy = !is_reached && metric == TargetMetric::accuracy;
  return std::tuple(is_reached ? 0 : 1, is_reached ? result.steps : 0, by_accuracy ? -result.accuracy.value_or(0.0) : 0.0,
                    result.loss.value_or(INFINITY));
}

}  // namespace

int64_t PointResult::least_steps() const {
  const int64_t evaluations_before = (steps - 1) / point.evaluate_every;
  return evaluations_before * point.evaluate_every + 1;
}

std::string summary_path(const std::string& folder, const StudyPoint& point) {
  return (std::filesystem::path(folder) / (point.name() + ".json")).string();
}

std::string log_path(const std::string& folder, const StudyPoint& point) {
  return (std::filesystem::path(folder) / (point.name() + ".log")).string();
}

std::string diverged_summary(const std::string& reason) { return nlohmann::json{{"diverged", reason}}.dump(2) + "\n"; }

PointResult parse_point(const StudyPoint& point, const std::string& text, const std::string& path) {
  try {
    const auto json = nlohmann::json::parse(text);
    PointResult result{.point = point};
    if (json.contains("diverged")) {
      result.outcome = PointOutcome::diverged;
      result.reason = json.at("diverged").get<std::string>();
      return result;
    }
    if (json.at("stopped").get<bool>()) return result;
    result.steps = json.at("steps_done").get<int64_t>();
    result.learning_rate = json.at("learning_rate").get<double>();
    result.seconds = json.at("seconds").get<double>();
    const auto& evaluation = json.at("evaluation");
    if (!evaluation.is_null()) {
      result.loss = number_in(evaluation, "loss");
      result.accuracy = number_in(evaluation, "accuracy");
    }
    const auto reached = number_in(json.at("target"), "step");
    if (reached) result.steps = static_cast<int64_t>(*reached);
    result.outcome = reached ? PointOutcome::reached : result.loss ? PointOutcome::not_reached : PointOutcome::diverged;
    return result;
  } catch (const nlohmann::json::exception&) {
    throw InputError(fmt::format("{}: not the summary of a run with a target; remove the file to run that point again", path));
  }
}

PointResult read_point(const StudyPoint& point, const std::string& folder) {
  const std::string path = summary_path(folder, point);
  if (!std::filesystem::exists(path)) return {.point = point};
  return parse_point(point, read_text_file("the summary", path, kLongestSummary), path);
}

const PointResult* best_of(const std::vector<PointResult>& results, const std::string& optimizer, int64_t batch,
                           TargetMetric metric) {
  const PointResult* best = nullptr;
  for (const PointResult& result : results) {
    if (result.point.optimizer != optimizer || result.point.batch != batch || !has_ended(result)) continue;
    if (best == nullptr || order_of(result, metric) < order_of(*best, metric)) best = &result;
  }
  return best;
}

}  // namespace weft
