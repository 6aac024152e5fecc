// The secret that the processes of one job share (WEFT_TOKEN), and how one proves to another that it knows it without telling:
// the other names a number that was never used (a nonce), and is answered the HMAC-SHA256 of it under the token.
#pragma once

#include <string>
#include <string_view>

namespace weft {

/// Fresh bytes that nobody can guess, from the system. Throws Error where it has none.
std::string random_bytes(int count);

/// A new secret of 256 random bits, in hexadecimal digits. It belongs into environments and files that only their owner reads,
/// never onto a command line, which every user of the host sees. Throws Error like random_bytes().
std::string make_token();

/// A number that was never used, 128 random bits in hexadecimal digits. Throws Error like random_bytes().
std::string make_nonce();

/// HMAC-SHA256 of data under a key, 32 bytes (RFC 2104).
std::string hmac_sha256(std::string_view key, std::string_view data);

/// HMAC-SHA256 of the nonce under the token, in hexadecimal digits.
std::string token_proof(std::string_view token, std::string_view nonce);

/// Whether two proofs are the same; how long it takes does not tell where they differ.
bool is_same_proof(std::string_view left, std::string_view right);

}  // namespace weft
