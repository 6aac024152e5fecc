// The part of FlatModel that makes its buffers and binds the blocks' parameters to them.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "weft/nn/flat.h"

namespace weft {

namespace {

Allocate or_plain(const Allocate& allocate, at::Device device) {
  if (allocate) return allocate;
  return [device](int64_t numel, at::ScalarType dtype, const std::string&) {
    return at::zeros({numel}, at::TensorOptions(dtype).device(device));
  };
}

/// Memory of each buffer, as large as its largest block; none where each block has its own.
std::vector<at::Tensor> shared_buffers(const std::vector<FlatBlock>& blocks, const std::vector<int>& buffer_of_block,
                                       const std::function<int64_t(const FlatBlock&)>& numel_of, const Allocate& make,
                                       at::ScalarType dtype, const std::string& what) {
  std::vector<int64_t> sizes;
  for (size_t b = 0; b < buffer_of_block.size(); ++b) {
    if (buffer_of_block[b] < 0) continue;
    const auto buffer = static_cast<size_t>(buffer_of_block[b]);
    if (sizes.size() <= buffer) sizes.resize(buffer + 1, 0);
    sizes[buffer] = std::max(sizes[buffer], numel_of(blocks[b]));
  }
  std::vector<at::Tensor> buffers;
  buffers.reserve(sizes.size());
  for (int64_t size : sizes) buffers.push_back(make(size, dtype, what));
  return buffers;
}

/// Elements of a block's whole weights.
int64_t with_frozen(const FlatBlock& flat) { return flat.numel + flat.frozen.numel; }

}  // namespace

void FlatModel::allocate() {
  int64_t total = 0;
  for (const FlatBlock& flat : flat_) {
    offsets_.push_back(total);
    total += flat.numel;
  }
  allocate_weights();
  allocate_gradients(total);
  allocate_shards();
  if (options_.num_inner_shards > 1) allocate_inner();
}

void FlatModel::allocate_inner() {
  int64_t total = 0;
  for (const FlatBlock& flat : flat_) total += with_frozen(flat);
  const at::Tensor inner = or_plain(options_.allocate_inner, options_.device)(
      total / options_.num_inner_shards, options_.weight_dtype, "inner shards of the weights");
  int64_t at = 0;
  for (FlatBlock& flat : flat_) {
    for (FlatPart* part : flat.parts()) {
      part->inner = inner.narrow(0, at, part->numel / options_.num_inner_shards);
      at += part->numel / options_.num_inner_shards;
    }
  }
}

void FlatModel::allocate_weights() {
  const Allocate make = or_plain(options_.allocate_weights, options_.device);
  const at::ScalarType dtype = options_.weight_dtype;
  const std::vector<at::Tensor> shared =
      shared_buffers(flat_, options_.weight_buffer, with_frozen, make, dtype, "gathered weights");
  for (int b = 0; b < num_blocks(); ++b) {
    if (!holds(b)) continue;
    const at::Tensor whole = shared.empty() ? make(with_frozen(flat_[b]), dtype, "weights of " + model_.blocks[b].name)
                                            : shared[options_.weight_buffer[b]];
    for (FlatPart* part : flat_[b].parts()) part->weights = whole.narrow(0, part->begin, part->numel);
  }
}

void FlatModel::allocate_gradients(int64_t total) {
  const Allocate make = or_plain(options_.allocate_gradients, options_.device);
  const Allocate make_owned = or_plain(options_.allocate_owned, options_.device);
  const at::ScalarType dtype = options_.gradient_dtype;
  const auto numel_of = [](const FlatBlock& flat) { return flat.numel; };
  const std::vector<at::Tensor> shared = shared_buffers(flat_, options_.gradient_buffer, numel_of, make, dtype, "gradients");
  if (shared.empty()) gradients_ = make(total, dtype, "gradients");
  for (int b = 0; b < num_blocks(); ++b) {
    if (!holds(b)) continue;
    FlatBlock& flat = flat_[b];
    flat.gradients = shared.empty() ? gradients_.narrow(0, offsets_[b], flat.numel)
                                    : shared[options_.gradient_buffer[b]].narrow(0, 0, flat.numel);
    flat.owned_gradients = options_.separate_gradients
                               ? make_owned(flat.num_owned(), dtype, "gradients of " + model_.blocks[b].name)
                               : flat.gradients.narrow(0, flat.owned.begin, flat.num_owned());
  }
}

void FlatModel::allocate_shards() {
  if (options_.separate_shard && options_.late_shard) return;
  const Allocate make_master = or_plain(options_.allocate_master, options_.device);
  at::Tensor shards;
  if (options_.separate_shard) {
    int64_t owned = 0;
    for (const FlatBlock& flat : flat_) owned += flat.num_owned() + flat.frozen.num_owned();
    shards = or_plain(options_.allocate_shard, options_.device)(owned, options_.weight_dtype, "shards of the weights");
  }
  int64_t at = 0;
  const bool same = options_.weight_dtype == at::kFloat;
  for (int b = 0; b < num_blocks(); ++b) {
    if (!holds(b)) continue;
    for (FlatPart* part : flat_[b].parts()) {
      const int64_t own = part->num_owned();
      part->shard = options_.separate_shard ? shards.narrow(0, at, own) : part->weights.narrow(0, part->owned.begin, own);
      part->master = same ? part->shard : make_master(own, at::kFloat, "master weights of " + model_.blocks[b].name);
      at += own;
    }
  }
}

/// Values that the block's tensors have already, if any, become the master's: rank 0's, on every rank that holds the block.
void FlatModel::take_given(int block) {
  FlatBlock& flat = flat_[block];
  const auto is_given = [this](int i) { return params_[i].init.kind == Init::Kind::given; };
  if (std::none_of(flat.params.begin(), flat.params.end(), is_given)) return;
  if (!holds(block) && !options_.share_given) return;
  c10::NoGradGuard no_grad;
  const at::TensorOptions wide = at::TensorOptions(at::kFloat).device(options_.device);
  const at::Tensor whole = at::zeros({flat.whole_numel + flat.frozen.whole_numel}, wide);
  for (int index : flat.params) {
    const Param& param = params_[index];
    if (param.parameter->value.is_meta()) continue;
    whole.narrow(0, param.offset, param.numel).view(param.shape).copy_(param.parameter->value.detach());
  }
  if (options_.share_given) options_.share_given(whole, holds(block), "weights of " + model_.blocks[block].name);
  if (!holds(block)) return;
  for (FlatPart* part : flat.parts()) {
    make_shard(*part);
    part->master.copy_(whole.narrow(0, part->begin + part->owned.begin, part->num_owned()));
    copy_master_to_shard(*part);
  }
}

/// A block that other ranks hold keeps no values.
void FlatModel::let_go(int block) {
  for (int index : flat_[block].params) {
    at::Tensor& value = params_[index].parameter->value;
    if (!value.is_meta()) value.set_data(at::empty({0}, value.options()));
  }
}

void FlatModel::bind(int block) {
  c10::NoGradGuard no_grad;
  FlatBlock& flat = flat_[block];
  const GroupRange range = statistics_range(block);
  const auto is_wide = [this](int index) { return params_[index].wide; };
  if (std::any_of(flat.params.begin(), flat.params.end(), is_wide)) {
    flat.wide_statistics = at::zeros({range.end - range.begin}, flat.weights.options().dtype(at::kFloat));
  }
  for (int index : flat.params) {
    Param& param = params_[index];
    Parameter& parameter = *param.parameter;
    const FlatPart& part = part_of(param);
    const at::Tensor place = param.wide ? flat.wide_statistics.narrow(0, param.offset - range.begin, param.numel)
                                        : part.weights.narrow(0, param.offset - part.begin, param.numel);
    at::Tensor view = place.view(param.shape);
    if (param.group != ParamGroup::frozen) {
      parameter.gradient = flat.gradients.narrow(0, param.offset, param.numel).view(param.shape);
    }
    if (parameter.value.is_meta()) {
      parameter.value = view.detach();
    } else {
      parameter.value.set_data(view);
    }
    parameter.value.requires_grad_(is_trained(param.group));
  }
}

void FlatModel::make_shard(FlatPart& part) {
  if (part.master.defined()) return;
  const int64_t own = part.num_owned();
  part.master = at::zeros({own}, part.weights.options().dtype(at::kFloat));
  part.shard = options_.weight_dtype == at::kFloat ? part.master : at::zeros({own}, part.weights.options());
}

}  // namespace weft
