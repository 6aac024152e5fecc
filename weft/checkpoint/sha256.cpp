#include "weft/checkpoint/sha256.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include "weft/base/error.h"

namespace weft {
namespace {

void require_sha256(bool good) {
  if (!good) throw Error("OpenSSL cannot compute SHA-256; check its installation and that it allows this digest");
}

}  // namespace

struct Sha256::Context {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> evp{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  require_sha256(context_->evp && EVP_DigestInit_ex(context_->evp.get(), EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::add(const void* data, size_t bytes) { require_sha256(EVP_DigestUpdate(context_->evp.get(), data, bytes) == 1); }

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  require_sha256(EVP_DigestFinal_ex(context_->evp.get(), digest, &length) == 1);
  return fmt::format("{:02x}", fmt::join(digest, digest + length, ""));
}

std::string sha256(std::string_view text) {
  Sha256 hash;
  hash.add(text.data(), text.size());
  return hash.hex();
}

}  // namespace weft
