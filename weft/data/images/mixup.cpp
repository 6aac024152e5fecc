#include "weft/data/images/mixup.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/data/images/sample_random.h"

namespace weft {
namespace {

constexpr double kLeastAlpha = 1e-3;  // below it all weights are 0 or 1
constexpr double kMostAlpha = 4.0;    // above it Joehnk's method draws too often

/// Beta(alpha, alpha) by Joehnk's method (1964), in logarithms: with small alphas the numbers themselves underflow.
double draw_weight(double alpha, SampleRandom& random) {
  while (true) {
    const double x = std::log1p(-random.uniform()) / alpha, y = std::log1p(-random.uniform()) / alpha;
    const double top = std::max(x, y);
    const double sum = top + std::log(std::exp(x - top) + std::exp(y - top));
    if (sum <= 0.0) return std::exp(x - sum);
  }
}

/// Not by tensor operators: they may start a second pool of OpenMP threads for a loader's thread.
void mix(const float* own, const float* other, float weight, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = weight * own[i] + (1.0F - weight) * other[i];
}

class MixedSet final : public Dataset {
 public:
  MixedSet(std::shared_ptr<const Dataset> dataset, const MixupOptions& options)
      : dataset_(std::move(dataset)), options_(options) {}

  int64_t size() const override { return dataset_->size(); }
  DataNotes left_out() const override { return dataset_->left_out(); }
  DataNotes passed_over() const override { return dataset_->passed_over(); }
  bool is_ordered() const override { return dataset_->is_ordered(); }
  SampleRange near(int64_t index, int64_t epoch) const override { return dataset_->near(index, epoch); }

  Batch get(const std::vector<int64_t>& indices, int64_t epoch) const override {
    std::vector<float> weights;
    std::vector<int64_t> partners;
    for (const int64_t index : indices) {
      const SampleRange near = dataset_->near(index, epoch);
      const MixupDraw draw = draw_mixup(options_, near.count, epoch, index);
      weights.push_back(static_cast<float>(draw.weight));
      partners.push_back(near.first + draw.partner);
    }
    Batch own = dataset_->get(indices, epoch), other = dataset_->get(partners, epoch);
    check(own, indices.size());
    check(other, partners.size());
    if (own.inputs.front().sizes() != other.inputs.front().sizes()) throw InputError("mixup: images must be of one size");
    const auto count = static_cast<int64_t>(indices.size());
    const at::Tensor a = own.inputs.front().contiguous(), b = other.inputs.front().contiguous();
    const int64_t numel = a.numel() / count;
    const at::Tensor images = at::empty(a.sizes(), a.options()), target = at::empty({count, options_.classes}, at::kFloat);
    const auto *label = own.target.const_data_ptr<int64_t>(), *other_label = other.target.const_data_ptr<int64_t>();
    auto* row = target.mutable_data_ptr<float>();
    std::fill_n(row, target.numel(), 0.0F);
    for (int64_t i = 0; i < count; ++i, row += options_.classes) {
      const float weight = weights[static_cast<size_t>(i)];
      mix(a.const_data_ptr<float>() + i * numel, b.const_data_ptr<float>() + i * numel, weight, numel,
          images.mutable_data_ptr<float>() + i * numel);
      row[label[i]] += weight;
      row[other_label[i]] += 1.0F - weight;
    }
    own.inputs.front() = images;
    own.target = target;
    own.skipped.insert(own.skipped.end(), other.skipped.begin(), other.skipped.end());
    return own;
  }

 private:
  void check(Batch& batch, size_t samples) const {
    const std::string misfit = samples_misfit(batch, static_cast<int64_t>(samples));
    if (!misfit.empty()) throw InputError(fmt::format("mixup: {}, {} requested", misfit, samples));
    if (batch.inputs.empty() || batch.inputs.front().scalar_type() != at::kFloat || batch.target.scalar_type() != at::kLong ||
        batch.target.dim() != 1 || !batch.inputs.front().is_cpu() || !batch.target.is_cpu()) {
      throw InputError("mixup: samples must be float32 images with labels [n] int64, on the CPU");
    }
    batch.target = batch.target.contiguous();
    const auto* label = batch.target.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < batch.target.numel(); ++i) {
      if (label[i] < 0 || label[i] >= options_.classes)
        throw InputError(fmt::format("mixup: label {} is not one of {} classes", label[i], options_.classes));
    }
  }

  const std::shared_ptr<const Dataset> dataset_;
  const MixupOptions options_;
};

}  // namespace

MixupDraw draw_mixup(const MixupOptions& options, int64_t size, int64_t epoch, int64_t sample) {
  SampleRandom random(fnv1a("mixup") ^ options.seed, epoch, sample);
  const int64_t partner = random.below(size);
  return {.weight = draw_weight(options.alpha, random), .partner = partner};
}

std::shared_ptr<Dataset> mix_up(std::shared_ptr<const Dataset> dataset, const MixupOptions& options) {
  if (!(options.alpha >= kLeastAlpha && options.alpha <= kMostAlpha)) {
    throw InputError(
        fmt::format("mixup: alpha = {}; it must be at least {} and at most {}", options.alpha, kLeastAlpha, kMostAlpha));
  }
  if (options.classes < 1) throw InputError(fmt::format("mixup: {} classes; there must be at least 1", options.classes));
  return std::make_shared<MixedSet>(std::move(dataset), options);
}

}  // namespace weft
