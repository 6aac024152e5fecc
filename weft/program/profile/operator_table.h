// operator_table: kernels of measured steps by name, shape and kind of instruction.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/program/profile/measured_step.h"
#include "weft/program/simulate/hardware.h"

namespace weft {

/// Calls of a kernel with one shape, in one kind of instruction; means per step and rank, of the ranks whose operators are
/// known.
struct OperatorRow {
  std::string name = {};   ///< "aten::addmm"
  std::string kind = {};   ///< of the instruction: "forward"
  std::string shape = {};  ///< of products and attention; empty: all sizes together
  double calls = 0.0;      ///< number of calls
  double seconds = 0.0;    ///< that they took
  double flops = 0.0;      ///< floating-point operations of products and attention
  double bytes = 0.0;      ///< read and written, of everything else
  double best_s = 0.0;     ///< what the hardware file says that they take; 0: it does not
};

/// Calls of(index of the instruction, operator) for each kernel of a rank; the list's size: in none.
void each_kernel(const MeasuredStep& step, int rank, const std::function<void(int index, const MeasuredOperator& kernel)>& of);

/// Rows, longest first. `hardware` may be null.
std::vector<OperatorRow> operator_table(const Program& program, const std::vector<MeasuredStep>& steps,
                                        const Hardware* hardware);

}  // namespace weft
