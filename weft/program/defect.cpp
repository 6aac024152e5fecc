#include "weft/program/defect.h"

namespace weft {

std::string_view name(Defect defect) {
  switch (defect) {
    case Defect::out_of_range:
      return "out_of_range";
    case Defect::bad_wait:
      return "bad_wait";
    case Defect::repeated:
      return "repeated";
    case Defect::use_before_load:
      return "use_before_load";
    case Defect::backward_before_loss:
      return "backward_before_loss";
    case Defect::double_backward:
      return "double_backward";
    case Defect::missing_recompute:
      return "missing_recompute";
    case Defect::bad_order:
      return "bad_order";
    case Defect::missing_forward:
      return "missing_forward";
    case Defect::missing_backward:
      return "missing_backward";
    case Defect::bad_combine:
      return "bad_combine";
    case Defect::missing_reduce:
      return "missing_reduce";
    case Defect::double_reduce:
      return "double_reduce";
    case Defect::early_reduce:
      return "early_reduce";
    case Defect::wrong_axis:
      return "wrong_axis";
    case Defect::missing_norm:
      return "missing_norm";
    case Defect::early_norm:
      return "early_norm";
    case Defect::missing_update:
      return "missing_update";
    case Defect::double_update:
      return "double_update";
    case Defect::early_update:
      return "early_update";
    case Defect::not_gathered:
      return "not_gathered";
    case Defect::bad_gather:
      return "bad_gather";
    case Defect::buffer_conflict:
      return "buffer_conflict";
    case Defect::bad_move:
      return "bad_move";
    case Defect::bad_bytes:
      return "bad_bytes";
    case Defect::order_mismatch:
      return "order_mismatch";
    case Defect::misplaced_block:
      return "misplaced_block";
    case Defect::missing_send:
      return "missing_send";
    case Defect::pending_send:
      return "pending_send";
    case Defect::transfer_mismatch:
      return "transfer_mismatch";
    case Defect::deadlock:
      return "deadlock";
  }
  return "unknown";
}

}  // namespace weft
