// Defect: what can be wrong with a program, and the error that says where.
#pragma once

#include <string>
#include <string_view>

#include "weft/base/enum_names.h"
#include "weft/base/error.h"

namespace weft {

/// A kind of defect.
enum class Defect {
  out_of_range,          ///< a block, micro-batch, slot or list that the program does not have
  bad_wait,              ///< an instruction waits for itself, for a later one, or for one that is not there
  repeated,              ///< a load, forward, drop, loss, loss reduction or norm that is there twice
  use_before_load,       ///< forward of a micro-batch that was not loaded, or forward or loss before the block before it
  backward_before_loss,  ///< backward before its loss, or before the next block's backward; a weights' part before the input's
  bad_order,             ///< micro-batches loaded, or added to gradients, out of order
  double_backward,       ///< a block's backward run twice for one micro-batch
  missing_recompute,     ///< a backward of what was dropped and not computed again
  missing_forward,       ///< a micro-batch that does not reach some block
  missing_backward,      ///< a micro-batch that does not reach some block's gradients
  bad_combine,           ///< a slot closed twice, not at all, out of order, or without all of its micro-batches and no others
  bad_squares,           ///< squares of a small batch's gradients not taken, or of others than its first micro-batch's alone
  missing_reduce,        ///< a block is updated though its gradients, or the losses, were never summed over the replicas
  double_reduce,         ///< summed twice
  early_reduce,          ///< reduced before the last backward or loss it sums, or before the slots were combined
  wrong_axis,            ///< a collective over other ranks than those that hold what it sums or gathers
  missing_norm,          ///< no norm, though the program needs one
  early_norm,            ///< norm of gradients that are not final yet, or before the loss whose count it divides by
  missing_update,        ///< a block that is never updated
  double_update,         ///< updated twice
  early_update,          ///< updated, or gathered for it, before its reduce, the norm or loss it is scaled by, or that gather
  not_gathered,          ///< a block that runs without its whole weights, before their gather or after their release
  bad_gather,            ///< gathered twice, released twice, never released, or not gathered after its update, or for it
  buffer_conflict,       ///< a block is gathered, or runs backward, while another one is in its buffer
  bad_move,              ///< offloaded or reloaded twice, or used while it is elsewhere
  bad_bytes,             ///< more bytes freed than are live, or some that the step never frees (bytes_check.h)
  order_mismatch,        ///< ranks that do the same, or share an axis, meet others for different things or in another order
  misplaced_block,       ///< a block that no pipeline rank runs, or several, or that the rank does not hold
  missing_send,          ///< an output, or its gradient, that another stage needs and nobody sends
  pending_send,          ///< a collective that does not wait for a message still on its way (passes/waits.h says why)
  transfer_mismatch,     ///< a message that is not the one its receiver takes next
  deadlock,              ///< ranks that wait for one another where a send waits for its receive
};
/// The words for defects.
inline constexpr EnumNames<Defect, 32> kDefects("out_of_range", "bad_wait", "repeated", "use_before_load",
                                                "backward_before_loss", "bad_order", "double_backward", "missing_recompute",
                                                "missing_forward", "missing_backward", "bad_combine", "bad_squares",
                                                "missing_reduce", "double_reduce", "early_reduce", "wrong_axis", "missing_norm",
                                                "early_norm", "missing_update", "double_update", "early_update", "not_gathered",
                                                "bad_gather", "buffer_conflict", "bad_move", "bad_bytes", "order_mismatch",
                                                "misplaced_block", "missing_send", "pending_send", "transfer_mismatch",
                                                "deadlock");

/// The word for a defect: "missing_reduce".
inline std::string_view name(Defect defect) { return kDefects.of(defect); }

/// A program has a defect; the text says where.
class VerifyError : public Error {
 public:
  /// `text` is the whole of what().
  VerifyError(Defect defect, int rank, const std::string& text) : Error(text), defect(defect), rank(rank) {}
  Defect defect;  ///< what is wrong
  int rank;       ///< the first rank that has it
};

}  // namespace weft
