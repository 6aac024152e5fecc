#include "weft/train/trainer/state_digests.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <map>
#include <set>

#include "weft/base/bits_digest.h"
#include "weft/base/hash.h"
#include "weft/nn/model_buffers.h"
#include "weft/optim/optimizer.h"
#include "weft/train/trainer/checkpoint_state.h"
#include "weft/train/trainer/owned_state.h"
#include "weft/train/trainer/trainer_state.h"

namespace weft {
namespace {

/// Kinds of state, each held by other ranks.
enum Kind { kOwned, kWholeState, kWhole, kBuffer, kKinds };

/// Tied blocks are also held by other stages, parameters that are not split by all ranks of tp.
class Sharings {
 public:
  explicit Sharings(const TrainerState& trainer) : model_(*trainer.model) {
    const std::vector<std::vector<int>>& holders = trainer.program->holders;
    for (int block = 0; block < static_cast<int>(holders.size()); ++block) {
      if (holders[block].size() > 1) tied_.emplace(block, static_cast<int>(tied_.size()) + 1);
    }
    for (int i = 0; i < static_cast<int>(model_.params().size()); ++i) by_name_[model_.params()[i].name] = i;
  }

  int count() const { return kKinds * 2 * (1 + static_cast<int>(tied_.size())); }
  int of(Kind kind, bool is_split, int block) const {
    const auto tied = tied_.find(block);
    return (kind * 2 + (is_split ? 1 : 0)) * (1 + static_cast<int>(tied_.size())) + (tied == tied_.end() ? 0 : tied->second);
  }
  /// The parameter of a tensor of the state, "exp_avg/NAME".
  const Param& param_of(const std::string& tensor) const {
    return model_.params()[by_name_.at(tensor.substr(tensor.find('/') + 1))];
  }
  int index_of(const std::string& tensor) const { return by_name_.at(tensor.substr(tensor.find('/') + 1)); }

 private:
  const FlatModel& model_;
  std::map<int, int> tied_;
  std::map<std::string, int> by_name_;
};

/// Whether the tensor is one of the optimizer's that all ranks have whole.
bool is_whole_state(const Optimizer& optimizer, const std::string& tensor, const Param& param, int index) {
  if (!is_trained(param.group)) return false;
  for (const StateTensor& state : optimizer.state_tensors(index)) {
    if (state.whole && tensor == state.name + "/" + param.name) return true;
  }
  return false;
}

bool is_there(const StatePart& part) {
  return part.memory.defined() && part.numel() > 0 && std::all_of(part.runs.begin(), part.runs.end(), [&](const StateRun& run) {
           return run.memory_begin + run.numel <= part.memory.numel();
         });
}

void visit_owned(TrainerState& trainer, int block, const std::vector<at::Tensor>& state, const Sharings& sharings,
                 const VisitPart& visit) {
  const Optimizer& optimizer = trainer.updater->optimizer();
  for (const StatePart& part : owned_state(*trainer.model, block, kept_of(trainer, state))) {
    if (!is_there(part)) continue;
    const Param& param = sharings.param_of(part.name);
    const bool whole = is_whole_state(optimizer, part.name, param, sharings.index_of(part.name));
    visit({part, sharings.of(whole ? kWholeState : kOwned, param.split.has_value(), block), is_trained(param.group)});
  }
}

/// Whole weights besides the shard: gathered from shards, or narrower than the master weights.
void visit_whole(TrainerState& trainer, const Sharings& sharings, const VisitPart& visit, int block = -1) {
  FlatModel& model = *trainer.model;
  const FlatOptions& options = model.options();
  const bool is_master = options.num_shards == 1 && options.weight_dtype == at::kFloat;
  if (trainer.program->shard_level == ShardLevel::parameters || is_master || !options.weight_buffer.empty()) return;
  for (const Param& param : model.params()) {
    if (!model.owns(param.block) || param.wide || (block >= 0 && param.block != block)) continue;
    const FlatBlock& flat = model.flat(param.block);
    const FlatPart& from = param.group == ParamGroup::frozen ? flat.frozen : flat;
    StatePart part{"weights/" + param.name, param.shape, {}, from.weights};
    for (const SplitRun& run : param.runs()) {
      part.runs.push_back({param.offset - from.begin + run.part_begin, run.whole_begin, run.numel});
    }
    if (is_there(part)) visit({part, sharings.of(kWhole, param.split.has_value(), param.block), is_trained(param.group)});
  }
}

void visit_buffers(TrainerState& trainer, const Sharings& sharings, const VisitPart& visit) {
  for (const ModelBuffer& buffer : trainer.model->buffers()) {
    if (!trainer.model->owns(buffer.block)) continue;
    const StatePart part = whole_part("buffer/" + buffer.name, values_of(buffer));
    if (is_there(part)) visit({part, sharings.of(kBuffer, false, buffer.block)});
  }
}

/// Runs that follow one another in memory as one.
template <class Call>
void for_each_stretch(const StatePart& part, const Call& call) {
  for (size_t i = 0; i < part.runs.size();) {
    const int64_t begin = part.runs[i].memory_begin;
    int64_t end = begin + part.runs[i].numel;
    for (++i; i < part.runs.size() && part.runs[i].memory_begin == end; ++i) end += part.runs[i].numel;
    call(begin, end - begin);
  }
}

}  // namespace

uint64_t HeldPart::key() const {
  uint64_t key = fnv1a(part.name);
  for (const StateRun& run : part.runs) {
    key = splitmix64(splitmix64(key ^ static_cast<uint64_t>(run.whole_begin)) ^ static_cast<uint64_t>(run.numel));
  }
  return key | 1;  // 0: none
}

int num_sharings(const TrainerState& trainer) { return Sharings(trainer).count(); }

void for_each_held(TrainerState& trainer, const VisitPart& visit) {
  const Sharings sharings(trainer);
  trainer.engine->for_each_state(
      [&](int block, const std::vector<at::Tensor>& state) { visit_owned(trainer, block, state, sharings, visit); });
  visit_whole(trainer, sharings, visit);
  visit_buffers(trainer, sharings, visit);
}

void for_each_updated(TrainerState& trainer, int block, const VisitPart& visit) {
  const Sharings sharings(trainer);
  const VisitPart if_updated = [&](const HeldPart& held) {
    if (held.is_updated) visit(held);
  };
  visit_owned(trainer, block, trainer.updater->state(block), sharings, if_updated);
  visit_whole(trainer, sharings, if_updated, block);
}

uint64_t digest_of(const StatePart& part) {
  uint64_t digest = 0;
  if (!part.memory.is_cpu()) {
    const at::Tensor elements = elements_of(part);
    return bits_digest(elements.const_data_ptr(), elements.nbytes());
  }
  const auto size = static_cast<int64_t>(part.memory.element_size());
  const auto* memory = static_cast<const char*>(part.memory.const_data_ptr());
  for_each_stretch(part, [&](int64_t begin, int64_t numel) {
    digest = bits_digest(memory + begin * size, static_cast<size_t>(numel * size), digest);
  });
  return digest;
}

at::Tensor elements_of(const StatePart& part) {
  std::vector<at::Tensor> stretches;
  for_each_stretch(part, [&](int64_t begin, int64_t numel) { stretches.push_back(part.memory.narrow(0, begin, numel)); });
  return (stretches.size() == 1 ? stretches.front() : at::cat(stretches)).cpu().contiguous();
}

}  // namespace weft
