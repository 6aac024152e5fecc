#include "weft/train/run/data_text.h"

#include <fmt/format.h>

#include <vector>

#include "weft/checkpoint/digest.h"

namespace weft {

std::string data_text(const Dataset& data) {
  constexpr int64_t kSamples = 16;
  std::vector<int64_t> indices;
  indices.reserve(kSamples);
  const SampleRange near = data.near(0, 0);  // all, or for data read in groups, the ones at the start of a run
  for (int64_t i = 0; i < kSamples; ++i) indices.push_back(near.first + i * (near.count - 1) / (kSamples - 1));
  const Batch batch = data.get(indices, 0);
  std::vector<NamedTensor> tensors = {{"target", batch.target}};
  for (size_t i = 0; i < batch.inputs.size(); ++i) tensors.push_back({fmt::format("input {}", i), batch.inputs[i]});
  return fmt::format("{} samples, digest {}", data.size(), weights_sha256(tensors).substr(0, 16));
}

}  // namespace weft
