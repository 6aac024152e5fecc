#include "weft/program/simulate/operator_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr int64_t kTile = 64;  // queries and keys of a tile of attention (nn/kernels/attention_kernels.h)

double real(int64_t value) { return static_cast<double>(value); }

OperatorClass product_class(const OperatorWork& x) {
  const bool is_pointwise = x.window == 1;
  switch (x.form) {
    case ProductForm::plain:
      break;
    case ProductForm::turned:
      return OperatorClass::weight_product;
    case ProductForm::convolution:
      return is_pointwise ? OperatorClass::pointwise : OperatorClass::convolution;
    case ProductForm::image:
      return is_pointwise ? OperatorClass::pointwise_image : OperatorClass::convolution_image;
    case ProductForm::filters:
      return is_pointwise ? OperatorClass::pointwise_filters : OperatorClass::convolution_filters;
  }
  return OperatorClass::product;
}

OperatorClass memory_class(const OperatorWork& x) {
  switch (x.of) {
    case MemoryClass::norm:
      return x.is_backward ? OperatorClass::norm_backward : OperatorClass::norm;
    case MemoryClass::channels:
      return x.is_backward ? OperatorClass::channels_backward : OperatorClass::channels;
    case MemoryClass::pool:
      return x.is_backward ? OperatorClass::pool_backward : OperatorClass::pool;
    case MemoryClass::activation:
      return x.is_backward ? OperatorClass::activation_backward : OperatorClass::activation;
    case MemoryClass::rotary:
      return OperatorClass::rotary;
    case MemoryClass::dropout:
      return OperatorClass::dropout;
    case MemoryClass::loss:
      return OperatorClass::loss;
    case MemoryClass::embedding:
      return x.is_backward ? OperatorClass::embedding_backward : OperatorClass::embedding;
    case MemoryClass::other:
      break;
  }
  return OperatorClass::other;
}

OperatorLoad product_load(const OperatorWork& x) {
  const double rows = real(x.rows), columns = real(x.columns), inner = real(x.inner), window = x.window;
  const double each = x.element_bytes * real(x.batch);
  switch (x.form) {
    case ProductForm::plain:
    case ProductForm::turned:
      break;
    case ProductForm::convolution:
      return {.work = x.flops(), .bytes = each * rows * (inner / window + columns), .extra = each * columns * inner};
    case ProductForm::image:
      return {.work = x.flops(), .bytes = each * rows * (columns / window + inner), .extra = each * columns * inner};
    case ProductForm::filters:
      return {.work = x.flops(), .bytes = each * inner * (columns / window + rows), .extra = each * rows * columns};
  }
  return {.work = x.flops(), .bytes = each * (rows * inner + inner * columns + (x.adds ? 2.0 : 1.0) * rows * columns)};
}

OperatorLoad attention_load(const OperatorWork& x) {
  const double tiles = std::ceil(real(x.rows) / kTile), keys = std::ceil(real(x.columns) / kTile);
  const double seen = x.is_causal ? tiles * (keys + 1.0) / 2.0 : tiles * keys;
  const double scores = real(x.batch * x.heads) * seen * kTile * kTile, width = real(x.inner);
  const double rows = real(x.heads * x.rows + x.kv_heads * x.columns);  // of queries and outputs, keys and values
  return {.work = (x.is_backward ? 10.0 : 4.0) * scores * width,
          .bytes = 2.0 * x.element_bytes * real(x.batch) * rows * width,
          .extra = scores};
}

const OperatorRate& rate_of(OperatorClass of, int element_bytes, const OperatorRates& rates, const std::string& name) {
  const std::string_view wanted = kOperatorClasses.of(of);
  const int bytes = std::clamp(element_bytes, 2, 4);
  for (const OperatorRate& rate : rates.of) {
    if (rate.of == wanted && rate.element_bytes == bytes) return rate;
  }
  throw InputError(fmt::format("{} has no rate of operators '{}' with {} bytes per element: measure it with weft calibrate",
                               name, wanted, bytes));
}

double seconds(const OperatorRate& rate, const OperatorLoad& load, double near_bytes) {
  return rate.start_s + load.work * rate.work_s + load.bytes * rate.byte_s +
         std::max(0.0, load.bytes - near_bytes) * rate.far_byte_s + load.extra * rate.extra_s;
}

}  // namespace

OperatorClass class_of(const OperatorWork& x) {
  if (x.kind == OperatorKind::product) return product_class(x);
  if (x.kind == OperatorKind::memory) return memory_class(x);
  return x.is_backward ? OperatorClass::attention_backward : OperatorClass::attention;
}

OperatorLoad load_of(const OperatorWork& x) {
  if (x.kind == OperatorKind::product) return product_load(x);
  if (x.kind == OperatorKind::attention) return attention_load(x);
  return {.work = real(x.elements), .bytes = real(x.bytes)};
}

double rated_seconds(const OperatorWork& work, const OperatorRates& rates, const std::string& name) {
  if (work.kind != OperatorKind::memory && work.flops() <= 0.0) return 0.0;
  return seconds(rate_of(class_of(work), work.element_bytes, rates, name), load_of(work), rates.near_bytes);
}

double rated_seconds(OperatorClass of, double bytes, int element_bytes, const OperatorRates& rates, const std::string& name) {
  return seconds(rate_of(of, element_bytes, rates, name), {.bytes = bytes}, rates.near_bytes);
}

void check_rates(const OperatorRates& rates, const std::string& name) {
  if (!(rates.near_bytes >= 0.0) || !std::isfinite(rates.near_bytes)) {
    throw InputError(fmt::format("{}: near_bytes is {}, must be at least 0 and finite", name, rates.near_bytes));
  }
  std::set<std::pair<std::string, int64_t>> seen;
  for (const OperatorRate& rate : rates.of) {
    kOperatorClasses.value_of(rate.of, name + ": operator.of");
    if (rate.element_bytes != 2 && rate.element_bytes != 4) {
      throw InputError(
          fmt::format("{}: operator '{}' has element_bytes = {}, must be 2 or 4", name, rate.of, rate.element_bytes));
    }
    if (!seen.emplace(rate.of, rate.element_bytes).second) {
      throw InputError(fmt::format("{}: operator '{}' with {} bytes per element appears twice; remove one", name, rate.of,
                                   rate.element_bytes));
    }
    for (const double value : {rate.start_s, rate.work_s, rate.byte_s, rate.far_byte_s, rate.extra_s}) {
      if (value >= 0.0 && std::isfinite(value)) continue;
      throw InputError(fmt::format("{}: a time of operator '{}' is {}, must be at least 0 and finite", name, rate.of, value));
    }
  }
}

}  // namespace weft
