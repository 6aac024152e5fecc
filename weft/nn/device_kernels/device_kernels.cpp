#include "weft/nn/device_kernels/device_kernels.h"

#include <ATen/Dispatch.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "weft/base/exact_digits.h"
#include "weft/base/math.h"
#include "weft/nn/device_kernels/cuda_kernels.h"
#include "weft/nn/device_kernels/element_functions.h"
#include "weft/nn/device_kernels/shuffled.h"

namespace weft {

namespace {

void add_squares_on_cpu(at::TensorList ranges, at::IntArrayRef places, at::Tensor& words) {
  std::vector<int64_t> sum(kSumWords);
  for (size_t i = 0; i < ranges.size(); ++i) {
    const Runs runs{.numel = ranges[i].numel(), .before = places[i] % kAlignElements, .run = kAlignElements};
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, ranges[i].scalar_type(), "weft::add_squares", [&] {
      const auto* data = ranges[i].const_data_ptr<scalar_t>();
      in_shuffled_order(runs.count(), [&](int64_t run) {
        add_digits(squares_of_run(data + runs.begin(run), runs.end(run) - runs.begin(run)), sum.data());
      });
    });
    carry_digits(sum.data());  // at most 2^31 runs in a range
  }
  auto* data = words.mutable_data_ptr<int64_t>();
  std::transform(sum.begin(), sum.end(), data, data, [](int64_t x, int64_t y) { return x + y; });
}

void raise_to_largest_on_cpu(at::TensorList ranges, at::Tensor& most) {
  int64_t& largest = *most.mutable_data_ptr<int64_t>();
  for (const at::Tensor& range : ranges) {
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, range.scalar_type(), "weft::raise_to_largest", [&] {
      const auto* data = range.const_data_ptr<scalar_t>();
      in_shuffled_order(range.numel(), [&](int64_t i) { largest = std::max(largest, magnitude_bits(data[i])); });
    });
  }
}

void carry_words_on_cpu(at::Tensor& words) { carry_digits(words.mutable_data_ptr<int64_t>()); }

void put_losses_on_cpu(at::Tensor& losses, int64_t place, const at::Tensor& sum, const std::optional<at::Tensor>& counted,
                       int64_t count, double nominal) {
  const LossPlace column{losses.mutable_data_ptr<double>(), losses.size(1), place, nominal};
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, sum.scalar_type(), "weft::put_losses", [&] {
    column.put(static_cast<double>(*sum.const_data_ptr<scalar_t>()),
               static_cast<double>(counted ? *counted->const_data_ptr<int64_t>() : count));
  });
}

at::Tensor clamp_ids_on_cpu(const at::Tensor& ids, int64_t count, std::optional<int64_t> ignored, at::Tensor& found) {
  at::Tensor safe = at::empty_like(ids);
  auto* noted = found.mutable_data_ptr<int64_t>();
  AT_DISPATCH_INDEX_TYPES(ids.scalar_type(), "weft::clamp_ids", [&] {
    const auto* from = ids.const_data_ptr<index_t>();
    auto* to = safe.mutable_data_ptr<index_t>();
    in_shuffled_order(ids.numel(), [&](int64_t i) {
      const int64_t id = from[i], own = clamped_id(id, count, ignored.has_value(), ignored.value_or(0));
      to[i] = static_cast<index_t>(own);
      if (own == id) return;
      const NotedId note(i, id);
      noted[0] = std::min(noted[0], note.low);
      noted[1] = std::min(noted[1], note.high);
    });
  });
  return safe;
}

void spoil_losses_on_cpu(at::Tensor& losses, const at::Tensor& found) {
  const auto* noted = found.const_data_ptr<int64_t>();
  const bool all_right = std::all_of(noted, noted + found.numel(), [](int64_t note) { return note == kNoId; });
  if (!all_right) losses.fill_(std::numeric_limits<double>::quiet_NaN());
}

