#include "weft/study/study_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "weft/base/error.h"
#include "weft/base/math.h"
#include "weft/base/parse_number.h"
#include "weft/base/printable.h"
#include "weft/plan/layout/resolve.h"
#include "weft/plan/make_plan.h"
#include "weft/recipe/read/read_recipe.h"

namespace weft {
namespace {

constexpr size_t kMostPoints = 10'000;

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else if (c != ' ') {
      parts.back() += c;
    }
  }
  return parts;
}

[[noreturn]] void refuse_list(const std::string& text, const char* why) {
  throw InputError(fmt::format("{}: {}; write numbers above 0, as in 32,64,128 or 32,64,...,8192", shortened(text), why));
}

/// Appends the numbers between the last one and `end`, by the factor of the last two.
void fill_up(std::vector<double>& numbers, double end, const std::string& text) {
  constexpr double kRounding = 1e-9;
  if (numbers.size() < 2) refuse_list(text, "three dots need two numbers before them and one after");
  const double factor = numbers.back() / numbers[numbers.size() - 2];
  if (!(factor > 1.0) || end <= numbers.back()) refuse_list(text, "three dots must continue upwards");
  double next = numbers.back() * factor;
  for (; next < end * (1 - kRounding) && numbers.size() < kMostPoints; next *= factor) numbers.push_back(next);
  if (std::abs(next / end - 1.0) > kRounding) refuse_list(text, "three dots do not meet the number after them");
}

/// Largest forward size that divides a rank's share of the batch; the whole share if the batch does not divide.
int64_t micro_batch(int64_t batch, int64_t data_ranks, int64_t most) {
  const int64_t share = std::max<int64_t>(1, batch / data_ranks);
  int64_t micro = std::min(share, most);
  while (share % micro != 0) --micro;
  return micro;
}

class PointMaker {
 public:
  PointMaker(const std::string& path, const std::vector<std::string>& own, const StudyGrid& grid)
      : path_(path), own_(own), grid_(grid), recipe_(load_recipe(path, own)), data_ranks_(data_ranks()) {
    if (!recipe_.save.upload.empty())
      throw InputError(fmt::format("{}: a study saves to its own folder; leave out save.upload", path));
    if (!recipe_.batch.ramp.empty()) {
      throw InputError(fmt::format("{}: each point of a study has one batch size; leave out batch.ramp", path));
    }
    if (!grid.steps_limit && !recipe_.run.steps) {
      throw InputError(fmt::format("{}: without run.steps, set a limit of steps per point with --steps-limit", path));
    }
    const auto every = evaluation_samples(recipe_, grid);
    if (!every) {
      throw InputError(fmt::format(
          "{}: without run.evaluate_every in steps or samples, set the samples between evaluations, the resolution of "
          "steps to the target, with --evaluate-samples",
          path));
    }
    evaluate_samples_ = static_cast<double>(*every);
  }

  const Recipe& recipe() const { return recipe_; }

  StudyPoint point(const std::string& optimizer, int64_t batch, double rate) const {
    StudyPoint point{.optimizer = optimizer, .batch = batch, .rate = rate};
    point.steps = *most_steps(recipe_, grid_);
    if (grid_.samples_limit) point.steps = std::min(point.steps, ceil_divide(*grid_.samples_limit, batch));
    point.evaluate_every = std::max<int64_t>(1, std::llround(evaluate_samples_ / static_cast<double>(batch)));
    point.overrides = {fmt::format("optimizer.name={}", optimizer),
                       fmt::format("batch.global={}", batch),
                       fmt::format("optimizer.lr={}", rate),
                       fmt::format("run.steps={}", point.steps),
                       fmt::format("run.evaluate_every={}", point.evaluate_every),
                       fmt::format("run.target={}", grid_.target)};
    if (const auto most = grid_.micro ? grid_.micro : recipe_.batch.micro) {
      point.overrides.push_back(fmt::format("batch.micro={}", micro_batch(batch, data_ranks_, *most)));
    }
    return point;
  }

