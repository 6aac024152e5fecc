#include "weft/train/compare/comparison_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "weft/base/units.h"

namespace weft {

namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kFewUlps = 1 << 24;  ///< beyond this a number is near zero or has the other sign: ulps are meaningless

std::string when(const Deviation& deviation) {
  if (deviation.step == 0) return "before the first step";
  return fmt::format("{} step {}", deviation.is_weight ? "after" : "in", deviation.step);
}

/// Formats "weights of h.0.bias after step 1, by up to 12 ulps (1.2e-03 of the largest element)".
std::string deviation_text(const Deviation& deviation) {
  if (!deviation.is_weight)
    return fmt::format("the {} {}, by {:.1e} of itself", deviation.what, when(deviation), deviation.relative);
  if (deviation.ulps > kFewUlps) {
    return fmt::format("weights of {} {}, by up to {:.1e} of the largest element", deviation.what, when(deviation),
                       deviation.relative);
  }
  return fmt::format("weights of {} {}, by up to {} ({:.1e} of the largest element)", deviation.what, when(deviation),
                     counted(deviation.ulps, "ulp"), deviation.relative);
}

std::string rounding_text(const Deviation& deviation) {
  return deviation.allowed > 0.0 ? fmt::format("; rounding explains {:.1e}", deviation.allowed) : "";
}

/// Formats "8 after step 2", for steps whose count differs from the step before.
std::string counts_text(const LayoutComparison& comparison) {
  std::map<int64_t, int64_t> counts;
  for (const Deviation& deviation : comparison.deviations) counts[deviation.step] += deviation.is_weight ? 1 : 0;
  std::vector<std::string> parts;
  int64_t before = 0;
  for (const auto& [step, count] : counts) {
    if (count != before) parts.push_back(fmt::format("{} after step {}", count, step));
    before = count;
  }
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string numbers_text(const LayoutComparison& comparison) {
  std::string text;
  for (const char* what : {kLoss, kTargetCount, kGradientNorm}) {
    const auto first = std::find_if(comparison.deviations.begin(), comparison.deviations.end(),
                                    [what](const Deviation& deviation) { return deviation.what == what; });
    if (first == comparison.deviations.end()) continue;
    text += fmt::format("  {}: from step {} on, by {:.1e} of itself\n", what, first->step, first->relative);
  }
  return text;
}

std::string tried_text(const SwitchedOff& tried) {
  return fmt::format("  without {}: {}\n", fmt::join(tried.names, ", "),
                     tried.not_run.empty() ? std::string(name(tried.match)) : "not run: " + tried.not_run);
}

/// Describes the computation that does not repeat; empty if none was found.
std::string not_repeated_text(const NotRepeated& found) {
  if (found.what.empty()) return "";
  if (!found.what.starts_with("block")) return "its data differ the second time";
  return fmt::format(
      "the forward of {} gives different outputs for the same inputs {}; draw from LibTorch's default "
      "generators or by key (nn/random.h), and list its state in parameters() or buffers()",
      found.what, found.at_once ? "when it is called again" : "in a second run");
}

std::string cause_text(const LayoutComparison& comparison) {
  const std::string not_repeated = not_repeated_text(comparison.not_repeated);
  if (!comparison.repeats) {
    return fmt::format("the run on {} does not repeat: {}", comparison.against,
                       not_repeated.empty() ? "model or data are not deterministic" : not_repeated);
  }
  if (!not_repeated.empty()) return not_repeated;
  const std::string names = fmt::format("{}", fmt::join(comparison.causes, comparison.together ? " and " : ", "));
  if (comparison.causes.empty()) return "no part of the layout could be switched off";
  if (comparison.together) return fmt::format("{} together cause it: the difference disappears when all are off", names);
  if (comparison.causes.size() == 1) return fmt::format("{} causes it: the difference disappears when it is off", names);
  return fmt::format("the difference needs all of {}: it disappears when any is off", names);
}

std::string rest_text(const LayoutComparison& comparison) {
  return comparison.rest_as.empty() ? "" : fmt::format("  the rest of the layout changes no bit of {}\n", comparison.rest_as);
}

std::string advice(const LayoutComparison& comparison) {
  if (comparison.exact || !comparison.may_promise) return "";
  return "  run.reproducible_slots (TrainerOptions::reproducible_slots) gives the same bits, and a stricter test\n";
}

Json json_of(const Deviation* deviation) {
  if (deviation == nullptr) return nullptr;
  return {{"what", deviation->what},         {"step", deviation->step},       {"ulps", deviation->ulps},
          {"relative", deviation->relative}, {"allowed", deviation->allowed}, {"is_weight", deviation->is_weight}};
}

}  // namespace

std::string comparison_text(const LayoutComparison& comparison) {
  std::string text = fmt::format("{} on {} as on {}: {}\n", counted(comparison.steps, "step"), comparison.layout,
                                 comparison.against, name(comparison.match));
  const Deviation* first = comparison.first();
  if (first == nullptr && comparison.match == LayoutMatch::different)
    return text + fmt::format("  {}\n", cause_text(comparison));
  if (first == nullptr) {
    return text +
           fmt::format("  losses, gradient norms and all {} after every step\n", counted(comparison.parameters, "parameter")) +
           rest_text(comparison);
  }
  text += fmt::format("  first: {}{}\n", deviation_text(*first), rounding_text(*first));
  if (const Deviation* largest = comparison.largest(); largest != nullptr && largest != first) {
    text += fmt::format("  largest: {}{}\n", deviation_text(*largest), rounding_text(*largest));
  }
  text += numbers_text(comparison);
  text += fmt::format("  parameters, of {}: {}\n", comparison.parameters, counts_text(comparison));
  if (comparison.match == LayoutMatch::within_rounding) return text + rest_text(comparison) + advice(comparison);
  for (const SwitchedOff& tried : comparison.tried) text += tried_text(tried);
  return text + fmt::format("  {}\n", cause_text(comparison));
}

std::string difference_line(const LayoutComparison& comparison) {
  const Deviation* first = comparison.first();
  if (first == nullptr) return cause_text(comparison);
  return fmt::format("{} does not train as {} does: first {}; {}", comparison.layout, comparison.against,
                     deviation_text(*first), cause_text(comparison));
}

std::string comparison_json(const LayoutComparison& comparison) {
  Json tried = Json::array(), deviations = Json::array();
  for (const SwitchedOff& one : comparison.tried) {
    tried.push_back({{"off", one.names},
                     {"verdict", one.not_run.empty() ? Json(name(one.match)) : Json(nullptr)},
                     {"not_run", one.not_run.empty() ? Json(nullptr) : Json(one.not_run)}});
  }
  for (const Deviation& deviation : comparison.deviations) deviations.push_back(json_of(&deviation));
  const std::string& not_repeated = comparison.not_repeated.what;
  const Json json = {{"layout", comparison.layout},
                     {"steps", comparison.steps},
                     {"parameters", comparison.parameters},
                     {"verdict", name(comparison.match)},
                     {"against", comparison.against},
                     {"rest_as", comparison.rest_as.empty() ? Json(nullptr) : Json(comparison.rest_as)},
                     {"exact", comparison.exact},
                     {"first", json_of(comparison.first())},
                     {"largest", json_of(comparison.largest())},
                     {"repeats", comparison.repeats},
                     {"not_repeated", not_repeated.empty() ? Json(nullptr) : Json(not_repeated)},
                     {"causes", comparison.causes},
                     {"together", comparison.together},
                     {"tried", tried},
                     {"deviations", deviations}};
  return json.dump(2) + "\n";
}

}  // namespace weft
