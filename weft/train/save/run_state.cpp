#include "weft/train/save/run_state.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"

namespace weft {
namespace {

using RunJson = nlohmann::ordered_json;

/// JSON has no infinities.
double number_of(const RunJson& json) { return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>(); }

RunJson evaluation_json(const EvaluationReport& report) {
  RunJson json = {{"step", report.step}, {"loss", report.loss}, {"accuracy", nullptr}, {"seconds", report.seconds}};
  if (report.accuracy) json["accuracy"] = *report.accuracy;
  return json;
}

EvaluationReport evaluation_of(const RunJson& json) {
  EvaluationReport report{.step = json.at("step").get<int64_t>(),
                          .steps = 0,
                          .loss = number_of(json.at("loss")),
                          .accuracy = {},
                          .seconds = number_of(json.at("seconds"))};
  if (!json.at("accuracy").is_null()) report.accuracy = json.at("accuracy").get<double>();
  return report;
}

}  // namespace

std::string run_state_text(const RunState& state) {
  const auto& [name, clock, loss, evaluation, recipe, data] = state;  // one more is an error here until it is saved too
  const auto& [steps, samples, tokens, epochs, seconds] = clock;
  return RunJson{
      {"name", name},
      {"clock", {{"steps", steps}, {"samples", samples}, {"tokens", tokens}, {"epochs", epochs}, {"seconds", seconds}}},
      {"metrics", {{"loss", loss}, {"evaluation", evaluation ? evaluation_json(*evaluation) : RunJson(nullptr)}}},
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
                   .recipe = json.at("recipe").get<std::map<std::string, std::string>>(),
                   .data = json.at("data").get<std::map<std::string, std::string>>()};
    if (!metrics.at("evaluation").is_null()) state.evaluation = evaluation_of(metrics.at("evaluation"));
    return state;
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("{}: its run state is not as weft writes it: {}", where, error.what()));
  }
}

std::optional<std::string> run_state_in(const std::map<std::string, std::string>& texts) {
  const auto registered = texts.find("registered");
  if (registered == texts.end()) return std::nullopt;
  const RunJson json = RunJson::parse(registered->second);
  const auto found = json.find(kRunStateName);
  return found == json.end() ? std::nullopt : std::optional(found->dump());
}

}  // namespace weft
