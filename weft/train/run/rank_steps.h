// RankSteps: the steps that ranks measured for a profile, as bytes, and put together on rank 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/program/profile/measured_step.h"

namespace weft {

/// A step as one rank measured it, on its host's clock.
struct RankStep {
  int64_t step = 0;  ///< counted from 1
  std::vector<MeasuredInstruction> instructions = {};
  std::vector<MeasuredOperator> operators = {};
};

/// The steps as bytes (CBOR, RFC 8949), times counted from `origin_s`.
std::string packed(const std::vector<RankStep>& steps, double origin_s);

/// Puts the packed steps of all ranks together, in their order; times count from the first begin of any. Throws Error for bytes
/// that packed() has not made.
std::vector<MeasuredStep> joined_steps(const std::vector<std::string>& ranks);

}  // namespace weft
