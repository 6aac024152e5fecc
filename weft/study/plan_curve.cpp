#include "weft/study/plan_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "weft/base/error.h"
#include "weft/base/parse_number.h"
#include "weft/base/printable.h"
#include "weft/plan/cost/cost_table.h"
#include "weft/plan/layout/planned_device.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/limits.h"
#include "weft/recipe/toml/hardware_file.h"
#include "weft/study/study_grid.h"

namespace weft {

namespace {

[[noreturn]] void refuse_range(const std::string& text) {
  throw InputError(
      fmt::format("--what-if {}: write it as gpus=8..4096, which is 8, 16, 32 and so on, or as gpus=8,12,16", shortened(text)));
}

PlanPoint point_of(const Recipe& recipe, const CurveHardware& on, int ranks, const SearchOptions& options,
                   const std::shared_ptr<CostTable>& costs) {
  PlanPoint point{.hardware = on.hardware.name, .path = on.path, .ranks = ranks};
  SearchResult result = search_layouts(recipe, ranks, on.hardware, options, costs);
  if (result.best.empty()) {
    const std::string closest = closest_text(result.left_out);
    point.reason = closest.empty() ? "no layout is left" : closest;
  } else {
    point.best = std::move(result.best.front());
  }
  return point;
}

}  // namespace

std::vector<int> parse_what_if(const std::string& text) {
  constexpr std::string_view kName = "gpus=";
  if (!text.starts_with(kName)) refuse_range(text);
  const std::string numbers = text.substr(kName.size());
  std::vector<int> ranks;
  if (const size_t dots = numbers.find(".."); dots != std::string::npos && numbers.find(',') == std::string::npos) {
    const auto first = parse_number<int>(numbers.substr(0, dots)), last = parse_number<int>(numbers.substr(dots + 2));
    if (!first || !last || *first < 1 || *last < *first || *last > kMostRanks) refuse_range(text);
    for (int64_t n = *first; n <= *last; n *= 2) ranks.push_back(static_cast<int>(n));
    return ranks;
  }
  try {
    for (const int64_t n : parse_whole_progression(numbers)) {
      if (n > kMostRanks) refuse_range(text);
      ranks.push_back(static_cast<int>(n));
    }
  } catch (const InputError&) {
    refuse_range(text);
  }
  return ranks;
}

PlanCurves plan_curves(const Recipe& recipe, const std::vector<CurveHardware>& hardware, const SearchOptions& options,
                       const PlanBudget& budget, bool with_largest) {
  if (budget.tokens > 0.0 && !reads_tokens(recipe.model)) {
    throw InputError(fmt::format("--tokens: model.name = \"{}\" reads images; leave it out", recipe.model.name));
  }
  const std::vector<double>& prices = budget.prices;
  if (prices.size() > 1 && prices.size() != hardware.size()) {
    throw InputError(fmt::format("--price: {} prices for {} kinds of hardware; give one for all, or one for each",
                                 prices.size(), hardware.size()));
  }
  PlanCurves curves{.recipe = recipe.path, .batch = recipe.batch.global, .budget = budget};
  SearchOptions fastest = options;
  fastest.most = 1;
  std::map<std::string, std::shared_ptr<CostTable>> costs;  // by kind of device
  for (size_t i = 0; i < hardware.size(); ++i) {
    const CurveHardware& each = hardware[i];
    std::shared_ptr<CostTable>& table = costs[each.hardware.kind];
    if (!table) table = std::make_shared<CostTable>(for_hardware(recipe, each.hardware));
    for (const int n : each.ranks) {
      in_hardware_file(each.path, [&] {
        PlanPoint point = point_of(recipe, each, n, fastest, table);
        if (with_largest) point.largest = largest_model(recipe, n, each.hardware, options);
        curves.points.push_back(std::move(point));
      });
      curves.points.back().line = i;
      if (!prices.empty()) curves.points.back().price = prices[std::min(i, prices.size() - 1)];
    }
  }
  return curves;
}

double training_seconds(const PlanPoint& point, const PlanBudget& budget) {
  return point.best && point.best->tokens_per_s > 0.0 ? budget.tokens / point.best->tokens_per_s : 0.0;
}

double training_cost(const PlanPoint& point, const PlanBudget& budget) {
  constexpr double kHour = 3600.0;
  return training_seconds(point, budget) / kHour * point.ranks * point.price;
}

}  // namespace weft
