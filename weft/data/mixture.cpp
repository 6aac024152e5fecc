#include "weft/data/mixture.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/data/interleave.h"
#include "weft/data/loader.h"
#include "weft/data/sampler.h"

namespace weft {
namespace {

/// Sample of one source.
struct Pick {
  size_t source = 0;
  int64_t epoch = 0, index = 0;  ///< of that source
};

/// Copies the rows of `from` to the positions `rows` of `to`, which has `count` rows. Not at::index_copy: it may start a second
/// pool of OpenMP threads for this thread.
void scatter_rows(const at::Tensor& from, const std::vector<size_t>& rows, int64_t count, const std::string& name,
                  at::Tensor& to) {
  if (!from.is_cpu()) {
    throw InputError(
        fmt::format("mixture: samples of {} are on {}; a source must give them on the CPU", name, from.device().str()));
  }
  if (!to.defined()) {
    std::vector<int64_t> sizes = from.sizes().vec();
    sizes[0] = count;
    to = at::empty(sizes, from.options());
  }
  if (!have_like_rows(from, to)) {
    throw InputError(fmt::format("mixture: samples of {} differ in shape or type from the sources before it", name));
  }
  const at::Tensor packed = from.contiguous();
  const size_t bytes = packed.nbytes() / rows.size();
  const auto* source = static_cast<const char*>(packed.const_data_ptr());
  auto* target = static_cast<char*>(to.mutable_data_ptr());
  for (size_t i = 0; i < rows.size(); ++i) std::memcpy(target + rows[i] * bytes, source + i * bytes, bytes);
}

class Combination : public Dataset {
 public:
  explicit Combination(std::vector<MixtureSource> sources) : sources_(std::move(sources)) {
    for (const MixtureSource& source : sources_) size_ += source.samples->size();
  }

  int64_t size() const override { return size_; }
  DataNotes left_out() const override {
    return of_all([](const Dataset& samples) { return samples.left_out(); });
  }
  DataNotes passed_over() const override {
    return of_all([](const Dataset& samples) { return samples.passed_over(); });
  }

  std::string fullness() const override {
    std::string all;
    for (const MixtureSource& source : sources_) {
      const std::string one = source.samples->fullness();
      if (!one.empty())
        all += fmt::format("{}{}{}{}", all.empty() ? "" : ", ", source.name, source.name.empty() ? "" : ": ", one);
    }
    return all;
  }

  /// One call per source and source epoch; its samples go to their rows.
  Batch get(const std::vector<int64_t>& indices, int64_t epoch) const override {
    std::map<std::pair<size_t, int64_t>, std::pair<std::vector<int64_t>, std::vector<size_t>>> calls;
    for (size_t row = 0; row < indices.size(); ++row) {
      const int64_t index = indices[row];
      if (index < 0 || index >= size_) {
        throw InputError(fmt::format("mixture: sample {} requested, but there are only {}", index, size_));
      }
      const Pick pick = this->pick(index, epoch);
      auto& [samples, rows] = calls[{pick.source, pick.epoch}];
      samples.push_back(pick.index);
      rows.push_back(row);
    }
    Batch batch;
    for (const auto& [key, call] : calls) add(sources_[key.first], key.second, call.first, call.second, indices.size(), batch);
    return batch;
  }

 protected:
  virtual Pick pick(int64_t index, int64_t epoch) const = 0;
  const std::vector<MixtureSource>& sources() const { return sources_; }

 private:
  static void add(const MixtureSource& source, int64_t epoch, const std::vector<int64_t>& samples,
                  const std::vector<size_t>& rows, size_t all, Batch& batch) {
    Batch part = source.samples->get(samples, epoch);
    const std::string misfit = samples_misfit(part, static_cast<int64_t>(samples.size()));
    if (!misfit.empty()) {
      throw InputError(fmt::format("mixture: {}: {} where {} were requested", source.name, misfit, samples.size()));
    }
    if (!batch.target.defined()) batch.inputs.resize(part.inputs.size());
    if (part.inputs.size() != batch.inputs.size()) {
      throw InputError(fmt::format("mixture: samples of {} have {} inputs, the sources before it {}", source.name,
                                   part.inputs.size(), batch.inputs.size()));
    }
    const auto count = static_cast<int64_t>(all);
    for (size_t i = 0; i < part.inputs.size(); ++i) scatter_rows(part.inputs[i], rows, count, source.name, batch.inputs[i]);
    scatter_rows(part.target, rows, count, source.name, batch.target);
    std::move(part.skipped.begin(), part.skipped.end(), std::back_inserter(batch.skipped));
  }

  template <class Names>
  DataNotes of_all(const Names& names) const {
    DataNotes all;
    for (const MixtureSource& source : sources_) {
      for (DataNote& name : names(*source.samples)) all.push_back(std::move(name));
    }
    return all;
  }

  std::vector<MixtureSource> sources_;
  int64_t size_ = 0;
};

std::vector<int64_t> weights_of(const std::vector<MixtureSource>& sources) {
  std::vector<double> shares;
  shares.reserve(sources.size());
  for (const MixtureSource& source : sources) shares.push_back(source.weight);
  return whole_weights(shares);
}

class Mixture final : public Combination {
 public:
  Mixture(std::vector<MixtureSource> parts, uint64_t seed) : Combination(std::move(parts)), interleave_(weights_of(sources())) {
    orders_.reserve(sources().size());
    for (const MixtureSource& source : sources()) {
      orders_.push_back(sampler_of(*source.samples, splitmix64(seed + orders_.size())));
    }
  }
  bool is_ordered() const override { return true; }

 private:
  Pick pick(int64_t index, int64_t epoch) const override {
    const auto [source, count] = interleave_.at(epoch * size() + index);
    return {source, orders_[source].epoch(count), orders_[source].sample(count)};
  }

  Interleave interleave_;
  std::vector<Sampler> orders_;
};

class Joined final : public Combination {
 public:
  using Combination::Combination;

 private:
  Pick pick(int64_t index, int64_t epoch) const override {
    size_t source = 0;
    for (; index >= sources()[source].samples->size(); ++source) index -= sources()[source].samples->size();
    return {source, epoch, index};
  }
};

}  // namespace

std::shared_ptr<Dataset> open_mixture(std::vector<MixtureSource> sources, uint64_t seed) {
  return std::make_shared<Mixture>(std::move(sources), seed);
}

std::shared_ptr<Dataset> join_datasets(std::vector<MixtureSource> sources) {
  return std::make_shared<Joined>(std::move(sources));
}

}  // namespace weft
