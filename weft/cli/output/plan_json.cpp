#include "weft/cli/output/plan_json.h"

#include <nlohmann/json.hpp>

#include "weft/base/printable.h"

namespace weft {

namespace {

using PlanJson = nlohmann::ordered_json;

PlanJson layout_json(const LayoutForecast& layout) {
  PlanJson keys;
  for (const KeyValue& key : layout.keys) keys[key.key] = key.value;
  return {{"layout", layout.text},
          {"keys", keys},
          {"approach", approach_name(layout.approach)},
          {"step_s", layout.step_s},
          {"samples_per_s", layout.samples_per_s},
          {"tokens_per_s", layout.tokens_per_s},
          {"mfu", layout.mfu},
          {"busy_s", layout.busy_s},
          {"exposed_s", layout.exposed_s},
          {"bubble_share", layout.bubble_share},
          {"launch_share", layout.launch_share},
          {"recompute_share", layout.recompute_share},
          {"memory", {{"most_bytes", layout.memory_bytes}, {"most_on_rank", layout.fullest_rank}}},
          {"limited_by", layout.limited_by}};
}

PlanJson measured_json(const MeasuredLayout& measured) {
  if (!measured.failure.empty()) return {{"failure", printable(measured.failure)}};
  return {{"step_s", measured.step_s}};
}

PlanJson order_json(const OrderCheck& check) {
  PlanJson changes = PlanJson::array();
  for (const OrderChange& change : check.changes) {
    changes.push_back({{"numbers", change.numbers},
                       {"slower", change.slower},
                       {"fastest", change.fastest + 1},
                       {"layout", change.layout},
                       {"measured_by", change.measured_by}});
  }
  return {{"noise", check.noise}, {"compared", check.layouts}, {"holds", check.changes.empty()}, {"changes", changes}};
}

PlanJson search_json(const SearchResult& result) {
  PlanJson left_out = PlanJson::array();
  for (const LeftOut& group : result.left_out) {
    left_out.push_back({{"what", group.text}, {"why", group.why}, {"layouts", group.layouts}});
  }
  return {{"layouts", result.layouts}, {"illegal", result.illegal},     {"over_memory", result.over_memory},
          {"bounded", result.bounded}, {"simulated", result.simulated}, {"seconds", result.seconds},
          {"space", result.space},     {"left_out", left_out}};
}

}  // namespace

std::string plan_json(const PlanReport& report) {
  PlanJson json = {{"recipe", printable(report.recipe)}, {"world", report.ranks}, {"hardware", printable(report.hardware)}};
  PlanJson best = PlanJson::array();
  for (const LayoutForecast& layout : report.result.best) best.push_back(layout_json(layout));
  for (size_t i = 0; i < report.measured.size(); ++i) best[i]["measured"] = measured_json(report.measured[i]);
  json["best"] = best;
  if (!report.result.best.empty()) {
    if (report.chosen) json["chosen"] = *report.chosen + 1;
    json["order"] = order_json(report.order);
    if (report.result.simpler) json["simpler"] = layout_json(*report.result.simpler);
  }
  json["search"] = search_json(report.result);
  if (report.result.best.empty()) {
    PlanJson all = PlanJson::array();
    for (const Remedy& remedy : report.remedies) all.push_back({{"what", remedy.text}, {"then", layout_json(remedy.forecast)}});
    json["remedies"] = all;
  }
  return json.dump(2) + "\n";
}

}  // namespace weft
