#include "weft/study/read_results.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/printable.h"

namespace weft {
namespace {

using ResultJson = nlohmann::json;

std::optional<double> optional_number(const ResultJson& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<double>());
}

PointOutcome outcome_of(const std::string& words) {
  for (size_t i = 0; i < kPointOutcomes.size(); ++i) {
    if (kPointOutcomes.of(static_cast<PointOutcome>(i)) == words) return static_cast<PointOutcome>(i);
  }
  throw InputError(fmt::format("there is no outcome '{}'", words));
}

ScaleMode mode_of(const std::string& words) {
  if (words != kScaleModes.of(ScaleMode::weak) && words != kScaleModes.of(ScaleMode::strong))
    throw InputError(fmt::format("there is no scaling '{}'", words));
  return words == kScaleModes.of(ScaleMode::weak) ? ScaleMode::weak : ScaleMode::strong;
}

PointResult point_of(const ResultJson& json, const std::string& optimizer, int64_t batch) {
  PointResult result;
  result.point = {.optimizer = optimizer,
                  .batch = batch,
                  .rate = json.at("lr").get<double>(),
                  .steps = json.at("steps_limit").get<int64_t>(),
                  .evaluate_every = json.at("evaluate_every").get<int64_t>()};
  result.outcome = outcome_of(json.at("outcome").get<std::string>());
  result.steps = json.at("steps_done").get<int64_t>();
  result.loss = optional_number(json.at("loss"));
  result.accuracy = optional_number(json.at("accuracy"));
  result.learning_rate = json.at("learning_rate").get<double>();
  result.seconds = json.at("seconds").get<double>();
  if (json.at("reason").is_string()) result.reason = printable(json.at("reason").get<std::string>());
  return result;
}

ScaleResult scale_result_of(const ResultJson& json) {
  ScaleResult result;
  result.point = {.mode = mode_of(json.at("scaling").get<std::string>()),
                  .layout = printable(json.at("layout").get<std::string>()),
                  .ranks = json.at("ranks").get<int>(),
                  .batch = json.at("batch").get<int64_t>()};
  if (json.at("failure").is_string()) result.failure = printable(json.at("failure").get<std::string>());
  if (!json.contains("samples_per_s")) return result;
  const auto number = [&](const char* key) { return json.at(key).get<double>(); };
  result.samples_per_s = number("samples_per_s");
  result.tokens_per_s = number("tokens_per_s");
  result.step_ms = number("step_ms");
  result.least_step_ms = number("least_step_ms");
  result.most_step_ms = number("most_step_ms");
  result.runs = json.at("runs").get<int>();
  result.communication_share = number("communication_share");
  result.peak_rss_mb = number("peak_rss_mb");
  return result;
}

/// Parses with `read`, and says in errors which file it is.
template <typename Read>
auto parsed(const std::string& text, const std::string& path, const char* what, const Read& read) {
  try {
    return read(ResultJson::parse(text));
  } catch (const std::exception& error) {
    throw InputError(fmt::format("{} is not {}: {}", printable(path), what, error.what()));
  }
}

}  // namespace

Study parse_study(const std::string& text, const std::string& path) {
  return parsed(text, path, "a study.json of weft study", [](const ResultJson& json) {
    Study study{.recipe = json.at("recipe").get<std::string>(),
                .target = printable(json.at("target").get<std::string>()),
                .ranks = json.at("ranks").get<int>(),
                .results = {}};
    for (const ResultJson& series : json.at("series")) {
      const std::string optimizer = printable(series.at("optimizer").get<std::string>());
      for (const ResultJson& row : series.at("rows")) {
        for (const ResultJson& point : row.at("points"))
          study.results.push_back(point_of(point, optimizer, row.at("batch").get<int64_t>()));
      }
    }
    return study;
  });
}

ScaleStudy parse_scale(const std::string& text, const std::string& path) {
  return parsed(text, path, "a scale.json of weft scale", [](const ResultJson& json) {
    ScaleStudy study{.recipe = json.at("recipe").get<std::string>(),
                     .cores = json.at("cores").get<int>(),
                     .threads = json.at("threads_per_rank").get<int>(),
                     .results = {}};
    for (const ResultJson& row : json.at("rows")) study.results.push_back(scale_result_of(row));
    return study;
  });
}

}  // namespace weft
