// The part of verify() for sums: gradients, their norm and the loss are complete before use.
#pragma once

#include <string>
#include <vector>

#include "weft/program/copies.h"
#include "weft/program/program.h"
#include "weft/program/verify/order.h"
#include "weft/program/verify/step_index.h"

namespace weft {

/// Checks of the sums in one list.
class SumCheck {
 public:
  /// Checks the list that `rank` runs; `at` is its index, `order` its order. All arguments must outlive this object.
  SumCheck(const Program& program, int rank, const StepIndex& at, const Order& order);

  /// Throws VerifyError if instruction `i` combines, reduces or uses gradients before all of them are complete.
  void check(int i) const;

 private:
  [[noreturn]] void fail(Defect defect, int i, const std::string& text) const { fail_at(program_, rank_, i, defect, text); }
  void check_combine(int i) const;
  void check_scatter(int i) const;
  void check_reduce(int i) const;
  void check_squares(int i) const;
  void check_squares_before(int i) const;
  void check_norm(int i) const;
  void check_final(int i) const;
  void check_update(int i) const;
  void check_sum(int i) const;

  bool sharded() const { return program_.shard_level != ShardLevel::none; }
  bool before(int a, int b) const { return order_.before(a, b); }
  int last_scatter(int block) const { return at_.scatter_of(block, micro_batches_ - 1); }
  int unfinished_backward(int block, const MicroRange& micros, int i) const;
  std::string not_taken_in(int block, int i) const;
  std::string not_summed_locally(int block, int i) const;
  std::string not_reducible(int block, int i) const;
  std::string not_summed(int block, int i) const;
  std::string not_summed_over_data(int block, int i) const;
  std::string not_final(int block, int i) const;

  const Program& program_;
  const InstructionList& list_;
  int rank_, blocks_, micro_batches_;
  MicroRange micros_;  ///< micro-batches of the rank
  bool owns_;          ///< the rank updates its blocks
  const StepIndex& at_;
  const Order& order_;
  std::vector<std::vector<int>> writers_;  ///< by block: this rank's blocks that add to its gradients
};

}  // namespace weft
