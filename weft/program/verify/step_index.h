// StepIndex: positions of a step's actions in a list. verify() uses it for all lookups.
#pragma once

#include <string>
#include <vector>

#include "weft/program/defect.h"
#include "weft/program/program.h"

namespace weft {

/// An index per block and column (micro-batch or slot), -1 until set. Blocks without entries take no memory.
class Grid {
 public:
  Grid(int blocks, int columns) : columns_(columns), rows_(blocks) {}

  int at(int block, int column) const { return rows_[block].empty() ? -1 : rows_[block][column]; }
  int& cell(int block, int column) {
    if (rows_[block].empty()) rows_[block].assign(columns_, -1);
    return rows_[block][column];
  }

 private:
  int columns_;
  std::vector<std::vector<int>> rows_;
};

/// Positions of actions: indices into the list, -1 if absent.
struct StepIndex {
  StepIndex(int blocks, int micro_batches, int slots);

  int forward_of(int block, int micro) const { return forward.at(block, micro); }
  /// Position of the backward, or of its input part.
  int backward_of(int block, int micro) const { return backward.at(block, micro); }
  /// Position that adds to the gradients: the backward, or its weight part.
  int weight_of(int block, int micro) const { return weight.at(block, micro); }
  /// Position of the send of the block's output, or its gradient.
  int sent_of(Payload what, int block, int micro) const { return moved(sent, what).at(block, micro); }
  /// Position of the receive of the block's output, or its gradient.
  int received_of(Payload what, int block, int micro) const { return moved(received, what).at(block, micro); }
  int drop_of(int block, int micro) const { return drop.at(block, micro); }
  int recompute_of(int block, int micro) const { return recompute.at(block, micro); }
  int scatter_of(int block, int micro) const { return scatter.at(block, micro); }
  int combine_of(int block, int slot) const { return combine.at(block, slot); }
  int squares_of(int block, int slot) const { return squares.at(block, slot); }

  std::vector<int> load, loss;      ///< by micro-batch
  Grid forward, backward;           ///< by block and micro-batch
  Grid weight;                      ///< by block and micro-batch
  Grid drop, recompute;             ///< by block and micro-batch: drop, and second forward
  Grid scatter;                     ///< by block and the last micro-batch that the reduce_scatter sums
  Grid combine, squares;            ///< by block and slot
  std::vector<int> reduce, update;  ///< by block
  std::vector<int> gather;          ///< by block: the gather_gradients
  std::vector<int> tie;             ///< by block: the reduce over the ranks that share it
  std::vector<int> partial;         ///< by block: the reduce over tp
  std::vector<bool> runs, held;     ///< by block: run by this rank; run, or used by a block that is run
  int reduce_loss = -1;
  int norm = -1;

  struct Moved {
    Grid activation, gradient;  ///< by block and micro-batch
    std::vector<int> batch;     ///< by micro-batch
  };
  Moved sent, received;

  std::vector<int> weights_received, sum_sent;  ///< by block
  std::vector<std::vector<int>> sums_received;  ///< by block, in list order
  std::vector<std::vector<int>> weights_sent;   ///< by block, in list order

 private:
  static const Grid& moved(const Moved& all, Payload what) { return what == Payload::gradient ? all.gradient : all.activation; }
};

/// Returns the index of the list that `rank` runs. Throws VerifyError for repeated actions. Values that check_program() accepts
/// are in range.
StepIndex index_step(const Program& program, int rank);

/// True if the block's gradients are summed over the pipeline ranks that share it.
bool is_tied(const Program& program, int block);

/// True if the rank does nothing for a block: another rank has the block, or the block has no parameters and a sharded level
/// works block by block.
bool is_left_out(const Program& program, const StepIndex& at, int block);

/// Throws a VerifyError whose text names rank and instruction.
[[noreturn]] void fail_at(const Program& program, int rank, int instruction, Defect defect, const std::string& text);

}  // namespace weft
