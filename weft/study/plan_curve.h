// PlanCurve: the fastest layout of a recipe on several numbers of ranks and kinds of hardware, each found by a search. The
// global batch is the same on all, as a training's is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/plan/search/layout_search.h"
#include "weft/program/simulate/hardware.h"
#include "weft/recipe/recipe.h"
#include "weft/study/largest_model.h"

namespace weft {

/// A length of training and what a rank costs.
struct PlanBudget {
  double tokens = 0.0;              ///< of the whole training; 0: not given
  std::vector<double> prices = {};  ///< of a rank for an hour: one for all, or one per hardware; empty: not given
};

/// One kind of hardware.
struct CurveHardware {
  Hardware hardware;            ///< its numbers
  std::string path = {};        ///< of its file
  std::vector<int> ranks = {};  ///< numbers of ranks to search
};

/// One number of ranks on one kind of hardware.
struct PlanPoint {
  std::string hardware = {};                 ///< Hardware::name
  std::string path = {};                     ///< of its file
  size_t line = 0;                           ///< index of its hardware, of which several may have one name
  int ranks = 1;                             ///< number of ranks
  double price = 0.0;                        ///< of a rank for an hour; 0: not given
  std::optional<LayoutForecast> best = {};   ///< the fastest layout; empty: none fits
  std::string reason = {};                   ///< why there is none
  std::optional<LargestModel> largest = {};  ///< the deepest model that fits, if asked for
};

/// All points, by hardware, then by ranks.
struct PlanCurves {
  std::string recipe = {};             ///< its path
  int64_t batch = 0;                   ///< samples per step
  PlanBudget budget = {};              ///< for days and cost
  std::vector<PlanPoint> points = {};  ///< in this order
};

/// Parses "gpus=8..4096", powers of two times the first, or "gpus=8,12,16". Throws InputError that names the option --what-if.
std::vector<int> parse_what_if(const std::string& text);

/// Searches for each number of ranks of each hardware; a number on which no layout fits is a point with the reason.
/// `with_largest`: also for the largest model (largest_model.h) of each, which takes about ten searches more. Throws as
/// search_layouts() does, a FileError that names the hardware's file where it comes from that, and InputError for another
/// number of prices, and for a budget of tokens, or the largest model, if the model reads images.
PlanCurves plan_curves(const Recipe& recipe, const std::vector<CurveHardware>& hardware, const SearchOptions& options,
                       const PlanBudget& budget, bool with_largest = false);

/// Seconds of the training at this point. 0: no layout or no budget.
double training_seconds(const PlanPoint& point, const PlanBudget& budget);
/// Cost of the training at this point, in the unit of the price.
double training_cost(const PlanPoint& point, const PlanBudget& budget);

std::string plan_curves_table(const PlanCurves& curves);  ///< for people: a row per point, the smallest number that fits
std::string plan_curves_json(const PlanCurves& curves);   ///< for scripts
/// An SVG document: step time, or with a budget days of training, over ranks, a line per hardware; empty if nothing fits.
std::string plan_curves_chart(const PlanCurves& curves);

}  // namespace weft
