#include "weft/nn/flat.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "weft/base/error.h"
#include "weft/nn/random.h"

namespace weft {

namespace {

std::string full_name(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

ParamGroup group_of(const ParamSpec& spec) {
  if (spec.statistic) return ParamGroup::statistic;
  return spec.decay ? ParamGroup::decay : ParamGroup::no_decay;
}

int64_t padded(int64_t numel) { return (numel + kAlignElements - 1) / kAlignElements * kAlignElements; }

/// Throws when two parameters share memory: a block updates what it owns, so a shared weight would be updated twice.
void refuse_shared(const std::vector<Param>& params) {
  std::unordered_map<const void*, const Param*> owner;
  for (const Param& param : params) {
    const at::Tensor& value = param.parameter->value;
    if (!value.has_storage() || value.is_meta() || value.numel() == 0) continue;
    auto [entry, fresh] = owner.emplace(value.storage().unsafeGetStorageImpl(), &param);
    if (!fresh) {
      throw InputError(fmt::format("model: parameters '{}' and '{}' share memory; give each block weights of its own",
                                   entry->second->name, param.name));
    }
  }
}

}  // namespace

int64_t flat_numel(Block& block) {
  int64_t numel = 0;
  for (const ParamSpec& spec : block.parameters()) numel += spec.parameter->value.numel();
  return padded(numel);
}

FlatModel::FlatModel(Model model, const Allocate& allocate, at::Device device) : model_(std::move(model)) {
  if (model_.blocks.empty()) throw InputError("model: it has no blocks");
  lay_out();
  refuse_shared(params_);
  bind(allocate, device);
}

void FlatModel::lay_out() {
  std::map<std::string, int> block_of_name;
  int64_t offset = 0;
  for (int b = 0; b < num_blocks(); ++b) {
    FlatBlock flat;
    std::vector<ParamSpec> specs = block(b).parameters();
    std::stable_sort(specs.begin(), specs.end(),
                     [](const ParamSpec& x, const ParamSpec& y) { return group_of(x) < group_of(y); });
    int64_t at = 0;
    for (const ParamSpec& spec : specs) {
      const at::Tensor& value = spec.parameter->value;
      Param param{full_name(model_.blocks[b].prefix, spec.name),
                  value.sizes().vec(),
                  b,
                  at,
                  value.numel(),
                  group_of(spec),
                  spec.init,
                  spec.parameter};
      auto [other, fresh] = block_of_name.emplace(param.name, b);
      if (!fresh) {
        throw InputError(fmt::format("model: blocks {} and {} both have a parameter '{}'; name the blocks apart", other->second,
                                     b, param.name));
      }
      if (value.scalar_type() != at::kFloat) {
        throw InputError(fmt::format("model: parameter '{}' is {}, must be float32", param.name, value.toString()));
      }
      if (flat.groups.empty() || flat.groups.back().group != param.group) flat.groups.push_back({param.group, at, at});
      at += param.numel;
      flat.groups.back().end = at;
      const int index = static_cast<int>(params_.size());
      flat.params.push_back(index);
      if (param.group == ParamGroup::statistic) flat.statistics.push_back(index);
      params_.push_back(std::move(param));
    }
    flat.offset = offset;
    flat.numel = padded(at);
    offset += flat.numel;
    flat_.push_back(std::move(flat));
  }
}

void FlatModel::bind(const Allocate& allocate, at::Device device) {
  c10::NoGradGuard no_grad;
  const FlatBlock& last = flat_.back();
  gradients_ = allocate(last.offset + last.numel, "gradients");
  for (int b = 0; b < num_blocks(); ++b) {
    FlatBlock& flat = flat_[b];
    flat.weights = at::zeros({flat.numel}, at::TensorOptions(at::kFloat).device(device));
    flat.gradients = gradients_.narrow(0, flat.offset, flat.numel);
    for (int index : flat.params) {
      Param& param = params_[index];
      Parameter& parameter = *param.parameter;
      at::Tensor view = flat.weights.narrow(0, param.offset, param.numel).view(param.shape);
      parameter.gradient = flat.gradients.narrow(0, param.offset, param.numel).view(param.shape);
      if (parameter.value.is_meta()) {
        parameter.value = view.detach();
      } else {
        view.copy_(parameter.value.detach());
        parameter.value.set_data(view);
      }
      if (param.group != ParamGroup::statistic) parameter.value.requires_grad_(true);
    }
  }
}

void FlatModel::initialise(uint64_t seed) {
  c10::NoGradGuard no_grad;
  for (const Param& param : params_) {
    at::Tensor values = flat_[param.block].weights.narrow(0, param.offset, param.numel);
    const RandomKey key = random_key(seed, param.name);
    switch (param.init.kind) {
      case Init::Kind::given:
        break;
      case Init::Kind::constant:
        values.fill_(param.init.a);
        break;
      case Init::Kind::normal:
        fill_normal(values, key, 0, param.init.a, param.init.b);
        break;
      case Init::Kind::uniform:
        fill_uniform(values, key, 0, param.init.a, param.init.b);
        break;
    }
  }
}

void FlatModel::clear_gradients(int block) {
  for (int index : flat_[block].params) {
    const Param& param = params_[index];
    if (param.group == ParamGroup::statistic) {
      param.parameter->gradient.zero_();
    } else {
      param.parameter->value.mutable_grad().reset();
    }
  }
}

void FlatModel::settle_gradients(int block) {
  c10::NoGradGuard no_grad;
  for (int index : flat_[block].params) {
    const Param& param = params_[index];
    if (param.group == ParamGroup::statistic) continue;
    at::Tensor& gradient = param.parameter->value.mutable_grad();
    const at::Tensor& place = param.parameter->gradient;
    if (!gradient.defined()) {
      place.zero_();
    } else if (gradient.data_ptr() != place.data_ptr()) {
      place.copy_(gradient);
    }
    gradient = place;
  }
}

void FlatModel::apply_statistics(int block, int64_t micro_batches) {
  FlatBlock& flat = flat_[block];
  if (flat.statistics.empty()) return;
  c10::NoGradGuard no_grad;
  const GroupRange range = flat.groups.back();
  const int64_t numel = range.end - range.begin;
  flat.weights.narrow(0, range.begin, numel)
      .add_(flat.gradients.narrow(0, range.begin, numel), 1.0 / static_cast<double>(micro_batches));
}

at::Tensor FlatModel::gradients(int first, int last) const {
  const int64_t begin = flat_[first].offset;
  return gradients_.narrow(0, begin, flat_[last - 1].offset + flat_[last - 1].numel - begin);
}

int64_t FlatModel::num_parameters() const {
  int64_t count = 0;
  for (const Param& param : params_) count += param.group == ParamGroup::statistic ? 0 : param.numel;
  return count;
}

}  // namespace weft
