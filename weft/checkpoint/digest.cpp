#include "weft/checkpoint/digest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <algorithm>
#include <memory>

#include "weft/base/error.h"

namespace weft {
namespace {

void require(bool good) {
  if (!good) throw Error("OpenSSL cannot compute SHA-256; check that its library is whole and allows that digest");
}

}  // namespace

struct WeightsDigest::Hash {
  Hash() : context(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    require(context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1);
  }
  void add(const void* data, size_t bytes) const { require(EVP_DigestUpdate(context.get(), data, bytes) == 1); }

  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context;
};

WeightsDigest::WeightsDigest() : hash_(std::make_unique<Hash>()) {}
WeightsDigest::~WeightsDigest() = default;

void WeightsDigest::add(const std::string& name, const at::Tensor& tensor) {
  if (!is_first_ && name == last_) throw InputError(fmt::format("digest: two tensors are named \"{}\"; rename one", name));
  if (!is_first_ && name < last_)
    throw InputError(fmt::format("digest: \"{}\" comes after \"{}\"; add them in order", name, last_));
  if (name.find('\0') != std::string::npos) throw InputError("digest: a tensor's name holds a zero byte; rename it");
  if (!tensor.defined()) throw InputError(fmt::format("digest: tensor \"{}\" is undefined", name));
  is_first_ = false;
  last_ = name;
  hash_->add(name.c_str(), name.size() + 1);
  const std::string shape = fmt::format("{}", fmt::join(tensor.sizes(), ","));
  hash_->add(shape.c_str(), shape.size() + 1);
  const at::Tensor values = tensor.detach().to(at::kCPU).to(at::kFloat).contiguous();
  hash_->add(values.const_data_ptr(), values.nbytes());
}

std::string WeightsDigest::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  require(EVP_DigestFinal_ex(hash_->context.get(), digest, &length) == 1);
  return fmt::format("{:02x}", fmt::join(digest, digest + length, ""));
}

std::string weights_sha256(const std::vector<NamedTensor>& tensors) {
  std::vector<const NamedTensor*> ordered;
  ordered.reserve(tensors.size());
  for (const NamedTensor& t : tensors) ordered.push_back(&t);
  std::sort(ordered.begin(), ordered.end(), [](const NamedTensor* a, const NamedTensor* b) { return a->name < b->name; });
  WeightsDigest digest;
  for (const NamedTensor* tensor : ordered) digest.add(tensor->name, tensor->tensor);
  return digest.hex();
}

}  // namespace weft
