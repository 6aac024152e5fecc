// StepProfile: where the time of measured steps went, and what would make them shorter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/program/profile/critical_path.h"
#include "weft/program/profile/measured_step.h"
#include "weft/program/profile/operator_table.h"
#include "weft/program/simulate/hardware.h"

namespace weft {

/// A share of the critical path.
struct PathShare {
  std::string what = {};  ///< "forward", "reduce over dp: bytes", "host"
  int rank = 0;           ///< whose
  double seconds = 0.0;
};

/// The step's time if something took less.
struct FasterStep {
  std::string what = {};   ///< "backward", "communication over dp", "aten::addmm", "compute of rank 2"
  double seconds = 0.0;    ///< what it takes now, on the rank where it takes most
  double half_s = 0.0;     ///< the step if it took half the time
  double nothing_s = 0.0;  ///< the step if it took none
};

/// Of several steps; what is not a mean is of the one with the median time.
struct StepProfile {
  std::vector<int64_t> steps = {};
  int64_t step = 0;                         ///< the one with the median time
  double step_s = 0.0;                      ///< its time
  double replayed_s = 0.0;                  ///< the same by its dependencies: what `faster` is to be compared with
  double compute_s = 0.0;                   ///< of instructions that compute, mean of the ranks whose operators are known
  double kernels_s = 0.0;                   ///< part of that in kernels
  std::vector<OperatorRow> operators = {};  ///< longest first
  std::vector<PathShare> path = {};         ///< longest first; they add up to step_s
  std::vector<RankWait> waits = {};         ///< longest first
  std::vector<FasterStep> faster = {};      ///< what wins most first
  std::string hardware = {};                ///< whose rates OperatorRow::best_s has; empty: none
};

/// Throws InputError without steps, and as check_measured() does. `hardware` may be null; it counts if it has rates of
/// operators.
StepProfile profile_of(const Program& program, const std::vector<MeasuredStep>& steps, const Hardware* hardware);

}  // namespace weft
