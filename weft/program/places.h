// Places: where in a list each thing of a step is done. What verify() looks everything up in.
#pragma once

#include <string>
#include <vector>

#include "weft/program/program.h"
#include "weft/program/verify.h"

namespace weft {

/// Indices into the list, -1 where a thing is not done.
struct Places {
  Places(int blocks, int micro_batches, int slots);

  int forward_of(int block, int micro) const { return forward[block * micro_batches + micro]; }
  /// The backward, or its input's part.
  int backward_of(int block, int micro) const { return backward[block * micro_batches + micro]; }
  /// What adds to the gradients: the backward, or its weights' part.
  int weight_of(int block, int micro) const { return weight[block * micro_batches + micro]; }
  /// Transfers of the block's output, and of its gradient.
  int sent_of(Matter what, int block, int micro) const { return moved(sent, what)[block * micro_batches + micro]; }
  int received_of(Matter what, int block, int micro) const { return moved(received, what)[block * micro_batches + micro]; }
  int drop_of(int block, int micro) const { return drop[block * micro_batches + micro]; }
  int recompute_of(int block, int micro) const { return recompute[block * micro_batches + micro]; }
  int scatter_of(int block, int micro) const { return scatter[block * micro_batches + micro]; }
  int combine_of(int block, int slot) const { return combine[block * slots + slot]; }

  int micro_batches, slots;
  std::vector<int> load, loss;         ///< by micro-batch
  std::vector<int> forward, backward;  ///< by block and micro-batch
  std::vector<int> weight;             ///< the same
  std::vector<int> drop, recompute;    ///< the same: what was forgotten, and its second forward
  std::vector<int> scatter;            ///< the same: reduce_scatter, by the last micro-batch it sums
  std::vector<int> combine;            ///< by block and slot
  std::vector<int> reduce, update;     ///< by block
  std::vector<int> tie;                ///< by block: the reduce over the ranks that share it
  std::vector<bool> runs, held;        ///< by block: run by this rank; that, or used by one that is
  int reduce_loss = -1;
  int norm = -1;

  struct Moved {
    std::vector<int> activation, gradient;  ///< by block and micro-batch
  };
  Moved sent, received;

 private:
  static const std::vector<int>& moved(const Moved& all, Matter what) {
    return what == Matter::gradient ? all.gradient : all.activation;
  }
};

/// Throws VerifyError for indices and waits out of range and for whatever is done twice.
Places find_places(const Program& program, int rank);

/// Its gradients are summed over the pipeline ranks that share it.
bool is_tied(const Program& program, int block);

/// Blocks of other ranks; and sharded levels work block by block and leave those without parameters out.
bool is_left_out(const Program& program, const Places& at, int block);

/// Throws a VerifyError whose text names rank and instruction.
[[noreturn]] void fail_at(const Program& program, int rank, int instruction, Defect defect, const std::string& text);

}  // namespace weft
