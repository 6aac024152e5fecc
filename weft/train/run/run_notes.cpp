#include "weft/train/run/run_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "weft/base/monotonic.h"
#include "weft/base/units.h"

namespace weft {

std::vector<std::string> resume_notes(const Resumed& resumed, int64_t steps) {
  constexpr size_t kMostNotes = 10;
  std::vector<std::string> notes(
      resumed.notes.begin(), resumed.notes.begin() + static_cast<std::ptrdiff_t>(std::min(resumed.notes.size(), kMostNotes)));
  if (resumed.notes.size() > kMostNotes) notes.push_back(fmt::format("and {} more", resumed.notes.size() - kMostNotes));
  notes.push_back(fmt::format("going on from {}, after step {} of {}{}", resumed.path, resumed.step, steps,
                              resumed.step < steps ? "" : ": there are no steps left"));
  return notes;
}

std::vector<std::string> weights_notes(const std::string& path, const std::vector<std::string>& unused) {
  std::vector<std::string> notes = {fmt::format("starting from {}", path)};
  if (!unused.empty()) {
    const std::string more = unused.size() > 1 ? fmt::format(" and {} more", unused.size() - 1) : "";
    notes.push_back(fmt::format("of which the model has no use for '{}'{}", unused.front(), more));
  }
  return notes;
}

std::vector<std::string> restart_notes(const RunBoard& board, int64_t step) {
  if (board.failed_ns() <= 0) return {};
  const double down_s = static_cast<double>(monotonic_ns() - board.failed_ns()) * 1e-9;
  return {fmt::format("started again within {}; {} to be done again", format_duration(down_s),
                      counted(board.steps_done() - step, "step"))};
}

std::vector<std::string> noise_notes(const Recipe& recipe, const ResolvedLayout& layout) {
  if (!recipe.run.noise_scale || has_small_batches(layout.global_batch, layout.micro_batch)) return {};
  return {fmt::format(
      "run.noise_scale: a step is one micro-batch of {}, so there are no two sizes of batch to compare; a smaller batch.micro, "
      "or more ranks, would make them",
      counted(layout.micro_batch, "sample"))};
}

std::vector<std::string> left_out(const Datasets& data) {
  std::set<std::string> names;
  const auto add = [&names](const Dataset& part) {
    for (const std::string& name : part.left_out()) names.insert(name);
  };
  add(*data.training);
  add(*data.evaluation);
  for (const NamedDataset& set : data.others) add(*set.data);
  return {names.begin(), names.end()};
}

std::vector<std::string> fullness_notes(const Datasets& data) {
  const std::string training = data.training->fullness();
  if (training.empty()) return {};
  return {fmt::format("training: {}; evaluation: {}", training, data.evaluation->fullness())};
}

}  // namespace weft
