#include "weft/train/save/run_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "weft/base/storage_error.h"
#include "weft/train/save/recipe_changes.h"

namespace weft {
namespace {

using RunJson = nlohmann::ordered_json;

/// Reads null as NaN: JSON has no infinities.
double number_of(const RunJson& json) { return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>(); }

RunJson or_null(const std::optional<double>& value) { return value ? RunJson(*value) : RunJson(nullptr); }
std::optional<double> optional_of(const RunJson& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<double>());
}

RunJson evaluation_json(const EvaluationReport& report) {
  return {{"set", report.set},
          {"step", report.step},
          {"loss", report.loss},
          {"accuracy", or_null(report.accuracy)},
          {"top5", or_null(report.top5)},
          {"perplexity", or_null(report.perplexity)},
          {"seconds", report.seconds},
          {"averaged", report.averaged}};
}

RunJson best_json(const std::optional<BestValue>& best) {
  return best ? RunJson{{"value", best->value}, {"step", best->step}} : RunJson(nullptr);
}

std::optional<BestValue> best_of(const RunJson& json) {
  if (json.is_null()) return std::nullopt;
  return BestValue{json.at("value").get<double>(), json.at("step").get<int64_t>()};
}

RunJson noise_json(const NoiseSums& noise) {
  const auto& [steps, weight, squared_weights, gradient, trace, gradient_squares, trace_squares, products] = noise;
  return {{"steps", steps},
          {"weight", weight},
          {"squared_weights", squared_weights},
          {"gradient", gradient},
          {"trace", trace},
          {"gradient_squares", gradient_squares},
          {"trace_squares", trace_squares},
          {"products", products}};
}

NoiseSums noise_of(const RunJson& json) {
  return {.steps = json.at("steps").get<int64_t>(),
          .weight = json.at("weight").get<double>(),
          .squared_weights = json.at("squared_weights").get<double>(),
          .gradient = json.at("gradient").get<double>(),
          .trace = json.at("trace").get<double>(),
          .gradient_squares = json.at("gradient_squares").get<double>(),
          .trace_squares = json.at("trace_squares").get<double>(),
          .products = json.at("products").get<double>()};
}

EvaluationReport evaluation_of(const RunJson& json) {
  return {.set = json.at("set").get<std::string>(),
          .step = json.at("step").get<int64_t>(),
          .steps = 0,
          .loss = number_of(json.at("loss")),
          .accuracy = optional_of(json.at("accuracy")),
          .top5 = optional_of(json.at("top5")),
          .perplexity = optional_of(json.at("perplexity")),
          .seconds = number_of(json.at("seconds")),
          .averaged = json.value("averaged", false)};
}

}  // namespace

std::string run_state_text(const RunState& state) {
  const auto& [name, clock, loss, evaluation, others, best, noise, recipe, data] =
      state;  // a new member is an error here until it is saved too
  const auto& [steps, samples, tokens, epochs, seconds] = clock;
  RunJson other_sets = RunJson::array();
  for (const EvaluationReport& report : others) other_sets.push_back(evaluation_json(report));
  return RunJson{
      {"name", name},
      {"clock", {{"steps", steps}, {"samples", samples}, {"tokens", tokens}, {"epochs", epochs}, {"seconds", seconds}}},
      {"metrics",
       {{"loss", loss},
        {"evaluation", evaluation ? evaluation_json(*evaluation) : RunJson(nullptr)},
        {"other_evaluations", other_sets},
        {"best", {{"loss", best_json(best.loss)}, {"accuracy", best_json(best.accuracy)}}}}},
      {"noise_scale", noise_json(noise)},
      {"recipe", recipe},
      {"data", data}}
      .dump();
}

RunState parse_run_state(const std::string& text, const std::string& where) {
  try {
    const RunJson json = RunJson::parse(text);
    const RunJson &clock = json.at("clock"), &metrics = json.at("metrics");
    RunState state{.name = json.at("name").get<std::string>(),
                   .clock = {.steps = clock.at("steps").get<double>(),
                             .samples = clock.at("samples").get<double>(),
                             .tokens = clock.at("tokens").get<double>(),
                             .epochs = clock.at("epochs").get<double>(),
                             .seconds = clock.at("seconds").get<double>()},
                   .loss = number_of(metrics.at("loss")),
                   .evaluation = {},
                   .others = {},
                   .best = {best_of(metrics.at("best").at("loss")), best_of(metrics.at("best").at("accuracy"))},
                   .noise = json.contains("noise_scale") ? noise_of(json.at("noise_scale")) : NoiseSums{},
                   .recipe = json.at("recipe").get<std::map<std::string, std::string>>(),
                   .data = json.at("data").get<std::map<std::string, std::string>>()};
    if (!metrics.at("evaluation").is_null()) state.evaluation = evaluation_of(metrics.at("evaluation"));
    for (const RunJson& other : metrics.at("other_evaluations")) state.others.push_back(evaluation_of(other));
    return state;
  } catch (const nlohmann::json::exception& error) {
    throw DamageError(fmt::format("{}: its run state is not in weft's format: {}", where, error.what()));
  }
}

bool is_of_program(const RunState& state) { return state.data.empty(); }

bool evaluations_compare(const RunState& before, const RunState& now, bool averaged) {
  if (before.evaluation && before.evaluation->averaged != averaged) return false;
  const auto there = before.data.find("evaluation"), here = now.data.find("evaluation");
  if (there != before.data.end() && here != now.data.end() && there->second != here->second) return false;
  const std::vector<std::string> changes = recipe_changes(before.recipe, now.recipe);
  return std::none_of(changes.begin(), changes.end(), [](const std::string& c) { return c.starts_with("model."); });
}

std::optional<std::string> run_state_in(const std::map<std::string, std::string>& texts) {
  const auto registered = texts.find("registered");
  if (registered == texts.end()) return std::nullopt;
  const RunJson json = RunJson::parse(registered->second);
  const auto found = json.find(kRunStateName);
  return found == json.end() ? std::nullopt : std::optional(found->dump());
}

}  // namespace weft
