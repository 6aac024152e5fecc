#include "weft/engine/unchanged.h"

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/nn/graph.h"

namespace weft {

UnchangedParameters::UnchangedParameters(FlatModel& model, int block) : model_(model), block_(block) {
  for (const int index : model_.flat(block_).params) versions_.push_back(version_of(model_.params()[index].parameter->value));
}

void UnchangedParameters::check() const {
  size_t i = 0;
  for (const int index : model_.flat(block_).params) {
    const Param& param = model_.params()[index];
    if (version_of(param.parameter->value) == versions_[i++] || param.group == ParamGroup::statistic) continue;
    throw InputError(fmt::format(
        "model: the forward of block '{}' changed its parameter '{}' in place (as an Embedding with max_norm does), "
        "which ranks with other samples would do otherwise; leave that to the optimizer",
        model_.model().blocks[block_].name, param.name));
  }
}

}  // namespace weft
