// The part of FlatModel that makes its buffers and binds the blocks' parameters to them.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "weft/base/buffer_sizes.h"
#include "weft/nn/flat/flat_model.h"

namespace weft {

namespace {

/// Elements of a block's whole weights.
int64_t with_frozen(const FlatBlock& flat) { return flat.numel + flat.frozen.numel; }

}  // namespace

at::Tensor PlainAllocator::allocate(FlatBuffer /*buffer*/, int64_t numel, at::ScalarType dtype, const std::string& /*what*/) {
  return at::zeros({numel}, at::TensorOptions(dtype).device(device_));
}

void FlatModel::allocate() {
  int64_t total = 0;
  for (const FlatBlock& flat : flat_) {
    offsets_.push_back(total);
    total += flat.numel * num_sums(static_cast<int>(offsets_.size()) - 1);
  }
  allocate_weights();
  allocate_gradients(total);
  allocate_shards();
  if (options_.num_inner_shards > 1) allocate_inner();
}

at::Tensor FlatModel::make(FlatBuffer buffer, int64_t numel, const std::string& what) const {
  const bool is_gradient = buffer == FlatBuffer::gradients || buffer == FlatBuffer::owned_gradients;
  const at::ScalarType dtype = buffer == FlatBuffer::master ? at::kFloat
                               : is_gradient                ? options_.gradient_dtype
                                                            : options_.weight_dtype;
  return options_.allocator->allocate(buffer, numel, dtype, what);
}

void FlatModel::allocate_inner() {
  int64_t total = 0;
  for (const FlatBlock& flat : flat_) total += with_frozen(flat);
  const at::Tensor inner = make(FlatBuffer::inner, total / options_.num_inner_shards, "inner shards of the weights");
  int64_t at = 0;
  for (FlatBlock& flat : flat_) {
    for (FlatPart* part : flat.parts()) {
      part->inner = inner.narrow(0, at, part->numel / options_.num_inner_shards);
      at += part->numel / options_.num_inner_shards;
    }
  }
}

void FlatModel::allocate_weights() {
  std::vector<at::Tensor> shared;  // empty if each block has its own
  for (const int64_t numel : buffer_sizes(options_.weight_buffer, [this](size_t b) { return with_frozen(flat_[b]); })) {
    shared.push_back(make(FlatBuffer::weights, numel, "gathered weights"));
  }
  for (int b = 0; b < num_blocks(); ++b) {
    if (!holds(b)) continue;
    const at::Tensor whole =
        shared.empty() ? make(FlatBuffer::weights, with_frozen(flat_[b]), weights_of(b)) : shared[options_.weight_buffer[b]];
    for (FlatPart* part : flat_[b].parts()) part->weights = whole.narrow(0, part->begin, part->numel);
  }
}

void FlatModel::allocate_gradients(int64_t total) {
  const auto make_whole = [this](int64_t numel) { return make(FlatBuffer::gradients, numel, "gradients"); };
  const auto extent = [this](size_t b) { return flat_[b].numel * num_sums(static_cast<int>(b)); };
  std::vector<at::Tensor> shared;  // empty if each block has its own
  for (const int64_t numel : buffer_sizes(options_.gradient_buffer, extent)) shared.push_back(make_whole(numel));
  if (shared.empty()) gradients_ = make_whole(total);
  for (int b = 0; b < num_blocks(); ++b) {
    if (!holds(b)) continue;
    FlatBlock& flat = flat_[b];
    const at::Tensor& all = shared.empty() ? gradients_ : shared[options_.gradient_buffer[b]];
    flat.all_gradients = all.narrow(0, shared.empty() ? offsets_[b] : 0, extent(b));
    flat.gradients = flat.all_gradients.narrow(0, 0, flat.numel);
    const int64_t own = flat.num_owned();
    const at::Tensor owned = options_.separate_gradients
                                 ? make(FlatBuffer::owned_gradients, own * num_sums(b), "gradients of " + model_.blocks[b].name)
                                 : at::Tensor();
    flat.owned_gradients = owned.defined() ? owned.narrow(0, 0, own) : flat.gradients.narrow(0, flat.owned.begin, own);
    take_uses(b, owned);
  }
}

void FlatModel::allocate_shards() {
  if (options_.separate_shard && options_.late_shard) return;
  at::Tensor shards;
  if (options_.separate_shard) {
    int64_t owned = 0;
    for (const FlatBlock& flat : flat_) owned += flat.num_owned() + flat.frozen.num_owned();
    shards = make(FlatBuffer::shard, owned, "shards of the weights");
  }
  int64_t at = 0;
  const bool same = options_.weight_dtype == at::kFloat;
  for (int b = 0; b < num_blocks(); ++b) {
    if (!holds(b)) continue;
    for (FlatPart* part : flat_[b].parts()) {
      const int64_t own = part->num_owned();
      part->shard = options_.separate_shard ? shards.narrow(0, at, own) : part->weights.narrow(0, part->owned.begin, own);
      part->master = same ? part->shard : make(FlatBuffer::master, own, "master " + weights_of(b));
      at += own;
    }
  }
}

void FlatModel::keep_given(int block) {
  for (int index : flat_[block].params) {
    if (params_[index].init.kind == Init::Kind::given) given_[index] = params_[index].parameter->value.detach();
  }
}

void FlatModel::share_given(const ShareValues& share) {
  for (int b = 0; b < num_blocks(); ++b) {
    take_given(b, share);
    share_buffers(b, share);
  }
  given_.clear();
  place_buffers();
}

/// Shares rank 0's buffers of the block, as concatenated bytes.
void FlatModel::share_buffers(int block, const ShareValues& share) {
  const auto for_each = [&](const auto& visit) {
    for (const ModelBuffer& buffer : buffers_) {
      if (buffer.block == block && buffer.value.numel() > 0) visit(buffer);
    }
  };
  int64_t total = 0;
  for_each([&total](const ModelBuffer& buffer) { total += static_cast<int64_t>(buffer.value.nbytes()); });
  if (total == 0) return;
  const at::Tensor shared = at::empty({total}, at::TensorOptions(at::kByte).device(options_.device));
  int64_t at = 0;
  const auto next = [&](const at::Tensor& bytes) {
    return shared.narrow(0, std::exchange(at, at + bytes.numel()), bytes.numel());
  };
  for_each([&](const ModelBuffer& buffer) {
    const at::Tensor bytes = as_bytes(values_of(buffer));
    next(bytes).copy_(bytes);
  });
  share(shared, holds(block), "buffers of " + model_.blocks[block].name);
  if (!holds(block)) return;
  at = 0;
  for_each([&](const ModelBuffer& buffer) {
    const at::Tensor values = at::empty(buffer.shape, buffer.value.options()), bytes = as_bytes(values);
    bytes.copy_(next(bytes));
    set_values(buffer, values);
  });
}

/// Moves buffers to the model's device. Blocks on other ranks keep no values, unless a held block has the same tensor.
void FlatModel::place_buffers() {
  if (options_.device.is_meta()) return;  // cannot hold another device's tensor
  c10::NoGradGuard no_grad;
  std::unordered_set<const c10::TensorImpl*> held;
  for (const ModelBuffer& buffer : buffers_) {
    if (!holds(buffer.block)) continue;
    held.insert(buffer.value.unsafeGetTensorImpl());
    if (buffer.value.requires_grad()) at::Tensor(buffer.value).detach_();
    if (buffer.value.device() != options_.device) buffer.value.set_data(buffer.value.to(options_.device));
  }
  for (const ModelBuffer& buffer : buffers_) {
    if (holds(buffer.block) || held.count(buffer.value.unsafeGetTensorImpl()) > 0) continue;
    buffer.value.set_data(at::empty({0}, buffer.value.options()));
  }
}

/// Moves values that the block's tensors already had, if any, to the master weights.
void FlatModel::take_given(int block, const ShareValues& share) {
  FlatBlock& flat = flat_[block];
  const auto is_given = [this](int i) { return params_[i].init.kind == Init::Kind::given; };
  if (std::none_of(flat.params.begin(), flat.params.end(), is_given)) return;
  c10::NoGradGuard no_grad;
  const at::TensorOptions wide = at::TensorOptions(at::kFloat).device(options_.device);
  int64_t total = 0;
  for (int index : flat.params) total += params_[index].whole_numel();
  const at::Tensor shared = at::zeros({total}, wide);
  const auto for_each = [&](const auto& visit) {
    int64_t at = 0;
    for (int index : flat.params) {
      const Param& param = params_[index];
      visit(index, param, shared.narrow(0, at, param.whole_numel()).view(param.shape));
      at += param.whole_numel();
    }
  };
  for_each([&](int index, const Param&, const at::Tensor& value) {
    const auto given = given_.extract(index);
    if (!given.empty() && !given.mapped().is_meta()) value.copy_(given.mapped());
  });
  share(shared, holds(block), weights_of(block));
  if (!holds(block)) return;
  const at::Tensor whole = at::zeros({flat.whole_numel + flat.frozen.whole_numel}, wide);
  for_each([&](int, const Param& param, const at::Tensor& value) {
    const at::Tensor own = param.split ? take_part(value, *param.split) : value;
    param.own_in(whole.narrow(0, param.offset, param.numel)).copy_(own);
  });
  for (FlatPart* part : flat.parts()) {
    make_shard(*part);
    part->master.copy_(whole.narrow(0, part->begin + part->owned.begin, part->num_owned()));
    copy_master_to_shard(*part);
  }
}

/// Frees the values of a block that other ranks hold.
void FlatModel::release_values(int block) {
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
    at::Tensor view = param.own_in(place);
    if (param.group != ParamGroup::frozen) {
      parameter.gradient = param.own_in(flat.gradients.narrow(0, param.offset, param.numel));
    }
    if (parameter.value.is_meta()) {
      parameter.value = view.variable_data();  // which counts its own changes, as set_data() leaves it to do
    } else {
      parameter.value.set_data(view);
    }
    parameter.value.requires_grad_(is_trained(param.group));
  }
  bind_uses(block);
}

void FlatModel::make_shard(FlatPart& part) {
  if (part.master.defined()) return;
  const int64_t own = part.num_owned();
  part.master = at::zeros({own}, part.weights.options().dtype(at::kFloat));
  part.shard = options_.weight_dtype == at::kFloat ? part.master : at::zeros({own}, part.weights.options());
}

}  // namespace weft
