#include "weft/train/run/own_state.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "weft/base/math.h"
#include "weft/checkpoint/format/saved_checkpoint.h"

namespace weft {
namespace {

/// Statistics have an average, and no other state; what is frozen has none.
bool has_state(ParamGroup group, const std::string& name) {
  return is_trained(group) || (group == ParamGroup::statistic && name == kAverageState);
}

/// Elements [begin, end) of what this rank owns of a part.
using Range = std::pair<int64_t, int64_t>;
/// Which elements of a part are meant.
using RangeOf = std::function<Range(const FlatPart& part, const Param& param, int index)>;

std::vector<StatePart> parts_of(FlatModel& model, int block, const std::vector<at::Tensor>& optimizer,
                                const std::vector<std::string>& optimizer_names, const RangeOf& range_of) {
  FlatBlock& flat = model.flat(block);
  std::vector<StatePart> parts;
  for (int i = 0; i < static_cast<int>(flat.params.size()); ++i) {
    const Param& param = model.params()[flat.params[i]];
    const FlatPart& part = param.group == ParamGroup::frozen ? flat.frozen : flat;
    const int64_t first = param.offset - part.begin - part.owned.begin;  // of the parameter, among what is owned
    std::vector<StateRun> runs;
    for (const SplitRun& run : param.runs()) runs.push_back({first + run.part_begin, run.whole_begin, run.numel});
    const auto [begin, end] = range_of(part, param, i);
    runs = clip_runs(runs, begin, end);
    parts.push_back({model_state_name(param.name), param.shape, runs, part.master});
    for (size_t s = 0; s < optimizer_names.size(); ++s) {
      if (!has_state(param.group, optimizer_names[s])) continue;
      parts.push_back({optimizer_names[s] + "/" + param.name, param.shape, runs, optimizer[s]});
    }
  }
  return parts;
}

}  // namespace

std::string model_state_name(const std::string& parameter) { return kModelPrefix + parameter; }

std::vector<StatePart> own_state(FlatModel& model, int block, const std::vector<at::Tensor>& optimizer,
                                 const std::vector<std::string>& optimizer_names) {
  return parts_of(model, block, optimizer, optimizer_names, [](const FlatPart& part, const Param&, int) {
    return Range{0, part.num_owned()};
  });
}

std::vector<StatePart> written_state(FlatModel& model, int block, const std::vector<at::Tensor>& optimizer,
                                     const std::vector<std::string>& optimizer_names, const WriteShare& share) {
  if (model.is_tied_copy(block)) return {};
  return parts_of(model, block, optimizer, optimizer_names, [&share](const FlatPart& part, const Param& param, int index) {
    if (!param.split && index % share.tps != share.tp) return Range{0, 0};
    const int64_t each = round_up(ceil_divide(part.num_owned(), share.replicas), kAlignElements);
    return Range{each * share.replica, std::min(each * (share.replica + 1), part.num_owned())};
  });
}

std::map<std::string, std::vector<int64_t>> state_shapes(const FlatModel& model,
                                                         const std::vector<std::string>& optimizer_names) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const Param& param : model.params()) {
    shapes[model_state_name(param.name)] = param.shape;
    for (const std::string& name : optimizer_names) {
      if (has_state(param.group, name)) shapes[name + "/" + param.name] = param.shape;
    }
  }
  return shapes;
}

}  // namespace weft
