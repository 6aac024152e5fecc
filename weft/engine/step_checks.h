// StepChecks: checks of one rank's steps: the first value that is not finite with what made it, and ranges by block.
//
// Every instruction that computes is a scope: its operators are watched (operator_watch.h), its inputs and outputs read. What
// counts is a loss, a gradient or an activation handed to another stage that is not finite: it is followed back to its origin.
// So a mask's infinities, or a NaN that a later operator leaves out, are not found.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "weft/engine/operator_watch.h"
#include "weft/nn/flat/flat_model.h"

namespace weft {

/// The values of a block in a step, over this rank's micro-batches.
struct BlockRange {
  int block = 0;
  std::string what = {};  ///< "output", "gradient of the output", "gradients", "weights"
  double least = 0.0, greatest = 0.0;
  double squares = 0.0;  ///< sum
  int64_t numel = 0;     ///< of finite values
  int64_t not_finite = 0;

  /// Joins further values of the same block.
  void add(const BlockRange& other);
};

/// Joins the range to that of the same block and `what`, or adds it.
void add_range(const BlockRange& range, std::vector<BlockRange>& all);

/// A scope's place in the step.
struct CheckedCall {
  const char* pass = "";
  int block = 0;
  int64_t micro_batch = -1;
  int64_t first_sample = -1;  ///< position in the run of the micro-batch's first
  int64_t samples = 0;        ///< of the micro-batch on this rank
};

class StepChecks {
 public:
  /// Without `watches_operators`, only ranges are kept.
  StepChecks(FlatModel& model, bool watches_operators);

  void begin_step();
  /// Before a block runs: `is_data` if its inputs are the batch's.
  void begin_forward(CheckedCall call, const Tensors& inputs, bool is_data);
  void end_forward(const Tensors& outputs);
  void begin_loss(const CheckedCall& call, const Tensors& outputs, const at::Tensor& target);
  void end_loss(const at::Tensor& sum);
  void end_loss_backward(const Tensors& gradients);  ///< of the outputs
  void begin_backward(const CheckedCall& call, const Tensors& gradients);
  /// `inputs`: gradients of the block's inputs.
  void end_backward(const Tensors& inputs);
  void begin_update(int block);
  void end_update(int block);
  void sent(const Tensors& values);  ///< to another stage

  const std::shared_ptr<SeenOperators>& seen() const { return seen_; }  ///< for an OperatorWatch; null: none
  const std::optional<Finding>& finding() const { return finding_; }    ///< the first of the step
  const std::vector<BlockRange>& ranges() const { return ranges_; }     ///< in order of their first value

 private:
  void begin(const CheckedCall& call, const Tensors& inputs);
  void end();
  void look_at_weights(int block);
  void look_at_inputs(const Tensors& inputs, Finding::Kind kind);
  void look_at_gradients(int block);
  bool judge(const at::Tensor& value, const std::string& name = {});
  void add_range(int block, const char* what, const at::Tensor& value, bool replaces = false);

  FlatModel& model_;
  std::shared_ptr<SeenOperators> seen_;  ///< null: operators are not watched
  CheckedCall call_;
  std::set<std::pair<int, int64_t>> forwarded_;  ///< blocks and micro-batches
  std::optional<Finding> finding_;
  std::vector<BlockRange> ranges_;
};

}  // namespace weft
