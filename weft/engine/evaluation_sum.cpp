#include "weft/engine/evaluation_sum.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr const char* kBad[] = {"nan", "inf", "-inf", "too large", "divided by a weight that is no number of at least 0"};
constexpr auto kKinds = static_cast<int64_t>(std::size(kBad));
constexpr double kLimit = 0x1p287;  // limit of ExactSum

constexpr double kUnweighted = -std::numeric_limits<double>::infinity();

/// An index into kBad, or -1.
int64_t kind_of(double loss, std::optional<double> weight) {
  constexpr int64_t kBadWeight = 4;
  if (weight && !(*weight >= 0.0 && *weight < kLimit)) return kBadWeight;
  if (std::isnan(loss)) return 0;
  if (std::isinf(loss)) return loss > 0.0 ? 1 : 2;
  return std::abs(loss) < kLimit ? -1 : 3;
}

std::vector<int64_t> reduced(const std::vector<int64_t>& values, ReduceOp op, const Group& group, at::Device device) {
  at::Tensor shared = at::tensor(values, at::TensorOptions(at::kLong)).to(device);
  group.all_reduce(shared, op, "evaluation loss").wait();
  shared = shared.cpu();
  const auto* data = shared.const_data_ptr<int64_t>();
  return {data, data + shared.numel()};
}

}  // namespace

void EvaluationSum::add(int64_t place, const LossValue& loss, const LossCount& hits, const LossCount& top5) {
  if (loss.sum.is_cpu()) {
    const auto weight = loss.weight.defined() ? std::optional(loss.weight.item<double>()) : std::nullopt;
    return add(place, {.loss = loss.sum.item<double>(), .count = loss.count, .hits = hits, .top5 = top5}, weight);
  }
  const auto on_device = [options = loss.sum.options().dtype(at::kDouble)](const LossCount& number) {
    const at::Tensor& known = number.on_device();
    return known.defined() ? known.to(at::kDouble).reshape({}) : at::full({}, int64_t{number}, options);
  };
  places_.push_back(place);
  const at::TensorOptions wide = loss.sum.options().dtype(at::kDouble);
  const at::Tensor weight = loss.weight.defined() ? loss.weight.to(at::kDouble).reshape({}) : at::full({}, kUnweighted, wide);
  unread_.push_back(
      at::stack({loss.sum.to(at::kDouble).reshape({}), on_device(loss.count), on_device(hits), on_device(top5), weight}));
}

void EvaluationSum::read(IdChecks& ids) {
  if (unread_.empty()) return ids.read();
  const std::vector<int64_t> places = std::exchange(places_, {});
  const at::Tensor all = ids.to_host({at::cat(std::exchange(unread_, {})).view(at::kLong)}).view(at::kDouble);
  const auto* values = all.const_data_ptr<double>();
  for (const int64_t place : places) {
    const auto count = [values](int i) { return static_cast<int64_t>(values[i]); };
    const auto weight = values[4] == kUnweighted ? std::nullopt : std::optional(values[4]);
    add(place, {.loss = values[0], .count = count(1), .hits = count(2), .top5 = count(3)}, weight);
    values += 5;
  }
}

void EvaluationSum::add(int64_t place, const EvaluationResult& sums, std::optional<double> weight) {
  const int64_t kind = kind_of(sums.loss, weight);
  if (kind >= 0) {
    first_bad_ = std::min(first_bad_, place * kKinds + kind);
  } else {
    (sums.loss < 0.0 ? below_ : above_).add(std::abs(sums.loss));
    if (weight) weight_.add(*weight);
  }
  weighted_ += weight ? 1 : 0;
  count_ += sums.count;
  hits_ += sums.hits;
  top5_ += sums.top5;
}

EvaluationResult EvaluationSum::total(const Group& group, at::Device device, int64_t steps_done) {
  const int64_t bad = reduced({first_bad_}, ReduceOp::min, group, device)[0];
  std::vector<int64_t> words;
  for (ExactSum* sum : {&above_, &below_, &weight_}) {
    sum->carry();
    words.insert(words.end(), sum->words().begin(), sum->words().end());
  }
  words.insert(words.end(), {count_, hits_, top5_, weighted_});
  words = reduced(words, ReduceOp::sum, group, device);
  if (bad != kNone) {
    throw NumericError(fmt::format("evaluation after step {}: the loss of micro-batch {} is {}; {}", steps_done, bad / kKinds,
                                   kBad[bad % kKinds],
                                   steps_done == 0 ? "no step came before it: check the data, or the weights"
                                                   : "lower the learning rate, clip, or check the data"));
  }
  ExactSum above, below, weight;
  auto from = words.begin();
  for (ExactSum* sum : {&above, &below, &weight}) {
    const auto length = static_cast<std::ptrdiff_t>(sum->words().size());
    std::copy_n(from, length, sum->words().begin());
    from += length;
  }
  const int64_t count = from[0], hits = from[1], top5 = from[2], weighted = from[3];
  const double divisor = weighted > 0 ? weight.value() : static_cast<double>(count);
  if (count == 0 || divisor == 0.0) {
    throw InputError(fmt::format(
        "evaluation after step {}: no target of the whole evaluation set counts; check the targets, and weights of classes",
        steps_done));
  }
  return {(above.value() - below.value()) / divisor, count, hits, top5};
}

}  // namespace weft
