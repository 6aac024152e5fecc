// fit_rates: a device's rates of operators, from measured samples.
#pragma once

#include <string>
#include <vector>

#include "weft/program/simulate/operator_rates.h"
#include "weft/train/measure/block_samples.h"
#include "weft/train/measure/operator_samples.h"

namespace weft {

/// How well a class's rate describes its samples.
struct FitError {
  std::string of;         ///< name of the class
  int element_bytes = 4;  ///< size of its elements
  int samples = 0;        ///< number of samples
  double median = 0.0;    ///< of |fitted / measured - 1|
  double largest = 0.0;   ///< the same, the largest
};

/// Rates that describe the samples with the least sum of squares of (fitted / measured - 1), none of them negative; near_bytes
/// is the power of two that does so best. Reports the errors to `errors`, in the order of classes.
OperatorRates fit_rates(const std::vector<OperatorSample>& samples, std::vector<FitError>* errors = nullptr);

/// What training steps add to the times of operators alone.
struct StepOverheads {
  double instruction_s = 0.0;  ///< per instruction: its first calls find other code and tensors in the caches
  double byte_s = 0.0;         ///< per byte that operators read or write: more tensors are in use than caches hold
};

/// Overheads with which the blocks' times are met best, as ratios; none is negative.
StepOverheads fit_overheads(const std::vector<BlockSample>& samples);

/// Rates with the overhead of bytes.
OperatorRates with_overheads(OperatorRates rates, const StepOverheads& overheads);

/// Rates of one thread, from those that `threads` threads of a rank have, which compute threads^power times as fast.
OperatorRates rates_of_one_thread(OperatorRates rates, int threads, double power);

}  // namespace weft
