// Numbers of a step: losses, their total, the gradient norm.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "weft/base/error.h"
#include "weft/engine/keyed_calls.h"
#include "weft/engine/memory_ledger.h"
#include "weft/engine/step_run.h"
#include "weft/nn/graph.h"
#include "weft/nn/ordered_sums.h"
#include "weft/program/axes.h"
#include "weft/program/copies.h"

namespace weft {

namespace {

bool finite(const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.is_floating_point() && !tensor.isfinite().all().item<bool>()) return false;
  }
  return true;
}

/// Returns this rank's votes; the program sets their number.
std::vector<double> votes_of(const Votes& votes, int count, int64_t step) {
  if (!votes.of_rank) return std::vector<double>(count);
  std::vector<double> own = votes.of_rank();
  if (static_cast<int>(own.size()) == count) return own;
  throw InputError(fmt::format("step {}: Votes::of_rank gives {} numbers, but Votes::count, the same on all ranks, is {}",
                               step + 1, own.size(), count));
}

}  // namespace

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

double StepRun::nominal_count(double targets) const { return targets * static_cast<double>(options_.all_micro_batches); }

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

void StepRun::loss(int micro) {
  InFlight& flight = in_flight_[micro];
  const Tensors inputs = detach(flight.outputs.back());
  Tensors outputs = widen(inputs);
  const int64_t pieces = options_.blocks.batch_pieces, first_place = (options_.first_micro_batch + micro) * pieces;
  auto losses = losses_.accessor<double, 2>();
  Tensors sums;
  for (int64_t piece = 0; piece < pieces; ++piece) {
    Tensors own;
    for (const at::Tensor& output : outputs) own.push_back(batch_piece(output, piece, pieces));
    const LossValue value = loss_of(own, batch_piece(flight.batch.target, piece, pieces), micro, piece);
    const double sum = calls.ids.number(value.sum);
    if (!std::isfinite(sum)) report_not_finite(micro, sum);
    sums.push_back(value.sum);
    losses[0][first_place + piece] = sum;
    losses[1][first_place + piece] = static_cast<double>(value.count);
  }
  outputs.clear();  // widened ones are as large as the gradients that come
  const double scale = updater_.loss_scale() / nominal_count(static_cast<double>(nominal_targets_));
  keyed_loss_call(model_, context_of(micro), " backward",
                  [&] { run_backward(sums, Tensors(pieces, at::scalar_tensor(scale, sums.front().options()))); });
  flight.gradients.back() = take_gradients(inputs);
  flight.batch.target.reset();
  // The count is of whole sequences, so one of the ranks that share them reports it.
  losses[2][first_place] = options_.groups.along(kContextAxis).rank() == 0 ? static_cast<double>(nominal_targets_) : 0.0;
}

/// Every micro-batch, or piece of one, has its own place, so the total is summed in one order for any number of ranks.
Work StepRun::reduce_loss(const Instruction& instruction) {
  loss_summed_ = true;
  join_losses();
  losses_ = losses_.to(model_.options().device);  // where the group's collectives run
  calls.ids.mark(losses_);
  return group_of(instruction).all_reduce(losses_, ReduceOp::sum, "losses");
}

/// Appends the values that travel with the losses: the digits of an exact sum (integers, which doubles represent exactly, even
/// summed over ranks); ones for parameters that had a gradient here; votes. Values equal on all ranks of tp count once.
void StepRun::join_losses() {
  std::vector<double> more;
  if (program_->noise_scale) {
    squares_.carry();
    more.assign(squares_.words().begin(), squares_.words().end());
  }
  if (program_->flagged > 0) {
    for (const int param : model_.flagged()) more.push_back(model_.used()[param]);
  }
  if (program_->votes > 0) {
    const std::vector<double> own = votes_of(options_.votes, program_->votes, step_);
    more.insert(more.end(), own.begin(), own.end());
  }
  if (more.empty()) return;
  if (total_axes(*program_).has(MeshAxis::tp) && options_.groups.along(kTensorAxis).rank() > 0) losses_.zero_();
  losses_ = at::cat({losses_.flatten(), at::tensor(more, losses_.options())});
}

/// Extracts the values that travelled with the losses.
void StepRun::part_losses() {
  const auto words = program_->noise_scale ? static_cast<int64_t>(squares_.words().size()) : 0, flags = program_->flagged;
  const int64_t numel = losses_.numel() - words - flags - program_->votes;
  const double* more = losses_.const_data_ptr<double>() + numel;
  std::transform(more, more + words, squares_.words().begin(), [](double digit) { return static_cast<int64_t>(digit); });
  more += words;
  for (int64_t i = 0; i < flags; ++i) model_.used()[model_.flagged()[i]] = more[i] > 0.0 ? 1 : 0;
  more += flags;
  result_.votes.assign(more, more + program_->votes);
  losses_ = losses_.narrow(0, 0, numel).view({3, numel / 3});
}

