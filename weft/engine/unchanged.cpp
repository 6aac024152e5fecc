#include "weft/engine/unchanged.h"

#include <fmt/core.h>

#include <algorithm>
#include <ranges>

#include "weft/base/error.h"
#include "weft/nn/graph.h"

namespace weft {

UnchangedState::UnchangedState(FlatModel& model, int block) : model_(model), block_(block) {
  for (const int index : model_.flat(block_).params) versions_.push_back(version_of(model_.params()[index].parameter->value));
  for (const ModelBuffer& buffer : buffers()) buffer_versions_.push_back(version_of(buffer.value));
}

/// Buffers of the block; the model orders them by block.
std::span<const ModelBuffer> UnchangedState::buffers() const {
  return std::ranges::equal_range(model_.buffers(), block_, {}, &ModelBuffer::block);
}

void UnchangedState::check() const {
  const std::string& name = model_.model().blocks[block_].name;
  size_t i = 0;
  for (const int index : model_.flat(block_).params) {
    const Param& param = model_.params()[index];
    if (version_of(param.parameter->value) == versions_[i++] || param.group == ParamGroup::statistic) continue;
    throw InputError(fmt::format(
        "model: the forward of block '{}' changed its parameter '{}' in place (as an Embedding with max_norm does), "
        "which would differ on ranks with other samples; leave that to the optimizer",
        name, param.name));
  }
  i = 0;
  for (const ModelBuffer& buffer : buffers()) {
    if (version_of(buffer.value) == buffer_versions_[i++] || buffer.counts) continue;
    throw InputError(fmt::format(
        "model: the forward of block '{}' changed its buffer '{}', which is taken for constant; declare a buffer averaged over "
        "micro-batches and ranks as a statistic (ParamSpec::statistic; in a torch module a float32 buffer whose name begins "
        "with 'running_'), and one that advances alike on all ranks as counting (BufferSpec::counts)",
        name, buffer.name));
  }
}

}  // namespace weft
