// The secret that the processes of one job share (WEFT_TOKEN), and how one proves to another that it knows it without telling:
// the other names a number that was never used (a nonce), and is answered the HMAC-SHA256 of it under the token.
#pragma once

#include <string>
#include <string_view>

namespace weft {

/// A new secret of 256 random bits, in hexadecimal digits. Throws Error where the system has no random numbers.
std::string make_token();

/// A number that was never used, 128 random bits in hexadecimal digits. Throws Error like make_token().
std::string make_nonce();

/// HMAC-SHA256 of the nonce under the token, in hexadecimal digits (RFC 2104).
std::string proof(std::string_view token, std::string_view nonce);

/// Whether two proofs are the same; how long it takes does not tell where they differ.
bool is_same_proof(std::string_view left, std::string_view right);

}  // namespace weft
