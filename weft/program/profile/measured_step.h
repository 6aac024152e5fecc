// MeasuredStep: when every rank ran the instructions of a step, and the operators in them. What profiles are made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/operator_work.h"
#include "weft/program/program.h"

namespace weft {

/// When an instruction ran, in seconds from an origin that all ranks share.
struct MeasuredInstruction {
  double start_s = 0.0;   ///< after its waits
  double issued_s = 0.0;  ///< when its rank went on to what comes next
  double end_s = 0.0;     ///< if it overlaps others: when a wait for it returned
  double inner_s = 0.0;   ///< what its block spent in collectives over tp and cp
};

/// A call of an operator: of LibTorch's, of weft's kernels, or of autograd's nodes.
struct MeasuredOperator {
  std::string name = {};    ///< "aten::addmm"
  double start_s = 0.0;     ///< from the same origin
  double end_s = 0.0;       ///< when it returned; on a device, when the device was done with it
  bool is_kernel = false;   ///< computes, and is no part of another operator that does
  PassOperators work = {};  ///< of a kernel, as far as it is known
};

/// A step of a program.
struct MeasuredStep {
  int64_t step = 0;                                           ///< counted from 1
  std::vector<std::vector<MeasuredInstruction>> ranks = {};   ///< by rank and instruction
  std::vector<std::vector<MeasuredOperator>> operators = {};  ///< by rank, in the order of their ends; empty for ranks left out

  double begin_s(int rank) const;  ///< when the rank began; 0 without instructions
  double end_s(int rank) const;    ///< when it was done
  double first_begin_s() const;    ///< when the first rank began
  double seconds() const;          ///< from then to the last one's end
};

/// Throws InputError unless all ranks of the program have a time for each instruction, none of which ends before it starts.
void check_measured(const Program& program, const MeasuredStep& step);

/// Kind of each instruction of a list, for tables: "forward", "recompute", "reduce over dp", "send activation".
std::vector<std::string> kinds_of(const InstructionList& list);

}  // namespace weft
