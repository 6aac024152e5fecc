// Numbers of a step: losses, their total, the gradient norm.
#include <ATen/ops/cat.h>
#include <ATen/ops/div.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "weft/base/error.h"
#include "weft/engine/failed_step.h"
#include "weft/engine/keyed_calls.h"
#include "weft/engine/memory_ledger.h"
#include "weft/engine/step_run.h"
#include "weft/nn/device_kernels/device_kernels.h"
#include "weft/nn/device_kernels/step_numbers.h"
#include "weft/nn/exact_sums.h"
#include "weft/nn/graph.h"
#include "weft/nn/ordered_sums.h"
#include "weft/nn/upload.h"
#include "weft/program/axes.h"
#include "weft/program/copies.h"

namespace weft {

/// Ranks that compute losses use the target count of the run's first micro-batch, broadcast by the first rank. It never changes
/// afterwards. As a power of two, it does not affect the bits of gradients once they are divided by the count.
void StepRun::agree_on_targets(const NextMicroBatch& next) {
  const MemoryScope scope(MemoryCategory::activations);
  first_batch_ = next();
  const auto targets = static_cast<uint64_t>(first_batch_->target.numel());
  const at::Tensor agreed = at::full({1}, static_cast<int64_t>(std::bit_ceil(targets)), at::kLong).to(model_.options().device);
  options_.groups.along(kDataAxes).broadcast(agreed, 0, "targets of a micro-batch").wait();
  nominal_targets_ = agreed.item<int64_t>();
}

/// Loss of a piece of the micro-batch. Adds step and micro-batch to errors about its outputs or targets.
LossValue StepRun::loss_of(const Tensors& outputs, const at::Tensor& target, int micro, int64_t piece) {
  const Context context = context_of(micro);
  Context keyed = context;
  keyed.first_sample += piece * (options_.micro_batch / options_.blocks.batch_pieces);
  try {
    return calls.loss(model_.model().loss, outputs, target, context, keyed);
  } catch (const InputError& error) {
    throw InputError(fmt::format("step {}, micro-batch {}: {}", step_ + 1, options_.first_micro_batch + micro, error.what()));
  }
}

/// What the backward of each loss begins with: the loss scale, divided by the step's nominal targets.
at::Tensor StepRun::loss_gradient(const at::Tensor& sum) {
  const double targets = static_cast<double>(nominal_targets_) * static_cast<double>(options_.all_micro_batches);
  if (!reads_late_ || !values_.scale().defined()) return at::scalar_tensor(updater_.loss_scale() / targets, sum.options());
  if (!loss_gradient_.defined()) loss_gradient_ = at::div(values_.loss_factor(), targets).to(sum.scalar_type());
  return loss_gradient_;
}

void StepRun::loss(int micro) {
  InFlight& flight = in_flight_[micro];
  const Tensors inputs = detach(flight.outputs.back());
  if (checks) checks->begin_loss(checked_call("loss", model_.num_blocks() - 1, micro), inputs, flight.batch.target);
  Tensors outputs = model_.model().loss.takes_any_type() ? inputs : widen(inputs);
  const int64_t pieces = options_.blocks.batch_pieces, first_place = (options_.first_micro_batch + micro) * pieces;
  // The count is of whole sequences, so one of the ranks that share them reports it.
  const bool reports = options_.groups.along(kContextAxis).rank() == 0;
  Tensors sums;
  for (int64_t piece = 0; piece < pieces; ++piece) {
    Tensors own;
    for (const at::Tensor& output : outputs) own.push_back(batch_piece(output, piece, pieces));
    const LossValue value = loss_of(own, batch_piece(flight.batch.target, piece, pieces), micro, piece);
    if (checks) {
      calls.ids.number(value.sum);  // names an id that is out of range, before other ranks wait for this one
      checks->end_loss(value.sum);
    }
    sums.push_back(value.sum);
    const at::Tensor& counted = value.count.on_device();
    put_losses(losses_, first_place + piece,
               {.sum = value.sum,
                .counted = counted,
                .count = counted.defined() ? 0 : int64_t{value.count},
                .nominal = reports && piece == 0 ? static_cast<double>(nominal_targets_) : 0.0});
    if (value.weight.defined()) losses_[1][first_place + piece].copy_(value.weight.detach().reshape({}));
  }
  outputs.clear();  // widened ones are as large as the gradients that come
  const at::Tensor gradient = loss_gradient(sums.front());
  keyed_loss_call(model_, context_of(micro), " backward", [&] { run_backward(sums, Tensors(pieces, gradient)); });
  flight.gradients.back() = take_gradients(inputs);
  if (checks) checks->end_loss_backward(flight.gradients.back());
  if (!takes_targets(model_.num_blocks() - 1)) release_target(flight);
}

/// On the first stage the upload has inputs too, until the first block's backward.
void StepRun::release_target(InFlight& flight) {
  flight.batch.target.reset();
  if (stage_ranks_.front() != options_.groups.along(kPipelineAxis).rank()) flight.batch.upload.reset();
}

/// Every micro-batch, or piece of one, has its own place, so the total is summed in one order for any number of ranks.
Work StepRun::reduce_loss(const Instruction& instruction) {
  loss_group_ = &group_of(instruction);
  join_losses();
  calls.ids.mark(losses_);
  return loss_group_->all_reduce(losses_, ReduceOp::sum, "losses");
}

/// Appends the values that travel with the losses: the digits of an exact sum (integers, which doubles represent exactly, even
/// summed over ranks); ones for parameters that had a gradient here; votes. Values equal on all ranks of tp count once.
void StepRun::join_losses() {
  Tensors parts = {losses_.flatten()};
  if (program_->noise_scale) {
    carry_words(squares_[0]);
    parts.push_back(squares_.flatten().to(at::kDouble));
  }
  std::vector<double> more;
  if (program_->flagged > 0) {
    for (const int param : model_.flagged()) more.push_back(model_.used()[param]);
  }
  if (program_->votes > 0 && !on_device()) {
    const std::vector<double> own = votes_of(options_.votes, program_->votes, step_);
    more.insert(more.end(), own.begin(), own.end());
  }
  if (!more.empty()) parts.push_back(upload(at::tensor(more, at::TensorOptions(at::kDouble)), losses_.device()));
  if (program_->votes > 0 && on_device()) parts.push_back(values_.votes());
  if (parts.size() == 1) return;
  if (total_axes(*program_).has(MeshAxis::tp) && options_.groups.along(kTensorAxis).rank() > 0) losses_.zero_();
  losses_ = at::cat(parts);
}

/// Extracts the values that travelled with the losses.
void StepRun::part_losses(at::Tensor& losses) {
  const int64_t words = program_->noise_scale ? kSumWords : 0, flags = program_->flagged;
  const int64_t numel = losses.numel() - words - flags - program_->votes;
  const double* more = losses.const_data_ptr<double>() + numel;
  if (words > 0) result_.small_squares = value_of_digits(more);
  more += words;
  for (int64_t i = 0; i < flags; ++i) model_.used()[model_.flagged()[i]] = more[i] > 0.0 ? 1 : 0;
  more += flags;
  result_.votes.assign(more, more + program_->votes);
  losses = losses.narrow(0, 0, numel).view({3, numel / 3});
}

/// Reads the losses, if no read() has.
void StepRun::settle_loss() {
  if (!loss_settled_) take_losses(calls.ids.to_host({losses_.view(at::kLong)}).view(at::kDouble).view(losses_.sizes()));
}

/// Reads numbers, int64, of this step, on the host together with the losses if those have not been read: one wait.
at::Tensor StepRun::read(const at::Tensor& found) {
  if (loss_settled_) return found.cpu();
  const int64_t numel = losses_.numel();
  const at::Tensor all = calls.ids.to_host({losses_.view(at::kLong), found});
  take_losses(all.narrow(0, 0, numel).view(at::kDouble).view(losses_.sizes()));
  return all.narrow(0, numel, found.numel()).view(found.sizes());
}

void StepRun::take_losses(at::Tensor losses) {
  loss_settled_ = true;
  if (loss_group_) loss_group_->settle();  // an abort ends the sum on a device, and leaves any numbers
  const int64_t all_places = options_.all_micro_batches * options_.blocks.batch_pieces;
  if (std::isnan(losses.const_data_ptr<double>()[all_places])) {  // a count: only IdChecks::mark() does that
    throw CommError(
        fmt::format("step {}: another rank's samples have an id out of range, which its own error names", step_ + 1));
  }
  if (losses.dim() == 1) part_losses(losses);
  const auto* sums = losses.const_data_ptr<double>();
  const int64_t places = losses.size(1);
  const double* bad = std::find_if_not(sums, sums + places, [](double x) { return std::isfinite(x); });
  if (bad != sums + places) {
    throw FailedStep(fmt::format("step {}, micro-batch {}: the loss is {}", step_ + 1,
                                 (bad - sums) / options_.blocks.batch_pieces, std::isnan(*bad) ? "nan" : fmt::to_string(*bad)));
  }
  const auto [sum, count, divisor] = loss_totals(facts(), sums);
  if (!(count > 0.0))
    throw InputError(fmt::format(
        "step {}: no target of the whole global batch counts; check the targets, and weights of classes", step_ + 1));
  result_.loss = sum / count;
  result_.count = static_cast<int64_t>(count);
  result_.divisor = divisor_ = divisor;
}

/// Computes the global norm and the norms of whole tensors, if updates need them; without the global norm, the largest
/// gradient. Either detects non-finite gradients before anything is written. Sums of integers have the same bits in any order.
void StepRun::norm(const Instruction& instruction) {
  if (!on_device()) settle_loss();
  for (int block = instruction.first; block < instruction.last; ++block) join_uses(block);
  const bool by_norm = updater_.wants_norm() || program_->noise_scale;
  const at::Device device = model_.options().device;
  at::Tensor found;
  if (by_norm) {
    found = exact_sums(1, device);
    updater_.add_squares(found[0]);
  } else {
    found = updater_.largest_gradient();
    if (!found.defined()) found = at::zeros({1}, at::TensorOptions(at::kLong).device(device));
  }
  if (!instruction.axes.empty()) {
    const ReduceOp op = by_norm ? ReduceOp::sum : ReduceOp::max;
    group_of(instruction).all_reduce(found.flatten(), op, by_norm ? "gradient norm" : "largest gradient").wait();
  }
  if (reads_late_) {
    judge_on_device(found, by_norm);
    if (updater_.num_tensor_squares() > 0) norms_of_tensors(instruction);
    return;
  }
  found = read(found);
  if (by_norm) {
    const ExactSum sum = sums_in(found).front();
    result_.norm = std::sqrt(sum.value()) / divisor_;
    if (sum.words()[kSumDigits] >= kBadStatistics) updater_.refuse_statistics();
    result_.skipped = !updater_.accept(result_.norm);
  } else {
    updater_.accept_largest(*found.const_data_ptr<int64_t>(), divisor_);
  }
  if (program_->noise_scale) result_.small_squares = mean_small_squares(facts(), result_.small_squares, divisor_);
  if (updater_.num_tensor_squares() > 0 && !result_.skipped) norms_of_tensors(instruction);
}

/// What is known of the step before its losses.
StepFacts StepRun::facts() const {
  const auto all = static_cast<double>(options_.all_micro_batches);
  const double of_slot = static_cast<double>(program_->micro_batches) / program_->slots;
  return {.places = options_.all_micro_batches * options_.blocks.batch_pieces,
          .votes = loss_group_ ? program_->votes : 0,
          .all_micro_batches = all,
          .nominal_targets = static_cast<double>(nominal_targets_),
          .loss_scale = updater_.loss_scale(),
          .small_batches = loss_group_ && program_->noise_scale ? all / of_slot : 0.0};
}

/// Leaves to the device what read() leaves to the host: the step's numbers, and whether updates are made.
void StepRun::judge_on_device(const at::Tensor& found, bool by_norm) {
  if (!loss_group_) calls.ids.mark(losses_);
  const UpdateLimits limits = *updater_.limits();
  StepFacts facts = this->facts();
  facts.has_norm = by_norm;
  facts.clip = limits.clip;
  facts.most = limits.most;
  numbers_ = step_numbers(
      facts, {.losses = losses_, .found = found, .gate = results.gate(), .scale = values_.scale(), .rate = values_.rate()});
}

void StepRun::norms_of_tensors(const Instruction& instruction) {
  const at::Tensor squares = exact_sums(updater_.num_tensor_squares(), model_.options().device);
  const bool is_gated = numbers_.defined();
  is_gated ? updater_.add_tensor_squares_gated(results.gate(), values_.rate(), squares)
           : updater_.add_tensor_squares(divisor_, squares);
  if (!instruction.axes.empty()) group_of(instruction).all_reduce(squares.flatten(), ReduceOp::sum, "norms of tensors").wait();
  is_gated ? updater_.take_tensor_squares_gated(numbers_, squares)
           : updater_.take_tensor_squares(divisor_, sums_in(squares.cpu()));
}

}  // namespace weft