  /// Checks the point as `weft train` would, so that a mistake is reported once, up front.
  void check(const StudyPoint& point) const {
    std::vector<std::string> all = own_;
    all.insert(all.end(), point.overrides.begin(), point.overrides.end());
    try {
      check_plan(load_recipe(path_, all), grid_.ranks);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{} (at batch {}, {}, lr {})", error.what(), point.batch, point.optimizer, point.rate));
    }
  }

 private:
  int64_t data_ranks() const {
    // Replaces the recipe's own batch, which may not divide, by one that does.
    Recipe even = recipe_;
    even.batch.micro.reset();
    even.batch.global = grid_.ranks * std::max<int64_t>(1, recipe_.run.reproducible_slots);
    return resolve(even, grid_.ranks).data_ranks();
  }

  const std::string path_;
  const std::vector<std::string> own_;
  const StudyGrid& grid_;
  const Recipe recipe_;
  const int64_t data_ranks_;
  double evaluate_samples_ = 0.0;
};

}  // namespace

std::string StudyPoint::name() const { return fmt::format("{}-b{}-lr{}", optimizer, batch, rate); }

std::vector<double> parse_progression(const std::string& text) {
  std::vector<double> numbers;
  const std::vector<std::string> parts = parts_of(text);
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool is_dots = parts[i] == "...";
    if (is_dots && ++i == parts.size()) refuse_list(text, "three dots need a number after them");
    const auto number = parse_number<double>(parts[i]);
    if (!number || !std::isfinite(*number) || *number <= 0.0) refuse_list(text, "that is not a list of numbers above 0");
    if (is_dots) fill_up(numbers, *number, text);
    numbers.push_back(*number);
  }
  return numbers;
}

std::vector<int64_t> parse_whole_progression(const std::string& text) {
  constexpr double kMost = 1e9;
  std::vector<int64_t> whole;
  for (const double number : parse_progression(text)) {
    if (number != std::floor(number) || number > kMost) refuse_list(text, "each must be a whole number up to 1e9");
    whole.push_back(static_cast<int64_t>(number));
  }
  return whole;
}

std::optional<int64_t> most_steps(const Recipe& recipe, const StudyGrid& grid) {
  return grid.steps_limit ? grid.steps_limit : recipe.run.steps;
}

std::optional<int64_t> evaluation_samples(const Recipe& recipe, const StudyGrid& grid) {
  const RunLength& every = recipe.run.evaluate_every;
  if (grid.evaluate_samples || !every) return grid.evaluate_samples;
  if (every.unit == LengthUnit::samples) return std::llround(every.amount);
  if (every.unit == LengthUnit::steps) return std::llround(every.amount) * recipe.batch.global;
  return std::nullopt;
}

std::vector<StudyPoint> study_points(const std::string& recipe_path, const std::vector<std::string>& own_overrides,
                                     const StudyGrid& grid) {
  const PointMaker maker(recipe_path, own_overrides, grid);
  const std::vector<double> rates = grid.rates.empty() ? std::vector{maker.recipe().optimizer.lr} : grid.rates;
  const std::vector<std::string> optimizers =
      grid.optimizers.empty() ? std::vector{maker.recipe().optimizer.name} : grid.optimizers;
  if (grid.batches.size() * rates.size() * optimizers.size() > kMostPoints) {
    throw InputError(fmt::format("a study of {} batches, {} rates and {} optimizers has more than {} points",
                                 grid.batches.size(), rates.size(), optimizers.size(), kMostPoints));
  }
  std::vector<StudyPoint> points;
  std::set<std::string> names;
  for (const int64_t batch : std::set<int64_t>(grid.batches.begin(), grid.batches.end())) {
    for (const std::string& optimizer : optimizers) {
      for (const double rate : std::set<double>(rates.begin(), rates.end())) {
        StudyPoint point = maker.point(optimizer, batch, rate);
        if (!names.insert(point.name()).second) continue;
        if (points.empty() || points.back().batch != batch || points.back().optimizer != optimizer) maker.check(point);
        points.push_back(std::move(point));
      }
    }
  }
  return points;
}

}  // namespace weft
