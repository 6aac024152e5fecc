#include "weft/program/pipeline/schedule.h"

namespace weft {

std::string_view name(TaskKind kind) {
  switch (kind) {
    case TaskKind::forward:
      return "forward";
    case TaskKind::backward:
      return "backward";
    case TaskKind::backward_input:
      return "backward_input";
    case TaskKind::backward_weight:
      return "backward_weight";
  }
  return "unknown";
}

}  // namespace weft
