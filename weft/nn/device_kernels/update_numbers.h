// Numbers that an update needs beside gradients and state, made on the device where the host does not know the step's: rates of
// whole tensors (LARS, LAMB, Adafactor) and bias corrections. Compiled by g++ for the host and the checked device, and by nvcc.
#pragma once

#include <cmath>
#include <cstdint>

#include "weft/base/exact_digits.h"
#include "weft/base/host_device.h"

namespace weft {

/// How an optimizer makes a tensor's trust ratio of the norms of its weights, w, and of their update, u.
struct TrustRule {
  bool has_decay = false;  ///< trust w / (u / divisor + decay w + eps); otherwise w / u
  double trust = 1.0, eps = 0.0;
  double limit = 0.0;  ///< largest ratio; 0: none
};

/// Returns the ratio of a tensor, 1 if a norm is 0. `squares` [2, kSumWords]: exact sums of the squares of w and u.
WEFT_HOST_DEVICE inline double trust_ratio(const TrustRule& rule, const int64_t* squares, double decay, double divisor) {
  const double weights = std::sqrt(exact_value(squares)), move = std::sqrt(exact_value(squares + kSumWords));
  if (!(weights > 0.0 && move > 0.0)) return 1.0;
  const double ratio = rule.has_decay ? rule.trust * weights / (move / divisor + decay * weights + rule.eps) : weights / move;
  return rule.limit > 0.0 && ratio > rule.limit ? rule.limit : ratio;
}

/// The same as devices keep it; 1 if `decay` is NaN.
WEFT_HOST_DEVICE inline float ratio_or_one(const TrustRule& rule, const int64_t* squares, double decay, double divisor) {
  return decay == decay ? static_cast<float>(trust_ratio(rule, squares, decay, divisor)) : 1.0f;
}

/// What moments of Adam's are divided by at an update, counted from 1.
struct BiasCorrections {
  double mean = 1.0, root = 1.0;  ///< the mean, and the root of the mean square
};

WEFT_HOST_DEVICE inline BiasCorrections bias_corrections(double beta1, double beta2, double number) {
  return {1.0 - std::pow(beta1, number), std::sqrt(1.0 - std::pow(beta2, number))};
}

/// Writes those of the update `later` after the one whose number is in rate[1].
WEFT_HOST_DEVICE inline void put_corrections(const float* rate, int64_t later, double beta1, double beta2, float* to) {
  const BiasCorrections all = bias_corrections(beta1, beta2, static_cast<double>(rate[1]) + static_cast<double>(later));
  to[0] = static_cast<float>(all.mean);
  to[1] = static_cast<float>(all.root);
}

/// How Adafactor makes the numbers of a whole tensor's update.
struct FactoredRule {
  double numel = 0.0;  ///< of the whole tensor
  double beta2_decay = 0.0, min_rms = 0.0;
  double decay = 0.0;  ///< of its weights
};

/// What they are: this step's share of the mean squares, the factor of the weights, the rate of the move.
struct FactoredNumbers {
  double share = 0.0, kept = 1.0, rate = 0.0;
};
inline constexpr int kFactoredNumbers = 3;

/// Of an update, counted from 1; `squares` [kSumWords]: exact sum of the squares of the weights.
WEFT_HOST_DEVICE inline FactoredNumbers factored_numbers(const FactoredRule& rule, double lr, double number,
                                                         const int64_t* squares) {
  const double rms = rule.numel > 0.0 ? std::sqrt(exact_value(squares) / rule.numel) : 0.0, root = 1.0 / std::sqrt(number);
  return {.share = std::pow(number, rule.beta2_decay),
          .kept = 1.0 - lr * rule.decay,
          .rate = (root < lr ? root : lr) * (rule.min_rms < rms ? rms : rule.min_rms)};
}

/// What a device makes them of, and where they go.
struct FactoredBuffers {
  const float* rate = nullptr;  ///< [2]: the number of the step's update is the second
  const float* lr = nullptr;    ///< learning rate; null: the host knows it
  const int64_t* squares = nullptr;
  double* numbers = nullptr;  ///< [kFactoredNumbers], made
};

/// Writes those of the update `later` after the step's.
WEFT_HOST_DEVICE inline void put_factored_numbers(const FactoredRule& rule, double known_lr, int64_t later,
                                                  const FactoredBuffers& memory) {
  const double lr = memory.lr != nullptr ? static_cast<double>(*memory.lr) : known_lr;
  const double number = static_cast<double>(memory.rate[1]) + static_cast<double>(later);
  const FactoredNumbers all = factored_numbers(rule, lr, number, memory.squares);
  memory.numbers[0] = all.share;
  memory.numbers[1] = all.kept;
  memory.numbers[2] = all.rate;
}

}  // namespace weft
