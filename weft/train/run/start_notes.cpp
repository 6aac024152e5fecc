#include "weft/train/run/start_notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "weft/base/monotonic.h"
#include "weft/base/units.h"
#include "weft/report/skipped_data.h"
#include "weft/train/run/run_lengths.h"

namespace weft {

std::vector<std::string> resume_notes(const Resumed& resumed, int64_t steps) {
  constexpr size_t kMostNotes = 10;
  std::vector<std::string> notes(
      resumed.notes.begin(), resumed.notes.begin() + static_cast<std::ptrdiff_t>(std::min(resumed.notes.size(), kMostNotes)));
  if (resumed.notes.size() > kMostNotes) notes.push_back(fmt::format("and {} more", resumed.notes.size() - kMostNotes));
  notes.push_back(fmt::format("resuming from {}, after step {} of {}{}", resumed.path, resumed.step, steps,
                              resumed.step < steps ? "" : ": there are no steps left"));
  return notes;
}

namespace {

/// The first few names.
std::string first_of(const std::vector<std::string>& names) {
  constexpr size_t kMost = 4;
  const size_t shown = std::min(names.size(), kMost);
  std::string text;
  for (size_t i = 0; i < shown; ++i) text += fmt::format("{}'{}'", i > 0 ? ", " : "", names[i]);
  return names.size() > shown ? fmt::format("{} and {} more", text, names.size() - shown) : text;
}

}  // namespace

std::vector<std::string> frozen_notes(const FlatModel& model) {
  std::vector<std::string> frozen;
  int64_t elements = 0, all = 0, parameters = 0;
  for (const Param& param : model.params()) {
    if (param.group == ParamGroup::statistic) continue;
    ++parameters;
    all += param.whole_numel();
    if (param.group != ParamGroup::frozen) continue;
    frozen.push_back(param.name);
    elements += param.whole_numel();
  }
  if (frozen.empty()) return {};
  return {fmt::format("frozen, not trained: {} of {}, {:.1f} % of the weights: {}", frozen.size(),
                      counted(parameters, "parameter"), 100.0 * static_cast<double>(elements) / static_cast<double>(all),
                      first_of(frozen))};
}

std::vector<std::string> weights_notes(const std::string& path, const WeightsReport& report) {
  std::vector<std::string> notes = {
      fmt::format("starting from {}: weights alone; optimizer state is new, and the data begins at its first sample", path)};
  notes.insert(notes.end(), report.notes.begin(), report.notes.end());
  if (!report.skipped.empty()) notes.push_back(fmt::format("left random by model.weights_skip: {}", first_of(report.skipped)));
  if (!report.unused.empty()) notes.push_back(fmt::format("unused by the model: {}", first_of(report.unused)));
  return notes;
}

std::vector<std::string> restart_notes(const RunBoard& board, int64_t step) {
  if (board.failed_ns() <= 0) return {};
  const double down_s = static_cast<double>(monotonic_ns() - board.failed_ns()) * 1e-9;
  return {fmt::format("started again within {}; {} to repeat", format_duration(down_s),
                      counted(board.steps_done() - step, "step"))};
}

namespace {

/// Collects `names` over all sets, each once.
template <class Names>
DataNotes of_all_sets(const Datasets& data, const Names& names) {
  std::set<DataNote> all;
  const auto add = [&](const Dataset& part) {
    for (const DataNote& note : names(part)) all.insert(note);
  };
  add(*data.training);
  add(*data.evaluation);
  for (const NamedDataset& set : data.others) add(*set.data);
  return {all.begin(), all.end()};
}

}  // namespace

DataNotes left_out(const Datasets& data) {
  return of_all_sets(data, [](const Dataset& part) { return part.left_out(); });
}

std::vector<std::string> passed_over_notes(const Datasets& data) {
  const DataNotes notes = of_all_sets(data, [](const Dataset& part) { return part.passed_over(); });
  if (notes.empty()) return {};
  const std::vector<std::string> first = first_skipped(texts_of(notes));
  const int64_t count = count_of(notes), left = count - static_cast<int64_t>(first.size());
  return {fmt::format("data: skipped {}: {}{}", count == 1 ? "1 file or folder" : fmt::format("{} files or folders", count),
                      fmt::join(first, "; "), left > 0 ? fmt::format("; and {} more", left) : "")};
}

namespace {

/// Amount left out, and the first few names.
std::vector<std::string> left_out_notes(const Datasets& data) {
  const DataNotes notes = left_out(data);
  if (notes.empty()) return {};
  return {"data.skip_bad left out " + skipped_text(texts_of(notes), count_of(notes) - static_cast<int64_t>(notes.size()))};
}

/// Fill ratio of packed windows.
std::vector<std::string> fullness_notes(const Datasets& data) {
  const std::string training = data.training->fullness();
  if (training.empty()) return {};
  return {fmt::format("training: {}; evaluation: {}", training, data.evaluation->fullness())};
}

std::vector<std::string> noise_notes(const Recipe& recipe, const ResolvedLayout& layout) {
  if (!recipe.run.noise_scale || has_small_batches(layout.global_batch, layout.micro_batch)) return {};
  return {fmt::format(
      "run.noise_scale: a step is one micro-batch of {}, so there are no two batch sizes to compare; use a smaller batch.micro "
      "or more ranks",
      counted(layout.micro_batch, "sample"))};
}

std::vector<std::string> backend_notes(const Recipe& recipe, const ResolvedLayout& layout, at::Device device) {
  const std::string& backend = recipe.layout.backend;
  if (device.is_cpu() || layout.world == 1 || (backend != "shm" && backend != "gloo")) return {};
  return {fmt::format(
      "layout.backend = \"{}\": ranks exchange tensors through the host's memory, which is slower than between GPUs", backend)};
}

}  // namespace

std::vector<std::string> start_notes(const Recipe& recipe, const ResolvedLayout& layout, const Datasets& data,
                                     at::Device device) {
  std::vector<std::string> notes = passed_over_notes(data);
  const auto add = [&notes](const std::vector<std::string>& more) { notes.insert(notes.end(), more.begin(), more.end()); };
  add(left_out_notes(data));
  add(fullness_notes(data));
  if (const std::string lengths = run_lengths_text(recipe, data.training->size()); !lengths.empty()) notes.push_back(lengths);
  add(noise_notes(recipe, layout));
  add(backend_notes(recipe, layout, device));
  return notes;
}

}  // namespace weft
