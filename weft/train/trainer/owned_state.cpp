#include "weft/train/trainer/owned_state.h"

#include <ATen/ops/from_blob.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "weft/base/math.h"
#include "weft/checkpoint/format/saved_checkpoint.h"

namespace weft {
namespace {

/// Trained parameters and statistics have an average; statistics have no other state, and frozen parameters have none.
bool has_average(ParamGroup group) { return is_trained(group) || group == ParamGroup::statistic; }

std::string average_state_name(const std::string& parameter) { return std::string(kAverageState) + "/" + parameter; }

/// Elements [begin, end) of this rank's share of a part.
using Range = std::pair<int64_t, int64_t>;
/// Selects elements of a part.
using RangeOf = std::function<Range(const FlatPart& part, const Param& param, int index)>;

/// State that the rank holds completely.
struct WholeState {
  bool tensors = false;  ///< the state tensors
  bool ages = false;     ///< the ages
};

StatePart age_of(const Param& param, int index, std::vector<int64_t>& ages, bool taken) {
  const at::Tensor memory = at::from_blob(ages.data() + index, {1}, at::kLong);
  return {age_state_name(param.name), {1}, taken ? std::vector<StateRun>{{0, 0, 1}} : std::vector<StateRun>{}, memory};
}

std::vector<StatePart> parts_of(FlatModel& model, int block, const BlockOptimizer& kept, const RangeOf& range_of,
                                const WholeState& whole) {
  FlatBlock& flat = model.flat(block);
  std::vector<StatePart> parts;
  for (int i = 0; i < static_cast<int>(flat.params.size()); ++i) {
    const Param& param = model.params()[flat.params[i]];
    const FlatPart& part = param.group == ParamGroup::frozen ? flat.frozen : flat;
    const int64_t first = param.offset - part.begin - part.owned.begin;  // offset of the parameter in the rank's share
    std::vector<StateRun> runs;
    for (const SplitRun& run : param.runs()) runs.push_back({first + run.part_begin, run.whole_begin, run.numel});
    const auto [begin, end] = range_of(part, param, i);
    runs = clip_runs(runs, begin, end);
    parts.push_back({model_state_name(param.name), param.shape, runs, part.master});
    if (kept.average && has_average(param.group)) {
      parts.push_back({average_state_name(param.name), param.shape, runs, kept.state->back()});
    }
    if (!kept.optimizer || !is_trained(param.group)) continue;
    if (kept.ages) parts.push_back(age_of(param, flat.params[i], *kept.ages, whole.ages));
    for (const StateTensor& state : kept.optimizer->state_tensors(flat.params[i])) {
      if (state.whole) {
        const std::vector<StateRun> all = {{state.begin, 0, c10::multiply_integers(state.shape)}};
        parts.push_back({state.name + "/" + param.name, state.shape, whole.tensors ? all : std::vector<StateRun>{},
                         (*kept.state)[state.index]});
        continue;
      }
      const int64_t moved = state.begin - std::max<int64_t>(first, 0);  // offset from its place in the rank's share
      std::vector<StateRun> places = runs;
      for (StateRun& run : places) run.memory_begin += moved;
      parts.push_back({state.name + "/" + param.name, state.shape, places, (*kept.state)[state.index]});
    }
  }
  return parts;
}

}  // namespace

std::string model_state_name(const std::string& parameter) { return kModelPrefix + parameter; }

std::string age_state_name(const std::string& parameter) { return std::string(kAgeState) + "/" + parameter; }

std::vector<StatePart> owned_state(FlatModel& model, int block, const BlockOptimizer& optimizer) {
  const RangeOf all = [](const FlatPart& part, const Param&, int) { return Range{0, part.num_owned()}; };
  const bool owns = !model.options().is_copy;
  return parts_of(model, block, optimizer, all, {.tensors = owns, .ages = owns});
}

std::vector<StatePart> written_state(FlatModel& model, int block, const BlockOptimizer& optimizer, const WriteShare& share) {
  if (model.is_tied_copy(block)) return {};
  const RangeOf mine = [&share](const FlatPart& part, const Param& param, int index) {
    if (!param.split && index % share.tps != share.tp) return Range{0, 0};
    const int64_t each = round_up(ceil_divide(part.num_owned(), share.replicas), kAlignElements);
    return Range{each * share.replica, std::min(each * (share.replica + 1), part.num_owned())};
  };
  const bool first = share.replica == 0 && model.options().shard == 0;
  return parts_of(model, block, optimizer, mine,
                  {.tensors = first, .ages = first && share.tp == 0 && !model.options().is_copy});
}

std::map<std::string, std::vector<int64_t>> state_shapes(const FlatModel& model, const Optimizer& optimizer, bool average) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (int i = 0; i < static_cast<int>(model.params().size()); ++i) {
    const Param& param = model.params()[i];
    shapes[model_state_name(param.name)] = param.shape;
    if (average && has_average(param.group)) shapes[average_state_name(param.name)] = param.shape;
    if (!is_trained(param.group)) continue;
    for (const StateTensor& state : optimizer.state_tensors(i)) shapes[state.name + "/" + param.name] = state.shape;
  }
  return shapes;
}

}  // namespace weft
