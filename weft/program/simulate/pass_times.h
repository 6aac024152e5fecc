// PassTimes: times of instructions with the communication inside their blocks.
#pragma once

#include <unordered_map>
#include <vector>

#include "weft/program/program.h"
#include "weft/program/simulate/network.h"
#include "weft/program/simulate/work_time.h"

namespace weft {

class PassTimes {
 public:
  /// The arguments must outlive this object.
  PassTimes(const Program& program, const WorkTime& work, Network& network)
      : program_(program), work_(work), network_(network) {}

  /// Time of an instruction that computes, inner calls included.
  double seconds(const Instruction& instruction);

 private:
  // Of the latest pass with calls, which the next micro-batch's pass usually takes too.
  struct PassTime {
    double flops = -1.0, alone = -1.0, seconds = 0.0;
  };

  const Program& program_;
  const WorkTime& work_;
  Network& network_;
  std::unordered_map<const std::vector<InnerCall>*, PassTime> passes_;
};

}  // namespace weft
