#include "weft/train/run/fill_weights.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <memory>

#include "weft/base/error.h"
#include "weft/checkpoint/format/saved_checkpoint.h"
#include "weft/train/run/own_state.h"

namespace weft {
namespace {

/// By the model's name: that in the file.
std::map<std::string, std::string> names_in_file(const WeightsFile& file, const std::string& path, const WeightNames& names) {
  std::map<std::string, std::string> result;
  for (const std::string& name : file.names()) {
    const auto [entry, is_new] = result.emplace(names.in_model(name), name);
    if (is_new) continue;
    throw InputError(fmt::format("{}: '{}' and '{}' both become the model's '{}'; mend model.weight_names", path, entry->second,
                                 name, entry->first));
  }
  return result;
}

void fill_part(const StatePart& part, const at::Tensor& whole, const std::string& path) {
  if (whole.sizes().vec() != part.shape) {
    throw InputError(fmt::format("{}: '{}' is [{}] there, [{}] in the model", path, part.name, fmt::join(whole.sizes(), ", "),
                                 fmt::join(part.shape, ", ")));
  }
  const at::Tensor values = whole.to(part.memory.options()).contiguous().view({-1});
  for (const StateRun& run : part.runs) {
    part.memory.narrow(0, run.memory_begin, run.numel).copy_(values.narrow(0, run.whole_begin, run.numel));
  }
}

/// Values of a buffer from a file. Floats may be of any width there, as weights are.
at::Tensor buffer_from(const ModelBuffer& buffer, const at::Tensor& given, const std::string& path) {
  if (given.sizes().vec() != buffer.shape) {
    throw InputError(fmt::format("{}: '{}' is [{}] there, [{}] in the model", path, buffer.name, fmt::join(given.sizes(), ", "),
                                 fmt::join(buffer.shape, ", ")));
  }
  const bool fits = given.scalar_type() == buffer.type || (given.is_floating_point() && at::isFloatingType(buffer.type));
  if (!fits) {
    throw InputError(fmt::format("{}: '{}' is {} there, {} in the model; convert it", path, buffer.name,
                                 c10::toString(given.scalar_type()), c10::toString(buffer.type)));
  }
  return given.to(buffer.type);
}

}  // namespace

std::vector<std::string> fill_weights(TrainerParts& trainer, const std::string& path, const WeightNames& names) {
  const std::unique_ptr<WeightsFile> file = open_weights(path);
  std::map<std::string, std::string> in_file = names_in_file(*file, path, names);
  std::vector<std::string> missing;
  std::map<std::string, std::string> used;
  const auto use = [&](const std::string& name, bool may_lack) {
    const auto found = in_file.extract(name);
    if (!found.empty()) used[name] = found.mapped();
    if (found.empty() && !may_lack) missing.push_back(name);
  };
  for (const Param& param : trainer.model->params()) use(param.name, /*may_lack=*/false);
  // A count that is not there stays as it is: not all files have had it.
  for (const ModelBuffer& buffer : trainer.model->buffers()) use(buffer.name, /*may_lack=*/buffer.counts);
  if (!missing.empty()) {
    const std::string more = missing.size() > 1 ? fmt::format(" and {} more", missing.size() - 1) : "";
    throw InputError(
        fmt::format("{}: it has no '{}'{}; model.weight_names may tell of other names", path, missing.front(), more));
  }
  c10::NoGradGuard no_grad;
  trainer.engine->fill_state([&](int block, std::vector<at::Tensor>& state) {
    for (const StatePart& part : own_state(*trainer.model, block, {})) {
      fill_part(part, file->read(used.at(part.name.substr(std::string_view(kModelPrefix).size()))), path);
    }
    trainer.start_average(block, state);
  });
  for (const ModelBuffer& buffer : trainer.model->buffers()) {
    const auto theirs = used.find(buffer.name);
    if (!trainer.model->holds(buffer.block) || theirs == used.end()) continue;
    set_values(buffer, buffer_from(buffer, file->read(theirs->second), path));
  }
  trainer.updater->set_average_updates(trainer.steps_done, 0);
  std::vector<std::string> unused;
  unused.reserve(in_file.size());
  for (const auto& [name, theirs] : in_file) unused.push_back(theirs);
  return unused;
}

}  // namespace weft
