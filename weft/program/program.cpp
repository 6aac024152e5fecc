#include "weft/program/program.h"

namespace weft {

std::string_view name(ShardLevel level) {
  switch (level) {
    case ShardLevel::none:
      return "none";
    case ShardLevel::optimizer:
      return "optimizer";
    case ShardLevel::gradients:
      return "gradients";
    case ShardLevel::parameters:
      return "parameters";
  }
  return "unknown";
}

}  // namespace weft
