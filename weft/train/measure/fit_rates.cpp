#include "weft/train/measure/fit_rates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "weft/base/median.h"

namespace weft {
namespace {

constexpr size_t kTerms = 5;  // those of OperatorRate
using Terms = std::array<double, kTerms>;
constexpr int64_t kLeastNear = 1 << 18, kMostNear = 1 << 26;

using Samples = std::vector<const OperatorSample*>;
/// Samples by class and size of elements.
using Classes = std::map<std::pair<OperatorClass, int>, Samples>;

Terms terms_of(const OperatorSample& sample, double near_bytes) {
  const OperatorLoad& load = sample.load;
  return {1.0, load.work, load.bytes, std::max(0.0, load.bytes - near_bytes), load.extra};
}

double dot(const Terms& a, const Terms& b) {
  double sum = 0.0;
  for (size_t i = 0; i < kTerms; ++i) sum += a[i] * b[i];
  return sum;
}

/// Solves for the terms in `active` by Gaussian elimination of the normal equations; a term that says nothing new becomes 0.
Terms solved(std::array<Terms, kTerms> matrix, Terms right, const std::array<bool, kTerms>& active) {
  constexpr double kSingular = 1e-9;
  Terms scale{};
  for (size_t i = 0; i < kTerms; ++i) scale[i] = matrix[i][i];
  std::array<bool, kTerms> is_pivot{};
  for (size_t i = 0; i < kTerms; ++i) {
    if (!active[i] || !(matrix[i][i] > kSingular * scale[i])) continue;
    is_pivot[i] = true;
    for (size_t row = 0; row < kTerms; ++row) {
      if (row == i) continue;
      const double factor = matrix[row][i] / matrix[i][i];
      for (size_t column = 0; column < kTerms; ++column) matrix[row][column] -= factor * matrix[i][column];
      right[row] -= factor * right[i];
    }
  }
  Terms result{};
  for (size_t i = 0; i < kTerms; ++i) result[i] = is_pivot[i] ? right[i] / matrix[i][i] : 0.0;
  return result;
}

/// A sample's terms over its weight: what the time that it is compared with becomes 1 by.
struct Row {
  Terms terms;
  double target;
};

/// Least squares of terms . result - target, with results of at least 0: drops the most negative term until there is none.
Terms least_squares(const std::vector<Row>& rows) {
  std::array<Terms, kTerms> matrix{};
  Terms right{}, size{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < kTerms; ++i) size[i] = std::max(size[i], row.terms[i]);
  }
  const auto scaled = [&size](const Row& row, size_t i) { return size[i] > 0.0 ? row.terms[i] / size[i] : 0.0; };
  for (const Row& row : rows) {
    for (size_t i = 0; i < kTerms; ++i) {
      right[i] += scaled(row, i) * row.target;
      for (size_t j = 0; j < kTerms; ++j) matrix[i][j] += scaled(row, i) * scaled(row, j);
    }
  }
  std::array<bool, kTerms> active{};
  for (size_t i = 0; i < kTerms; ++i) active[i] = size[i] > 0.0;
  for (;;) {
    Terms result = solved(matrix, right, active);
    auto* least = std::min_element(result.begin(), result.end());
    if (*least < 0.0) {
      active[static_cast<size_t>(least - result.begin())] = false;
      continue;
    }
    for (size_t i = 0; i < kTerms; ++i) result[i] = size[i] > 0.0 ? result[i] / size[i] : 0.0;
    return result;
  }
}

/// Weighs each sample by its time and the time fitted before, in turns: errors count as in their logarithm, to which a fit that
/// is twice as long is as wrong as one half as long.
Terms fitted(const Samples& samples, double near_bytes) {
  constexpr int kRounds = 4;
  Terms rate{};
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Row> rows;
    for (const OperatorSample* sample : samples) {
      Row row{.terms = terms_of(*sample, near_bytes), .target = 0.0};
      const double before = round == 0 ? sample->seconds : dot(rate, row.terms);
      const double weight = 1.0 / std::sqrt(std::max(before, 0.1 * sample->seconds) * sample->seconds);
      for (double& term : row.terms) term *= weight;
      row.target = weight * sample->seconds;
      rows.push_back(row);
    }
    rate = least_squares(rows);
  }
  return rate;
}

std::vector<double> errors_of(const Samples& samples, const Terms& rate, double near_bytes) {
  std::vector<double> errors;
  errors.reserve(samples.size());
  for (const OperatorSample* sample : samples) {
    errors.push_back(std::abs(dot(rate, terms_of(*sample, near_bytes)) / sample->seconds - 1.0));
  }
  return errors;
}

double squares(const Classes& classes, double near_bytes) {
  double sum = 0.0;
  for (const auto& [of, samples] : classes) {
    for (const double error : errors_of(samples, fitted(samples, near_bytes), near_bytes)) sum += error * error;
  }
  return sum;
}

}  // namespace

OperatorRates fit_rates(const std::vector<OperatorSample>& samples, std::vector<FitError>* errors) {
  Classes classes;
  for (const OperatorSample& sample : samples) classes[{sample.of, sample.element_bytes}].push_back(&sample);
  OperatorRates rates{.near_bytes = static_cast<double>(kLeastNear)};
  double best = squares(classes, rates.near_bytes);
  for (int64_t near = 2 * kLeastNear; near <= kMostNear; near *= 2) {
    const double sum = squares(classes, static_cast<double>(near));
    if (sum >= best) continue;
    best = sum;
    rates.near_bytes = static_cast<double>(near);
  }
  for (const auto& [of, own] : classes) {
    const Terms rate = fitted(own, rates.near_bytes);
    rates.of.push_back({.of = std::string(kOperatorClasses.of(of.first)),
                        .element_bytes = of.second,
                        .start_s = rate[0],
                        .work_s = rate[1],
                        .byte_s = rate[2],
                        .far_byte_s = rate[3],
                        .extra_s = rate[4]});
    if (errors == nullptr) continue;
    const std::vector<double> own_errors = errors_of(own, rate, rates.near_bytes);
    errors->push_back({rates.of.back().of, of.second, static_cast<int>(own.size()), median(own_errors),
                       *std::max_element(own_errors.begin(), own_errors.end())});
  }
  return rates;
}

StepOverheads fit_overheads(const std::vector<BlockSample>& samples) {
  std::vector<Row> rows;
  rows.reserve(samples.size());
  for (const BlockSample& sample : samples) {
    if (sample.measured_s <= 0.0) continue;
    const double weight = 1.0 / sample.measured_s;
    rows.push_back({.terms = {weight, 0.0, weight * sample.bytes}, .target = 1.0 - weight * sample.alone_s});
  }
  const Terms found = least_squares(rows);
  return {.instruction_s = found[0], .byte_s = found[2]};
}

OperatorRates with_overheads(OperatorRates rates, const StepOverheads& overheads) {
  for (OperatorRate& rate : rates.of) rate.byte_s += overheads.byte_s;
  return rates;
}

OperatorRates rates_of_one_thread(OperatorRates rates, int threads, double power) {
  const double longer = std::pow(threads, power);
  for (OperatorRate& rate : rates.of) {
    for (double* value : {&rate.start_s, &rate.work_s, &rate.byte_s, &rate.far_byte_s, &rate.extra_s}) *value *= longer;
  }
  return rates;
}

}  // namespace weft
