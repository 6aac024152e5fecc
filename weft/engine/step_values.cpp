#include "weft/engine/step_values.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <bit>

namespace weft {

namespace {

constexpr int64_t kPlace = 0, kRate = 2, kVotes = 3;  // in int64; then the scale
constexpr int64_t kKnownWords = 1;                    // of a DeviceLossScale: the host always knows them

int64_t word_of(double x) { return std::bit_cast<int64_t>(x); }

}  // namespace

StepValues::StepValues(at::Device device, int votes, bool has_scale)
    : all_(at::empty({kVotes + votes + (has_scale ? kLossScaleWords : 0)}, at::TensorOptions(at::kLong).device(device))),
      rate_(all_.narrow(0, kRate, 1).view(at::kFloat)),
      votes_(all_.narrow(0, kVotes, votes).view(at::kDouble)),
      scale_(has_scale ? all_.narrow(0, kVotes + votes, kLossScaleWords) : at::Tensor()),
      place_{.values = all_.narrow(0, kPlace, 2)} {}

void StepValues::set(const StepInputs& inputs) {
  place_.first_sample = inputs.first_sample;
  const std::array<float, 2> rates = {inputs.rate.rate, static_cast<float>(inputs.rate.number)};
  std::vector<int64_t> words = {inputs.step, inputs.first_sample, std::bit_cast<int64_t>(rates)};
  const int64_t votes = votes_.numel();
  for (int64_t i = 0; i < votes; ++i) words.push_back(inputs.votes.empty() ? 0 : word_of(inputs.votes[i]));
  if (scale_.defined()) {
    const auto& [scale, good_steps, skipped_steps] = inputs.scale;
    words.push_back(skipped_steps);
    if (inputs.is_scale_known) words.insert(words.end(), {word_of(scale), good_steps, skipped_steps});
  }
  const auto count = static_cast<int64_t>(words.size());
  const at::Tensor host = at::empty({count}, at::TensorOptions(at::kLong).pinned_memory(true));
  std::copy(words.begin(), words.end(), host.mutable_data_ptr<int64_t>());
  all_.narrow(0, 0, count).copy_(host, /*non_blocking=*/true);
}

at::Tensor StepValues::loss_factor() const { return scale_.narrow(0, kKnownWords, 1).view(at::kDouble)[0]; }

}  // namespace weft
