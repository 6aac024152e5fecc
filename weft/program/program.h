// Program: the step of every rank, as lists of instructions. What is verified, simulated and drawn is what runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/program/instruction.h"

namespace weft {

/// What one block costs for one micro-batch. Measured on the meta device by nn/cost.h, or written by hand in tests.
struct BlockCost {
  std::string name;
  int64_t parameters = 0;  ///< elements that are trained
  int64_t flat_bytes = 0;  ///< bytes of its flat gradient buffer, padding and statistics included
  double forward_flops = 0.0;
  double backward_flops = 0.0;
  int64_t saved_bytes = 0;   ///< activations its backward keeps, its input excluded
  int64_t output_bytes = 0;  ///< what it hands to the next block
};

struct ModelCost {
  std::string name;
  std::vector<BlockCost> blocks;
  int64_t input_bytes = 0;  ///< one micro-batch as loaded
};

using InstructionList = std::vector<Instruction>;

struct Program {
  std::vector<std::string> block_names;
  std::vector<int64_t> block_bytes;  ///< flat gradient bytes of each block
  int micro_batches = 1;             ///< per rank and step
  int slots = 1;                     ///< per rank and step; divides micro_batches
  int replicas = 1;                  ///< ranks the gradients are summed over
  std::vector<InstructionList> lists;
  std::vector<int> list_of_rank;  ///< world rank -> index into lists

  int world_size() const { return static_cast<int>(list_of_rank.size()); }
  const InstructionList& of(int rank) const { return lists[list_of_rank[rank]]; }
};

}  // namespace weft
