#include "weft/train/run/fill_weights.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <memory>
#include <string_view>

#include "weft/base/error.h"
#include "weft/checkpoint/format/saved_checkpoint.h"
#include "weft/checkpoint/weights/weights_file.h"
#include "weft/train/run/match_weights.h"
#include "weft/train/run/own_state.h"

namespace weft {
namespace {

void fill_part(const StatePart& part, const at::Tensor& whole) {
  const at::Tensor values = whole.to(part.memory.options()).contiguous().view({-1});
  for (const StateRun& run : part.runs) {
    part.memory.narrow(0, run.memory_begin, run.numel).copy_(values.narrow(0, run.whole_begin, run.numel));
  }
}

/// Values of a parameter from a file. Integers are codes that mean nothing without their scales.
at::Tensor parameter_from(const at::Tensor& given, const std::string& name, const std::string& path) {
  if (given.is_floating_point()) return given;
  throw InputError(
      fmt::format("{}: '{}' is {} there, and weights are Float, Double, Half or BFloat16; dequantize it, and save "
                  "it as one of these",
                  path, name, c10::toString(given.scalar_type())));
}

/// Values of a buffer from a file. Floats may be of any width there, as weights are.
at::Tensor buffer_from(const ModelBuffer& buffer, const at::Tensor& given, const std::string& path) {
  const bool fits = given.scalar_type() == buffer.type || (given.is_floating_point() && at::isFloatingType(buffer.type));
  if (!fits) {
    throw InputError(fmt::format("{}: '{}' is {} there, {} in the model; convert it", path, buffer.name,
                                 c10::toString(given.scalar_type()), c10::toString(buffer.type)));
  }
  return given.to(buffer.type);
}

}  // namespace

WeightsReport fill_weights(TrainerParts& trainer, const std::string& path, const WeightsOptions& options) {
  const std::unique_ptr<WeightsFile> file = open_weights(path);
  WeightsMatch match = match_weights(*file, path, *trainer.model, options);
  c10::NoGradGuard no_grad;
  trainer.engine->fill_state([&](int block, std::vector<at::Tensor>& state) {
    for (const StatePart& part : own_state(*trainer.model, block, {})) {
      const auto found = match.in_file.find(part.name.substr(std::string_view(kModelPrefix).size()));
      if (found == match.in_file.end()) continue;
      fill_part(part, parameter_from(file->read(found->second), found->second, path));
    }
    trainer.start_average(block, state);
  });
  for (const ModelBuffer& buffer : trainer.model->buffers()) {
    const auto theirs = match.in_file.find(buffer.name);
    if (!trainer.model->holds(buffer.block) || theirs == match.in_file.end()) continue;
    set_values(buffer, buffer_from(buffer, file->read(theirs->second), path));
  }
  trainer.updater->set_average_updates(trainer.steps_done, 0);
  return std::move(match.report);
}

}  // namespace weft
