#include "weft/optim/state_meaning.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/optim/element_wise_update.h"

namespace weft {

namespace {

/// Content of a state tensor.
constexpr const char* kMean = "mean of gradients, corrected by its age";
constexpr const char* kSquares = "mean of squared gradients, corrected by its age";
constexpr const char* kPlainMean = "mean of gradients";
constexpr const char* kOwnSquares = "mean of squared gradients with weight decay";
constexpr const char* kSum = "decaying sum of gradients";
constexpr const char* kSumOfMoves = "decaying sum of gradients over the roots of their squares";
constexpr const char* kRatedSum = "decaying sum of gradients times their tensor's rate";

using Meanings = std::map<std::string, std::string>;
Meanings meanings(const AdamW& /*o*/) { return {{"exp_avg", kMean}, {"exp_avg_sq", kSquares}}; }
Meanings meanings(const Sgd& /*o*/) { return {{"momentum_buffer", kSum}}; }
Meanings meanings(const Lars& /*o*/) { return {{"momentum_buffer", kRatedSum}}; }
Meanings meanings(const Lamb& /*o*/) { return {{"exp_avg", kMean}, {"exp_avg_sq", kSquares}}; }
Meanings meanings(const Lion& /*o*/) { return {{"exp_avg", kPlainMean}}; }
Meanings meanings(const RmsProp& /*o*/) { return {{"square_avg", kOwnSquares}, {"momentum_buffer", kSumOfMoves}}; }
Meanings meanings(const Adagrad& /*o*/) { return {{"sum", "sum of squared gradients with weight decay"}}; }
Meanings meanings(const Muon& /*o*/) { return {{"momentum_buffer", kPlainMean}, {"exp_avg", kMean}, {"exp_avg_sq", kSquares}}; }
Meanings meanings(const Adafactor& /*o*/) {
  return {{"variance", "mean of squared gradients, of a share that falls with its age"},
          {"row_var", "the same of rows"},
          {"col_var", "the same of columns"}};
}
Meanings meanings(const CustomOptimizer& o) {
  Meanings result;
  for (const std::string& state : o.update->state_names()) result[state] = fmt::format("'{}' of {}", state, o.update->name());
  return result;
}

}  // namespace

std::map<std::string, std::string> state_meanings(const OptimizerOptions& options) {
  return std::visit([](const auto& o) { return meanings(o); }, options);
}

std::map<std::string, std::string> meanings_of_names(const std::vector<std::string>& names) {
  const auto has = [&names](const char* name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  if (has("exp_avg_sq")) return meanings(Muon{});
  if (has("exp_avg")) return meanings(Lion{});
  if (has("square_avg")) return meanings(RmsProp{});
  return {};
}

}  // namespace weft