at::Tensor drop_on_cpu(const at::Tensor& x, double scale, int64_t threshold, bool all, int64_t seed, int64_t stream,
                       at::IntArrayRef firsts, at::IntArrayRef numels, const std::optional<at::Tensor>& place,
                       int64_t per_sample) {
  at::Tensor y = at::empty_like(x, at::MemoryFormat::Contiguous);
  const PlacedStream placed{{static_cast<uint64_t>(seed), static_cast<uint64_t>(stream)},
                            place ? place->const_data_ptr<int64_t>() : nullptr,
                            per_sample};
  const Stream of = stream_now(placed);
  const int64_t first = first_now(placed);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "weft::drop", [&] {
    const auto* from = x.const_data_ptr<scalar_t>();
    auto* to = y.mutable_data_ptr<scalar_t>();
    for (size_t run = 0; run < firsts.size(); ++run) {
      in_shuffled_order(numels[run], [&](int64_t i) {
        to[i] = dropped_or_scaled(from[i], of, first + firsts[run] + i, static_cast<uint32_t>(threshold), all, scale);
      });
      from += numels[run];
      to += numels[run];
    }
  });
  return y;
}

at::Tensor drop_on_meta(const at::Tensor& x, double, int64_t, bool, int64_t, int64_t, at::IntArrayRef, at::IntArrayRef,
                        const std::optional<at::Tensor>&, int64_t) {
  return at::empty_like(x, at::MemoryFormat::Contiguous);
}

void draw_on_cpu(at::Tensor& slice, bool is_normal, int64_t seed, int64_t stream, int64_t first, double shift, double scale) {
  const Stream of{static_cast<uint64_t>(seed), static_cast<uint64_t>(stream)};
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, slice.scalar_type(), "weft::draw", [&] {
    auto* to = slice.mutable_data_ptr<scalar_t>();
    in_shuffled_order(slice.numel(), [&](int64_t i) {
      to[i] =
          static_cast<scalar_t>(drawn_number(is_normal, of, first + i, static_cast<float>(shift), static_cast<float>(scale)));
    });
  });
}

/// The dispatcher's entry for an operator with this signature.
template <class Signature>
auto entry(const char* name) {
  load_cuda_kernels();
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

void check_ranges(at::TensorList ranges) {
  for (const at::Tensor& range : ranges) {
    TORCH_CHECK(range.is_floating_point() && range.dim() == 1 && range.is_contiguous(),
                "weft's device kernels take flat, contiguous ranges of a floating-point type, not ", range.toString(), " ",
                range.sizes());
  }
}

}  // namespace

TORCH_LIBRARY(weft, operators) {
  operators.def("add_squares(Tensor[] ranges, int[] places, Tensor(a!) words) -> ()");
  operators.def("raise_to_largest(Tensor[] ranges, Tensor(a!) most) -> ()");
  operators.def("carry_words(Tensor(a!) words) -> ()");
  operators.def(
      "drop(Tensor x, float scale, int threshold, bool all, int seed, int stream, int[] firsts, int[] numels, Tensor? place, "
      "int per_sample) -> Tensor");
  operators.def("draw(Tensor(a!) slice, bool is_normal, int seed, int stream, int first, float shift, float scale) -> ()");
  operators.def("clamp_ids(Tensor ids, int count, int? ignored, Tensor(a!) found) -> Tensor");
  operators.def("spoil_losses(Tensor(a!) losses, Tensor found) -> ()");
  operators.def("put_losses(Tensor(a!) losses, int place, Tensor sum, Tensor? counted, int count, float nominal) -> ()");
}

TORCH_LIBRARY_IMPL(weft, CPU, operators) {
  operators.impl("add_squares", add_squares_on_cpu);
  operators.impl("raise_to_largest", raise_to_largest_on_cpu);
  operators.impl("carry_words", carry_words_on_cpu);
  operators.impl("put_losses", put_losses_on_cpu);
  operators.impl("clamp_ids", clamp_ids_on_cpu);
  operators.impl("spoil_losses", spoil_losses_on_cpu);
  operators.impl("drop", drop_on_cpu);
  operators.impl("draw", draw_on_cpu);
}

