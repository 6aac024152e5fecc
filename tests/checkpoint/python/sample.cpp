// sample write FILE: saves tensors whose bytes follow a formula also in read_sample.py, with their digest in the metadata.
// sample digest FILE: prints the digest of the weights in a file.
#include <ATen/ops/empty.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "weft/checkpoint/digest.h"
#include "weft/checkpoint/safetensors.h"

namespace {

at::Tensor patterned(const std::vector<int64_t>& shape, at::ScalarType type) {
  at::Tensor out = at::empty(shape, type);
  auto* data = static_cast<uint8_t*>(out.mutable_data_ptr());
  for (size_t i = 0; i < out.nbytes(); ++i) data[i] = static_cast<uint8_t>(i * 151 + i / 256 * 7 + 7);
  return out;
}

void write(const std::string& path) {
  std::vector<weft::NamedTensor> tensors;
  for (const auto type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kByte}) {
    const std::string name = c10::toString(type);
    tensors.push_back({name + ".matrix", patterned({37, 53}, type)});
    tensors.push_back({name + ".scalar", patterned({}, type)});
    tensors.push_back({name + ".empty", patterned({3, 0}, type)});
    tensors.push_back({name + ".strided", patterned({5, 7}, type).t()});
  }
  // The digest is over numbers with one float32 form each; a NaN has many.
  const std::vector<weft::NamedTensor> weights = {{"weight", at::empty({64, 3}, at::kFloat)},
                                                  {"bias", at::empty({64}, at::kBFloat16)}};
  for (int64_t i = 0; i < 192; ++i) weights[0].tensor.mutable_data_ptr<float>()[i] = static_cast<float>(i) / 7 - 10;
  for (int64_t i = 0; i < 64; ++i) weights[1].tensor.mutable_data_ptr<at::BFloat16>()[i] = static_cast<float>(i) / 7;
  tensors.insert(tensors.end(), weights.begin(), weights.end());
  weft::save_safetensors(path, tensors,
                         {{"weights_sha256", weft::weights_sha256(weights)}, {"note", "caf\xc3\xa9 \"quoted\""}});
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string action = argc == 3 ? argv[1] : "";
  if (action == "write") {
    write(argv[2]);
  } else if (action == "digest") {
    std::printf("%s\n", weft::weights_sha256(weft::load_safetensors(argv[2])).c_str());
  } else {
    std::fprintf(stderr, "usage: sample write|digest FILE\n");
    return 2;
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "sample: %s\n", error.what());
  return 1;
}
