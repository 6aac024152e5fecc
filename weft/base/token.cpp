#include "weft/base/token.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "weft/base/error.h"

namespace weft {

std::string hexadecimal(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::string random_bytes(int count) {
  std::string bytes(static_cast<size_t>(count), '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), count) != 1) {
    throw Error("the system provides no random numbers for the job's secret; set WEFT_TOKEN to the same secret on all hosts");
  }
  return bytes;
}

std::string make_token() { return hexadecimal(random_bytes(32)); }

std::string make_nonce() { return hexadecimal(random_bytes(16)); }

std::string hmac_sha256(std::string_view key, std::string_view data) {
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(data.data()),
           data.size(), reinterpret_cast<unsigned char*>(digest.data()), &size) == nullptr) {
    throw Error("OpenSSL cannot compute HMAC-SHA256; check that the library is intact and allows that digest");
  }
  digest.resize(size);
  return digest;
}

std::string token_proof(std::string_view token, std::string_view side, std::string_view server_nonce,
                        std::string_view client_nonce) {
  return hmac_sha256(token, std::string(side).append(server_nonce).append(client_nonce));
}

bool is_same_proof(std::string_view left, std::string_view right) {
  return left.size() == right.size() && CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

}  // namespace weft
