#include "weft/base/token.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>
#include <cstddef>

#include "weft/base/error.h"

namespace weft {

namespace {

std::string hexadecimal(const unsigned char* bytes, size_t size) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * size);
  for (size_t i = 0; i < size; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

template <size_t kBytes>
std::string random_digits() {
  std::array<unsigned char, kBytes> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    throw Error("the system has no random numbers for the job's secret; set WEFT_TOKEN to one of your own on all hosts");
  }
  return hexadecimal(bytes.data(), bytes.size());
}

}  // namespace

std::string make_token() { return random_digits<32>(); }

std::string make_nonce() { return random_digits<16>(); }

std::string proof(std::string_view token, std::string_view nonce) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()), reinterpret_cast<const unsigned char*>(nonce.data()),
           nonce.size(), digest.data(), &size) == nullptr) {
    throw Error("cannot compute an HMAC-SHA256: OpenSSL refuses it");
  }
  return hexadecimal(digest.data(), size);
}

bool is_same_proof(std::string_view left, std::string_view right) {
  return left.size() == right.size() && CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

}  // namespace weft