void StepRun::settle_loss() {
  if (loss_settled_) return;
  loss_settled_ = true;
  losses_ = calls.ids.to_host(losses_);
  if (std::isnan(*losses_.const_data_ptr<double>())) {
    throw CommError(
        fmt::format("step {}: another rank's samples have an id out of range, which its own error names", step_ + 1));
  }
  if (losses_.dim() == 1) part_losses();
  const double* losses = losses_.const_data_ptr<double>();
  const int64_t places = losses_.size(1);
  double sum = 0.0, count = 0.0;
  for (int64_t j = 0; j < places; ++j) {
    sum += losses[j];
    count += losses[places + j];
  }
  if (count == 0.0)
    throw InputError(fmt::format("step {}: no target counted in the whole global batch; check the data", step_ + 1));
  result_.loss = sum / count;
  result_.count = static_cast<int64_t>(count);
  const double nominal = nominal_targets_ > 0 ? static_cast<double>(nominal_targets_) : losses[2 * places];
  divisor_ = count / nominal_count(nominal) * updater_.loss_scale();
}

/// Gradients are sums over samples, scaled for all M micro-batches, so the mean gradient of one micro-batch is M times its sum.
double StepRun::mean_small_squares() const {
  const auto all = static_cast<double>(options_.all_micro_batches);
  const double small_batches = all / (static_cast<double>(program_->micro_batches) / program_->slots);
  const double factor = all / divisor_;
  return squares_.value() * factor * factor / small_batches;
}

/// Computes the global norm and the norms of whole tensors, if updates need them; without the global norm, the largest
/// gradient. Either detects non-finite gradients before anything is written.
void StepRun::norm(const Instruction& instruction) {
  settle_loss();
  for (int block = instruction.first; block < instruction.last; ++block) join_uses(block);
  if (updater_.wants_norm() || program_->noise_scale) {
    std::vector<ExactSum> sum(1);
    updater_.add_squares(sum.front());
    add_up(instruction, sum, "gradient norm");
    result_.norm = std::sqrt(sum.front().value()) / divisor_;
    result_.skipped = !updater_.accept(result_.norm);
  } else {
    updater_.accept_largest(largest_gradient(instruction), divisor_);
  }
  if (program_->noise_scale) result_.small_squares = mean_small_squares();
  const int64_t num_squares = updater_.num_tensor_squares();
  if (num_squares == 0 || result_.skipped) return;
  std::vector<ExactSum> squares(static_cast<size_t>(num_squares));
  updater_.add_tensor_squares(divisor_, squares);
  add_up(instruction, squares, "norms of tensors");
  updater_.take_tensor_squares(divisor_, squares);
}

/// Returns the largest gradient over all ranks, the same on each.
int64_t StepRun::largest_gradient(const Instruction& instruction) {
  const int64_t own = updater_.largest_gradient();
  if (instruction.axes.empty()) return own;
  const at::Tensor shared = at::full({1}, own, at::kLong).to(model_.options().device);
  group_of(instruction).all_reduce(shared, ReduceOp::max, "largest gradient").wait();
  return shared.item<int64_t>();
}

/// The ranks' sums are integers, so the total has the same bits in any order.
void StepRun::add_up(const Instruction& instruction, std::vector<ExactSum>& sums, std::string_view what) {
  if (instruction.axes.empty()) return;
  const auto count = static_cast<int64_t>(sums.size()), words = static_cast<int64_t>(sums.front().words().size());
  const at::Tensor host = at::empty({count, words}, at::TensorOptions(at::kLong));
  auto* data = host.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    sums[i].carry();
    std::copy(sums[i].words().begin(), sums[i].words().end(), data + i * words);
  }
  const at::Tensor shared = host.to(model_.options().device);
  group_of(instruction).all_reduce(shared, ReduceOp::sum, what).wait();
  if (!shared.is_same(host)) host.copy_(shared);
  for (int64_t i = 0; i < count; ++i) std::copy(data + i * words, data + (i + 1) * words, sums[i].words().begin());
}

/// True if the block's output is finite, or kept by another stage. Used only for errors: reloads and releases activations one
/// by one.
bool StepRun::output_is_finite(int block, InFlight& flight) {
  if (!flight.outputs[block].empty() || block + 1 == model_.num_blocks()) return finite(flight.outputs[block]);
  Tensors& handed_on = flight.inputs[block + 1];  // dropped, freed, or on another stage
  if (flight.offloaded.count(block + 1) > 0) reload_input(block + 1, flight);
  const bool result = finite(handed_on);
  handed_on.clear();
  return result;
}

void StepRun::report_not_finite(int micro, double loss) {
  const Model& model = model_.model();
  const int pp = options_.groups.along(kPipelineAxis).rank();
  std::string culprit = "the loss itself (every block's output was finite)";
  for (int b = model_.num_blocks() - 1; b >= 0; --b) {
    if (output_is_finite(b, in_flight_[micro])) continue;
    const char* where = stage_ranks_[b] != pp                  ? ", or one before it, on an earlier stage"
                        : micros_run(*program_, pp).has(micro) ? ""
                                                               : ", or one before it, on another rank";
    culprit = fmt::format("block {}{}", model.blocks[b].name, where);
  }
  throw NumericError(fmt::format("step {}, micro-batch {}: the loss is {}; first not finite: {}. {}", step_ + 1,
                                 options_.first_micro_batch + micro, loss, culprit,
                                 step_ == 0 ? "No step came before: check the data, or the initial weights"
                                            : "Lower the learning rate, clip, or check the data"));
}

}  // namespace weft
