// Defect: kinds of defects of a program, and the error that locates one.
#pragma once

#include <string>
#include <string_view>

#include "weft/base/enum_names.h"
#include "weft/base/error.h"

namespace weft {

/// A kind of defect.
enum class Defect {
  out_of_range,          ///< a block, micro-batch, slot or list that the program does not have
  bad_wait,              ///< an instruction waits for itself, a later instruction or a nonexistent one
  repeated,              ///< a load, forward, drop, loss, loss reduction or norm appears twice
  use_before_load,       ///< forward of a micro-batch not loaded, or forward or loss before the preceding block
  backward_before_loss,  ///< backward before its loss or the next block's backward; weight part before input part
  bad_order,             ///< micro-batches loaded, or added to gradients, out of order
  double_backward,       ///< a block's backward run twice for one micro-batch
  missing_recompute,     ///< backward after a drop without recompute
  missing_forward,       ///< a micro-batch that does not reach some block
  missing_backward,      ///< a micro-batch that does not reach some block's gradients
  bad_combine,           ///< a slot closed twice, never, out of order, or with the wrong micro-batches
  bad_squares,           ///< squares of a small batch missing, or not of its first micro-batch alone
  missing_reduce,        ///< a block is updated though its gradients, or the losses, were not summed over the replicas
  double_reduce,         ///< gradients or losses are summed twice
  early_reduce,          ///< reduced before the last backward or loss it sums, or before the slots were combined
  wrong_axis,            ///< a collective over ranks other than those that hold its operands
  missing_norm,          ///< the program needs a norm but does not compute it
  early_norm,            ///< norm of unfinished gradients, or before the loss whose count it divides by
  missing_update,        ///< a block that is never updated
  double_update,         ///< a block is updated twice
  early_update,          ///< an update, or the gather for it, before the reduce, norm, loss or gather that it needs
  not_gathered,          ///< a block runs before its whole weights are gathered or after their release
  bad_gather,            ///< gathered twice, released twice, never released, or not gathered for or after its update
  buffer_conflict,       ///< a block is gathered, or runs backward, while another block is in its buffer
  bad_move,              ///< offloaded or reloaded twice, or used while offloaded
  bad_bytes,             ///< more bytes are freed than are live, or bytes are never freed (bytes_check.h)
  order_mismatch,        ///< identical ranks, or ranks on one axis, issue different collectives or another order
  misplaced_block,       ///< a block is run by no pipeline rank or by several, or not held by its rank
  missing_send,          ///< an output or gradient that another stage needs is not sent
  pending_send,          ///< a collective does not wait for a message in flight (passes/waits.h says why)
  transfer_mismatch,     ///< a message differs from the one that its receiver expects
  deadlock,              ///< ranks wait for one another if each send blocks until it is received
};
/// Names of defects.
inline constexpr EnumNames<Defect, 32> kDefects("out_of_range", "bad_wait", "repeated", "use_before_load",
                                                "backward_before_loss", "bad_order", "double_backward", "missing_recompute",
                                                "missing_forward", "missing_backward", "bad_combine", "bad_squares",
                                                "missing_reduce", "double_reduce", "early_reduce", "wrong_axis", "missing_norm",
                                                "early_norm", "missing_update", "double_update", "early_update", "not_gathered",
                                                "bad_gather", "buffer_conflict", "bad_move", "bad_bytes", "order_mismatch",
                                                "misplaced_block", "missing_send", "pending_send", "transfer_mismatch",
                                                "deadlock");

/// Name of a defect: "missing_reduce".
inline std::string_view name(Defect defect) { return kDefects.of(defect); }

/// A program has a defect; the text says where.
class VerifyError : public Error {
 public:
  /// `text` becomes what(), with nothing added.
  VerifyError(Defect defect, int rank, const std::string& text) : Error(text), defect(defect), rank(rank) {}
  Defect defect;  ///< kind of defect
  int rank;       ///< the first rank that has it
};

}  // namespace weft
