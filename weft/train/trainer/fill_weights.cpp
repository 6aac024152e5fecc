#include "weft/train/trainer/fill_weights.h"

#include <c10/core/GradMode.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/checkpoint/format/saved_checkpoint.h"
#include "weft/checkpoint/weights/weights_file.h"
#include "weft/train/trainer/match_weights.h"
#include "weft/train/trainer/owned_state.h"

namespace weft {
namespace {

/// Converts a parameter from a file. Integers are quantized codes, useless without their scales.
at::Tensor parameter_from(const at::Tensor& given, const std::string& name, const std::string& path) {
  if (given.is_floating_point()) return given;
  throw InputError(
      fmt::format("{}: '{}' is {} there; weights must be Float, Double, Half or BFloat16; dequantize it and save "
                  "it as one of these",
                  path, name, c10::toString(given.scalar_type())));
}

/// Reads the elements of the named tensor that the part needs, including gaps that cost less to read than a second request.
/// Returns the bytes read.
int64_t fill_part(const StatePart& part, WeightsFile& file, const std::string& name, const std::string& path) {
  constexpr int64_t kLongestGap = int64_t{1} << 14, kMostAtOnce = int64_t{1} << 22;  // elements
  std::vector<StateRun> runs = part.runs;
  std::sort(runs.begin(), runs.end(), [](const StateRun& a, const StateRun& b) { return a.whole_begin < b.whole_begin; });
  int64_t bytes = 0;
  for (size_t first = 0, next = 0; first < runs.size(); first = next) {
    const int64_t begin = runs[first].whole_begin;
    int64_t end = begin + runs[first].numel;
    for (next = first + 1; next < runs.size(); ++next) {
      const int64_t run_end = runs[next].whole_begin + runs[next].numel;
      if (runs[next].whole_begin - end > kLongestGap || run_end - begin > kMostAtOnce) break;
      end = run_end;
    }
    const at::Tensor given = parameter_from(file.read_part(name, begin, end - begin), name, path);
    bytes += static_cast<int64_t>(given.nbytes());
    const at::Tensor values = given.to(part.memory.options());
    for (size_t i = first; i < next; ++i) {
      part.memory.narrow(0, runs[i].memory_begin, runs[i].numel)
          .copy_(values.narrow(0, runs[i].whole_begin - begin, runs[i].numel));
    }
  }
  return bytes;
}

/// Converts a buffer from a file. Floats may have any width there, like weights.
at::Tensor buffer_from(const ModelBuffer& buffer, const at::Tensor& given, const std::string& path) {
  const bool fits = given.scalar_type() == buffer.type || (given.is_floating_point() && at::isFloatingType(buffer.type));
  if (!fits) {
    throw InputError(fmt::format("{}: '{}' is {} there, {} in the model; convert it", path, buffer.name,
                                 c10::toString(given.scalar_type()), c10::toString(buffer.type)));
  }
  return given.to(buffer.type);
}

/// A digest of the tensors' names and shapes, and of some values of tensors spread over those that the model takes.
std::string digest_of(WeightsFile& file, const WeightsMatch& match) {
  constexpr int64_t kTensors = 64, kLongest = int64_t{1} << 20, kValues = 4096;  // a checksum may need the whole tensor
  uint64_t digest = kFnvBasis;
  std::vector<std::string> read;
  for (const std::string& name : file.names()) {
    digest = fnv1a(fmt::format("{} [{}]\n", name, fmt::join(file.shape(name), ", ")), digest);
  }
  for (const auto& [in_model, name] : match.in_file) {
    if (c10::multiply_integers(file.shape(name)) <= kLongest) read.push_back(name);
  }
  const int64_t step = std::max<int64_t>(1, std::ssize(read) / kTensors);
  for (size_t i = 0; i < read.size(); i += static_cast<size_t>(step)) {
    const int64_t numel = std::min<int64_t>(kValues, c10::multiply_integers(file.shape(read[i])));
    const at::Tensor values = file.read_part(read[i], 0, numel).contiguous();
    digest = fnv1a({static_cast<const char*>(values.const_data_ptr()), values.nbytes()}, digest);
  }
  return fmt::format("{:016x}", digest);
}

}  // namespace

WeightsReport fill_weights(TrainerState& trainer, const std::string& path, const WeightsOptions& options) {
  const std::unique_ptr<WeightsFile> file = options.average ? open_average(path) : open_weights(path);
  WeightsMatch match = match_weights(*file, path, *trainer.model, options);
  const Model& model = trainer.model->model();
  std::error_code ignored;  // of what is no file
  const bool is_same = path == model.file || std::filesystem::equivalent(path, model.file, ignored);
  if (is_same && file->origin().state != model.file_state)
    throw InputError(fmt::format("{}: the file was replaced or changed after the model was read from it; start again", path));
  c10::NoGradGuard no_grad;
  trainer.engine->fill_state([&](int block, std::vector<at::Tensor>& state) {
    for (const StatePart& part : owned_state(*trainer.model, block, {})) {
      const auto found = match.in_file.find(part.name.substr(std::string_view(kModelPrefix).size()));
      if (found == match.in_file.end()) continue;
      match.report.bytes_read += fill_part(part, *file, found->second, path);
    }
    trainer.start_average(block, state);
  });
  for (const ModelBuffer& buffer : trainer.model->buffers()) {
    const auto theirs = match.in_file.find(buffer.name);
    if (!trainer.model->holds(buffer.block) || theirs == match.in_file.end()) continue;
    set_values(buffer, buffer_from(buffer, file->read(theirs->second), path));
  }
  trainer.updater->set_average_updates(trainer.steps_done, 0);
  if (trainer.mesh.world().size() > 1) match.report.digest = digest_of(*file, match);
  return std::move(match.report);
}

}  // namespace weft