TORCH_LIBRARY_IMPL(weft, Meta, operators) { operators.impl("drop", drop_on_meta); }

void add_squares_of(at::TensorList ranges, at::IntArrayRef places, const at::Tensor& words) {
  check_ranges(ranges);
  static const auto run = entry<void(at::TensorList, at::IntArrayRef, at::Tensor&)>("weft::add_squares");
  at::Tensor sum = words;
  if (!ranges.empty()) run.call(ranges, places, sum);
}

void raise_to_largest(at::TensorList ranges, const at::Tensor& most) {
  check_ranges(ranges);
  static const auto run = entry<void(at::TensorList, at::Tensor&)>("weft::raise_to_largest");
  at::Tensor largest = most;
  if (!ranges.empty()) run.call(ranges, largest);
}

void carry_words(const at::Tensor& words) {
  static const auto run = entry<void(at::Tensor&)>("weft::carry_words");
  at::Tensor sum = words;
  run.call(sum);
}

void put_losses(const at::Tensor& losses, int64_t place, const LossNumbers& numbers) {
  using Signature = void(at::Tensor&, int64_t, const at::Tensor&, const std::optional<at::Tensor>&, int64_t, double);
  static const auto run = entry<Signature>("weft::put_losses");
  at::Tensor all = losses;
  const std::optional<at::Tensor> counted = numbers.counted.defined() ? std::optional(numbers.counted) : std::nullopt;
  run.call(all, place, numbers.sum.detach(), counted, numbers.count, numbers.nominal);
}

at::Tensor clamp_ids(const at::Tensor& ids, int64_t count, std::optional<int64_t> ignored, const at::Tensor& found) {
  using Signature = at::Tensor(const at::Tensor&, int64_t, std::optional<int64_t>, at::Tensor&);
  static const auto run = entry<Signature>("weft::clamp_ids");
  TORCH_CHECK(ids.numel() < int64_t{1} << 31, "ids: ", ids.numel(), " in one tensor, must be fewer than 2^31");
  at::Tensor noted = found;
  return run.call(ids.contiguous(), count, ignored, noted);
}

void spoil_losses(const at::Tensor& losses, const at::Tensor& found) {
  static const auto run = entry<void(at::Tensor&, const at::Tensor&)>("weft::spoil_losses");
  at::Tensor spoilt = losses;
  run.call(spoilt, found);
}

at::Tensor drop_elements(const at::Tensor& x, const Dropped& dropped) {
  using Signature = at::Tensor(const at::Tensor&, double, int64_t, bool, int64_t, int64_t, at::IntArrayRef, at::IntArrayRef,
                               const std::optional<at::Tensor>&, int64_t);
  static const auto run = entry<Signature>("weft::drop");
  const at::AutoDispatchBelowADInplaceOrView below;
  return run.call(x.contiguous(), dropped.scale, int64_t{dropped.threshold}, dropped.all, static_cast<int64_t>(dropped.seed),
                  static_cast<int64_t>(dropped.stream), dropped.firsts, dropped.numels,
                  dropped.place.defined() ? std::optional(dropped.place) : std::nullopt, dropped.per_sample);
}

void draw_numbers(const at::Tensor& slice, const Drawn& drawn) {
  using Signature = void(at::Tensor&, bool, int64_t, int64_t, int64_t, double, double);
  static const auto run = entry<Signature>("weft::draw");
  const at::AutoDispatchBelowADInplaceOrView below;
  at::Tensor to = slice;
  run.call(to, drawn.is_normal, static_cast<int64_t>(drawn.seed), static_cast<int64_t>(drawn.stream), drawn.first, drawn.shift,
           drawn.scale);
}

}  // namespace weft
