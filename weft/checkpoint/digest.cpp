#include "weft/checkpoint/digest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <algorithm>
#include <memory>

#include "weft/base/error.h"

namespace weft {
namespace {

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    require(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }
  void add(const void* data, size_t bytes) { require(EVP_DigestUpdate(context_.get(), data, bytes) == 1); }
  std::string hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    require(EVP_DigestFinal_ex(context_.get(), digest, &length) == 1);
    return fmt::format("{:02x}", fmt::join(digest, digest + length, ""));
  }

 private:
  static void require(bool good) {
    if (!good) throw Error("OpenSSL cannot compute SHA-256; check that its library is whole and allows that digest");
  }
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

std::string weights_sha256(const std::vector<NamedTensor>& tensors) {
  std::vector<const NamedTensor*> ordered;
  ordered.reserve(tensors.size());
  for (const NamedTensor& t : tensors) ordered.push_back(&t);
  std::sort(ordered.begin(), ordered.end(), [](const NamedTensor* a, const NamedTensor* b) { return a->name < b->name; });
  Sha256 hash;
  for (size_t i = 0; i < ordered.size(); ++i) {
    const auto& [name, tensor] = *ordered[i];
    if (i > 0 && ordered[i - 1]->name == name)
      throw InputError(fmt::format("digest: two tensors are named \"{}\"; rename one", name));
    if (name.find('\0') != std::string::npos) throw InputError("digest: a tensor's name holds a zero byte; rename it");
    if (!tensor.defined()) throw InputError(fmt::format("digest: tensor \"{}\" is undefined", name));
    hash.add(name.c_str(), name.size() + 1);
    const std::string shape = fmt::format("{}", fmt::join(tensor.sizes(), ","));
    hash.add(shape.c_str(), shape.size() + 1);
    const at::Tensor values = tensor.detach().to(at::kCPU).to(at::kFloat).contiguous();
    hash.add(values.const_data_ptr(), values.nbytes());
  }
  return hash.hex();
}

}  // namespace weft
