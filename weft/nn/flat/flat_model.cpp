#include "weft/nn/flat/flat_model.h"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/math.h"
#include "weft/comm/call/shard_range.h"
#include "weft/nn/random.h"

namespace weft {

namespace {

std::string full_name(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

ParamGroup group_of(const ParamSpec& spec) {
  if (spec.frozen) return ParamGroup::frozen;
  if (spec.statistic) return ParamGroup::statistic;
  return spec.decay ? ParamGroup::decay : ParamGroup::no_decay;
}

/// Group of a parameter; groups are contiguous in a block's flat buffer, in this order.
std::pair<ParamGroup, bool> place_of(const ParamSpec& spec) { return {group_of(spec), spec.parameter->split.has_value()}; }

/// Elements of this rank's part of an unbound parameter.
int64_t own_numel(const Parameter& parameter) {
  if (!parameter.split) return parameter.value.numel();
  return part_numel(parameter.value.sizes().vec(), *parameter.split);
}

int64_t padded(int64_t numel) { return round_up(numel, kAlignElements); }

/// Fills elements of a parameter, the first of which is `first_element` of the whole.
void draw(const at::Tensor& values, const Param& param, uint64_t seed, int64_t first_element) {
  const RandomKey key = random_key(seed, param.name);
  switch (param.init.kind) {
    case Init::Kind::given:
      break;
    case Init::Kind::constant:
      values.fill_(param.init.a);
      break;
    case Init::Kind::normal:
      fill_normal(values, key, first_element, param.init.a, param.init.b);
      break;
    case Init::Kind::uniform:
      fill_uniform(values, key, first_element, param.init.a, param.init.b);
      break;
  }
}

/// Throws if two parameters share memory: a block updates what it owns, so a shared weight would be updated twice. A buffer
/// would not follow a parameter that moves to flat memory.
void refuse_shared(const std::vector<Param>& params, const std::vector<ModelBuffer>& buffers) {
  std::unordered_map<const void*, const Param*> owner;
  const auto claim = [&owner](const void* memory, const Param& param) {
    auto [entry, fresh] = owner.emplace(memory, &param);
    if (fresh) return;
    throw InputError(
        fmt::format("model: parameters '{}' and '{}' share memory; let one block own it and name it in the other's "
                    "NamedBlock::uses",
                    entry->second->name, param.name));
  };
  for (const Param& param : params) {
    claim(param.parameter, param);
    const at::Tensor& value = param.parameter->value;
    if (!value.has_storage() || value.is_meta() || value.numel() == 0) continue;
    claim(value.storage().unsafeGetStorageImpl(), param);
  }
  for (const ModelBuffer& buffer : buffers) {
    const auto found = owner.find(buffer.value.storage().unsafeGetStorageImpl());
    if (found == owner.end()) continue;
    throw InputError(
        fmt::format("model: parameter '{}' and buffer '{}' share memory, but only the parameter is trained; read the parameter "
                    "in place of the buffer",
                    found->second->name, buffer.name));
  }
}

}  // namespace

int64_t num_flagged(Block& block) {
  int64_t count = 0;
  for (const ParamSpec& spec : block.parameters()) count += is_trained(group_of(spec)) ? 1 : 0;
  return block.always_uses_all() ? 0 : count;
}

int64_t flat_numel(Block& block) {
  std::map<std::pair<ParamGroup, bool>, int64_t> groups;
  for (const ParamSpec& spec : block.parameters()) groups[place_of(spec)] += own_numel(*spec.parameter);
  int64_t numel = 0;
  for (const auto& [place, size] : groups) numel += place.first == ParamGroup::frozen ? 0 : padded(size);
  return numel;
}

int64_t frozen_numel(Block& block) {
  int64_t numel = 0;
  for (const ParamSpec& spec : block.parameters()) numel += spec.frozen ? own_numel(*spec.parameter) : 0;
  return padded(numel);
}

FlatModel::FlatModel(Model model, const FlatOptions& options) : model_(std::move(model)), options_(options) {
  if (model_.blocks.empty()) throw InputError("model: it has no blocks");
  if (!options_.allocator) options_.allocator = std::make_shared<PlainAllocator>(options_.device);
  lay_out();
  refuse_shared(params_, buffers_);
  allocate();
  const bool shares = options_.shares_given;
  for (int b = 0; b < num_blocks(); ++b) {
    if (holds(b) || shares) keep_given(b);
    if (holds(b) && !shares) take_given(b, [](const at::Tensor&, bool, const std::string&) {});
    holds(b) ? bind(b) : release_values(b);
  }
  if (!shares) place_buffers();
}

void FlatModel::lay_out() {
  for (int b = 0; b < num_blocks(); ++b) lay_out(b);
  buffers_ = buffers_of(model_);
  std::unordered_map<std::string, int> block_of_name;
  const auto claim = [&block_of_name](const char* what, const std::string& name, int block) {
    const auto [other, fresh] = block_of_name.emplace(name, block);
    if (fresh) return;
    throw InputError(fmt::format("model: blocks {} and {} both have a {} '{}'; give the blocks different names", other->second,
                                 block, what, name));
  };
  for (const Param& param : params_) claim("parameter", param.name, param.block);
  for (const ModelBuffer& buffer : buffers_) claim("parameter or buffer", buffer.name, buffer.block);
}

void FlatModel::lay_out(int block) {
  FlatBlock flat;
  std::vector<ParamSpec> specs = this->block(block).parameters();
  std::stable_sort(specs.begin(), specs.end(),
                   [](const ParamSpec& x, const ParamSpec& y) { return place_of(x) < place_of(y); });
  const int64_t unit = kAlignElements * options_.num_shards;
  const auto close = [&](FlatPart& part, int64_t end) {
    part.whole_numel = round_up(end - part.begin, unit);
    part.numel = holds(block) ? part.whole_numel : 0;
    if (!options_.is_copy) part.owned = shard_range(part.numel, options_.num_shards, options_.shard);
  };
  int64_t at = 0;
  bool in_frozen = false;
  const auto open_frozen = [&] {
    close(flat, at);
    at = flat.frozen.begin = flat.whole_numel;
    in_frozen = true;
  };
  for (const ParamSpec& spec : specs) {
    Param param = describe(spec, block);
    if (param.group == ParamGroup::frozen) {
      if (!in_frozen) open_frozen();
    } else if (flat.groups.empty() || flat.groups.back().group != param.group ||
               flat.groups.back().split != param.split.has_value()) {
      at = padded(at);
      flat.groups.push_back({param.group, at, at, param.split.has_value()});
    }
    param.offset = at;
    at += param.numel;
    if (!in_frozen) flat.groups.back().end = at;
    const int index = static_cast<int>(params_.size());
    flat.params.push_back(index);
    used_.push_back(1);
    if (is_trained(param.group) && !this->block(block).always_uses_all()) flagged_.push_back(index);
    if (param.group == ParamGroup::statistic) flat.statistics.push_back(index);
    params_.push_back(std::move(param));
  }
  if (!in_frozen) open_frozen();
  close(flat.frozen, at);
  flat_.push_back(std::move(flat));
}

Param FlatModel::describe(const ParamSpec& spec, int block) const {
  const at::Tensor& value = spec.parameter->value;
  Param param{.name = full_name(model_.blocks[block].prefix, spec.name),
              .shape = value.sizes().vec(),
              .split = spec.parameter->split,
              .block = block,
              .numel = own_numel(*spec.parameter),
              .group = group_of(spec),
              .wide = spec.wide && options_.weight_dtype != at::kFloat,
              .embedding = spec.embedding,
              .init = spec.init,
              .parameter = spec.parameter};
  if (param.wide && spec.statistic && spec.init.kind == Init::Kind::given) {
    throw InputError(
        fmt::format("model: '{}' is a running statistic of a torch module, which cannot stay float32 with "
                    "narrower weights; use precision fp32, or weft's BatchNorm2d",
                    param.name));
  }
  if (spec.wide && !spec.statistic) {
    throw InputError(
        fmt::format("model: '{}' has ParamSpec::wide, which is for running statistics only; make it a buffer "
                    "(Block::buffers), or unset ParamSpec::wide",
                    param.name));
  }
  if (spec.statistic && spec.frozen) {
    throw InputError(fmt::format("model: '{}' is both a running statistic, which changes, and frozen; choose one", param.name));
  }
  if (spec.statistic && param.split) {
    throw InputError(
        fmt::format("model: '{}' is a running statistic, which cannot be split; leave its layer whole", param.name));
  }
  if (value.scalar_type() != at::kFloat) {
    throw InputError(fmt::format("model: parameter '{}' is {}, must be float32", param.name, value.toString()));
  }
  return param;
}

FlatPart& FlatModel::part_of(const Param& param) {
  FlatBlock& flat = flat_[param.block];
  return param.group == ParamGroup::frozen ? flat.frozen : flat;
}

void FlatModel::initialise(int block, uint64_t seed) {
  c10::NoGradGuard no_grad;
  for (FlatPart* part : flat_[block].parts()) make_shard(*part);
  for (int index : flat_[block].params) {
    const Param& param = params_[index];
    const FlatPart& part = part_of(param);
    const GroupRange own = part.own({param.group, param.offset, param.offset + param.numel, false});
    if (own.begin == own.end) continue;
    const at::Tensor values = part.master.narrow(0, own.begin, own.end - own.begin);
    const int64_t first = own.begin + part.owned.begin + part.begin - param.offset, end = first + own.end - own.begin;
    for (const SplitRun& run : param.runs()) {
      const int64_t from = std::max(first, run.part_begin), to = std::min(end, run.part_begin + run.numel);
      if (from < to) draw(values.narrow(0, from - first, to - from), param, seed, run.whole_begin + from - run.part_begin);
    }
  }
  for (FlatPart* part : flat_[block].parts()) copy_master_to_shard(*part);
}

void FlatModel::copy_master_to_shard(int block) { copy_master_to_shard(flat_[block]); }

void FlatModel::copy_master_to_shard(FlatPart& part) {
  c10::NoGradGuard no_grad;
  if (!part.shard.is_same(part.master)) part.shard.copy_(part.master);
}

at::Tensor FlatModel::inner_part(const FlatPart& part) const {
  const int64_t numel = part.numel / options_.num_inner_shards;
  return part.weights.narrow(0, numel * options_.inner, numel);
}

void FlatModel::clear_gradients(int block) {
  flat_[block].gradients_empty = true;
  for (int index : flat_[block].params) params_[index].parameter->value.mutable_grad().reset();
  for (UseSum& use : flat_[block].uses) {
    use.empty = true;
    for (at::Tensor& gradient : use.gathered) gradient.reset();
  }
}

void FlatModel::settle_gradients(int block, const at::Tensor& statistics_change) {
  c10::NoGradGuard no_grad;
  FlatBlock& flat = flat_[block];
  Tensors places, elsewhere;  // gradients outside their places
  for (int index : flat.params) {
    const Param& param = params_[index];
    if (!is_trained(param.group)) continue;
    at::Tensor& gradient = param.parameter->value.mutable_grad();
    const at::Tensor& place = param.parameter->gradient;
    if (gradient.defined() && gradient.layout() != at::kStrided) {
      throw InputError(
          fmt::format("model: the gradient of parameter '{}' is sparse, weft's are dense; make the layer in block '{}' "
                      "without sparse gradients (EmbeddingOptions::sparse)",
                      param.name, model_.blocks[static_cast<size_t>(block)].name));
    }
    if (gradient.defined()) {
      used_[index] = 1;
      if (gradient.data_ptr() != place.data_ptr()) {
        places.push_back(place);
        elsewhere.push_back(gradient);
      }
      gradient = place;
    } else {
      place.zero_();
    }
  }
  if (!places.empty()) at::_foreach_copy_(places, elsewhere);  // one launch on a device
  for (int index : flat.params) {
    const Param& param = params_[index];
    if (param.split && is_trained(param.group))
      zero_padding(flat.gradients.narrow(0, param.offset, param.numel), param.shape, *param.split);
  }
  const GroupRange range = statistics_range(block);
  if (range.begin < range.end) {
    const at::Tensor sum = flat.gradients.narrow(0, range.begin, range.end - range.begin);
    if (flat.gradients_empty) sum.zero_();
    if (statistics_change.defined()) sum.add_(statistics_change);
  }
  flat.gradients_empty = false;
}

at::Tensor FlatModel::gradients(int first, int last) const {
  if (last == first + 1) return flat_[first].all_gradients;
  return gradients_.narrow(0, offsets_[first],
                           offsets_[last - 1] + flat_[last - 1].numel * num_sums(last - 1) - offsets_[first]);
}

std::vector<Parameter*> FlatModel::trained(int block) const {
  std::vector<Parameter*> result;
  for (int index : flat_[block].params) {
    if (is_trained(params_[index].group)) result.push_back(params_[index].parameter);
  }
  return result;
}

int64_t FlatModel::num_parameters() const {
  int64_t count = 0;
  for (const Param& param : params_) count += is_trained(param.group) ? param.whole_numel() : 0;
  return count;
}

}  // namespace weft
