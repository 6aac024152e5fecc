#include "tests/fuzz_nn/arguments.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_efficientzerotensor.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <string_view>

namespace weft::fuzz_nn {

namespace {

at::ScalarType type_of(char letter) { return letter == 'f' ? at::kFloat : letter == 'd' ? at::kDouble : at::kBFloat16; }

/// A valid tensor for the row; sets `empty` if it has no elements.
at::Tensor make_one(std::string_view spec, const Case& c, at::ScalarType type, test::Random& random, bool& empty) {
  std::vector<int64_t> sizes;
  size_t at = 0;
  for (; at < spec.size() && std::string_view("#+?=LM!").find(spec[at]) == std::string_view::npos; ++at) {
    if (spec[at] == 'D' && at + 1 == spec.size() && at > 0) break;
    sizes.push_back(c.size(spec[at]));
    empty = empty || sizes.back() == 0;
  }
  const std::string_view marks = spec.substr(at);
  const auto has = [marks](char mark) { return marks.find(mark) != std::string_view::npos; };
  if (has('?') && random.one_in(2)) return {};
  if (has('#')) return at::randint(0, std::max<int64_t>(1, c.size(marks[1])), sizes, at::kLong);
  at::Tensor x = at::randn(sizes, at::kDouble);
  if (has('+')) x = x.abs().add(0.5);
  if (has('L') || (has('M') && x.dim() == 4)) x = x.contiguous(at::MemoryFormat::ChannelsLast);
  return x.to(has('D') ? at::kDouble : has('=') ? at::kFloat : type);
}

/// The same values with other strides.
at::Tensor restride(const at::Tensor& x, test::Random& random) {
  if (x.dim() == 0) return x;
  const int64_t dim = random.below(static_cast<int>(x.dim()));
  switch (random.below(4)) {
    case 0: {  // every second element of a larger tensor
      std::vector<int64_t> sizes = x.sizes().vec();
      sizes[dim] *= 2;
      at::Tensor larger = at::empty(sizes, x.options()).slice(dim, 0, {}, 2);
      return larger.copy_(x), larger;
    }
    case 1:
      return x.transpose(dim, 0).contiguous().transpose(dim, 0);
    case 2: {  // within a larger tensor
      std::vector<int64_t> sizes = x.sizes().vec();
      sizes[dim] += 3;
      at::Tensor part = at::empty(sizes, x.options()).narrow(dim, 2, x.size(dim));
      return part.copy_(x), part;
    }
    default:
      return x.dim() == 4 ? x.contiguous(at::MemoryFormat::ChannelsLast) : x.transpose(0, -1).contiguous().transpose(0, -1);
  }
}

at::Tensor reshape(const at::Tensor& x, test::Random& random) {
  const int64_t dim = x.dim() == 0 ? 0 : random.below(static_cast<int>(x.dim()));
  const int kind = x.dim() == 0 ? 5 : random.below(8);
  switch (kind) {
    case 0:
      return x.size(dim) > 0 ? x.select(dim, 0) : x;
    case 1:
      return x.narrow(dim, 0, 0);
    case 2:
      return x.size(dim) > 0 ? x.narrow(dim, 0, 1) : x;
    case 3:
      return x.size(dim) > 0 ? x.narrow(dim, 0, x.size(dim) - 1) : x;
    case 4:
      return x.repeat_interleave(2, dim);
    case 5:
      return x.unsqueeze(random.one_in(2) ? 0 : -1);
    case 6:
      return x.numel() > 0 ? x.flatten()[0] : x;
    default:  // overlapping
      return x.size(dim) > 0 ? x.narrow(dim, 0, 1).expand(x.sizes()) : x;
  }
}

at::Tensor strange(const at::Tensor& x, test::Random& random) {
  switch (random.below(5)) {
    case 0:
      return {};
    case 1:
      return x.to(at::kMeta);
    case 2:
      return x.is_floating_point() ? at::_neg_view(x) : x.to(at::kInt).neg();
    case 3:
      return at::_efficientzerotensor(x.sizes(), x.options());
    default:
      return x.is_floating_point() ? x.to_sparse() : x.add(1000);
  }
}

/// Makes one change and names it. A change of strides keeps the tensor valid.
at::Tensor change(const at::Tensor& x, test::Random& random, std::string& name) {
  static const std::vector<at::ScalarType> kTypes = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf,        at::kLong,
                                                     at::kInt,   at::kBool,   at::kByte,     at::kComplexFloat};
  const int kind = random.below(8);
  if (kind < 4) return name = "shape", reshape(x, random);
  if (kind < 6) {
    const at::ScalarType type = random.of(kTypes);
    name = type == x.scalar_type() ? "" : c10::toString(type);
    return x.to(type);
  }
  return name = "strange", strange(x, random);
}

}  // namespace

Arguments make_arguments(const Spec& spec, const Case& c, test::Random& random) {
  Arguments all;
  const at::ScalarType type = type_of(spec.types[random.below(static_cast<int>(spec.types.size()))]);
  bool empty = false;
  for (const std::string& one : spec.arguments) all.tensors.push_back(make_one(one, c, type, random, empty));
  all.are_good = !empty;
  const int changes = random.one_in(2) ? 0 : 1 + random.below(2);
  for (int i = 0; i < changes; ++i) {
    at::Tensor& x = all.tensors[random.below(static_cast<int>(all.tensors.size()))];
    if (!x.defined() || x.layout() != at::kStrided || x._is_zerotensor() || x.is_meta()) continue;
    std::string name;
    x = change(x, random, name);
    all.are_good = all.are_good && name.empty();
    all.changes += fmt::format("{} of {}; ", name, &x - all.tensors.data());
  }
  for (size_t i = 0; i < all.tensors.size(); ++i) {
    at::Tensor& x = all.tensors[i];
    const auto has = [&](char mark) { return spec.arguments[i].find(mark) != std::string::npos; };
    if (!x.defined() || x.layout() != at::kStrided || x._is_zerotensor() || x.is_neg() || x.is_meta()) continue;
    if (random.one_in(4) && x.numel() < 20000 && !has('M')) x = restride(x, random);
    if (spec.differentiable && !has('!') && x.is_floating_point() && random.one_in(2)) x = x.detach().requires_grad_(true);
  }
  return all;
}

}  // namespace weft::fuzz_nn
