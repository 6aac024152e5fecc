#include "weft/data/micro_batches.h"

#include <ATen/Context.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/util/FunctionRef.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/math.h"

namespace weft {
namespace {

constexpr int64_t kShareBytes = 256 << 10;  // smallest share worth handing to a thread

/// Concatenates the rows of all parts. On the CPU not by at::cat, which may start a second pool of OpenMP threads for this
/// thread.
at::Tensor join_rows(const std::vector<Batch>& parts, c10::function_ref<const at::Tensor&(const Batch&)> tensor) {
  const at::Tensor& first = tensor(parts.front());
  auto sizes = first.sizes().vec();
  sizes[0] = 0;
  for (const Batch& part : parts) {
    if (!have_like_rows(tensor(part), first)) {
      throw InputError("dataset: sample sizes, types or devices differ between the two epochs of a micro-batch");
    }
    sizes[0] += tensor(part).size(0);
  }
  if (!first.is_cpu()) {
    std::vector<at::Tensor> rows;
    rows.reserve(parts.size());
    for (const Batch& part : parts) rows.push_back(tensor(part));
    return at::cat(rows);
  }
  at::Tensor out = at::empty(sizes, first.options());
  auto* bytes = static_cast<char*>(out.mutable_data_ptr());
  for (const Batch& part : parts) {
    const at::Tensor rows = tensor(part).contiguous();
    std::memcpy(bytes, rows.const_data_ptr(), rows.nbytes());
    bytes += rows.nbytes();
  }
  return out;
}

Batch join(std::vector<Batch> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  Batch out;
  for (size_t i = 0; i < parts.front().inputs.size(); ++i) {
    out.inputs.push_back(join_rows(parts, [i](const Batch& part) -> const at::Tensor& { return part.inputs.at(i); }));
  }
  out.target = join_rows(parts, [](const Batch& part) -> const at::Tensor& { return part.target; });
  for (Batch& part : parts) std::move(part.skipped.begin(), part.skipped.end(), std::back_inserter(out.skipped));
  return out;
}

/// Copies into page-locked memory, unless already pinned or on a device.
Batch pin(Batch batch) {
  const auto pinned = [](const at::Tensor& x) { return x.is_cpu() && !x.is_pinned() ? x.pin_memory() : x; };
  for (at::Tensor& input : batch.inputs) input = pinned(input);
  batch.target = pinned(batch.target);
  return batch;
}

}  // namespace

Batch get_samples(const Dataset& dataset, const std::vector<int64_t>& indices, int64_t epoch) {
  Batch batch = dataset.get(indices, epoch);
  const std::string misfit = samples_misfit(batch, static_cast<int64_t>(indices.size()));
  if (!misfit.empty()) throw InputError(fmt::format("dataset: {} where {} were requested", misfit, indices.size()));
  return batch;
}

MicroBatches::MicroBatches(std::shared_ptr<const Dataset> dataset, Sampler sampler, const LoaderOptions& o)
    : dataset_(std::move(dataset)),
      rows_(dynamic_cast<const FillsRows*>(dataset_.get())),
      sampler_(sampler),
      options_(o),
      sizes_(o.global_batch, o.ramp),
      shift_(o.first_sample.value_or(sizes_.samples_before(o.first_step)) - sizes_.samples_before(o.first_step)) {
  if (!rows_) return;
  int64_t bytes = 1;
  for (const at::Tensor& input : rows_->make_rows(1).inputs) bytes += static_cast<int64_t>(input.nbytes());
  share_ = std::clamp<int64_t>(kShareBytes / bytes, 1, o.micro_batch);
  shares_ = ceil_divide(o.micro_batch, share_);
}

int64_t MicroBatches::per_step(int64_t count) const { return micro_batches(sizes_.phase_at(step(count))); }

MicroBatches::Place MicroBatches::place(int64_t count) const {
  int64_t step = options_.first_step;
  int phase = sizes_.phase_at(step);
  for (; phase + 1 < sizes_.num_phases(); ++phase) {
    const int64_t left = (sizes_.first_step(phase + 1) - step) * micro_batches(phase);
    if (count < left) break;
    count -= left;
    step = sizes_.first_step(phase + 1);
  }
  step += count / micro_batches(phase);
  const int64_t micro = options_.shard * micro_batches(phase) + count % micro_batches(phase);
  return {.step = step, .begin = sizes_.samples_before(step) + shift_ + micro * options_.micro_batch};
}

Batch MicroBatches::whole(int64_t count) const {
  const int64_t begin = place(count).begin, end = begin + options_.micro_batch;
  std::vector<Batch> parts;
  std::vector<int64_t> indices;
  for (int64_t position = begin; position < end;) {
    // One call per epoch: a micro-batch may span epochs, and a dataset may vary with the epoch.
    const int64_t epoch = sampler_.epoch(position);
    indices.clear();
    for (; position < end && sampler_.epoch(position) == epoch; ++position) indices.push_back(sampler_.sample(position));
    parts.push_back(get_samples(*dataset_, indices, epoch));
    if (parts.back().inputs.size() != parts.front().inputs.size()) {
      throw InputError("dataset: the number of inputs differs between epochs");
    }
  }
  return join(std::move(parts));
}

SharedBatch MicroBatches::begin() const {
  if (shares_ == 1) return {};
  return {.batch = rows_->make_rows(options_.micro_batch),
          .skipped = std::vector<std::vector<std::string>>(static_cast<size_t>(shares_))};
}

void MicroBatches::fill(int64_t count, int64_t share, SharedBatch& shared) const {
  if (shares_ == 1) {
    shared.batch = whole(count);
    return;
  }
  const int64_t begin = place(count).begin;
  const int64_t last = std::min((share + 1) * share_, options_.micro_batch);
  for (int64_t row = share * share_; row < last; ++row) {
    const int64_t position = begin + row;
    rows_->fill_row(sampler_.sample(position), sampler_.epoch(position), shared.batch, row,
                    shared.skipped[static_cast<size_t>(share)]);
  }
}

Batch MicroBatches::finish(int64_t count, SharedBatch shared) const {
  Batch batch = std::move(shared.batch);
  for (std::vector<std::string>& names : shared.skipped) {
    batch.skipped.insert(batch.skipped.end(), std::make_move_iterator(names.begin()), std::make_move_iterator(names.end()));
  }
  batch.first_sample = place(count).begin;
  return options_.pinned ? pin(std::move(batch)) : batch;
}

}  // namespace weft
