// The secret that the processes of one job share (WEFT_TOKEN), and how two prove to each other that they know it without
// telling: each names a number that was never used (a nonce), and answers with the HMAC-SHA256 over both under the token. A
// word for the side goes before the numbers, so that no side's proof is of any use as another's: whoever only passes numbers on
// between two that know the token learns nothing that a third would take.
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

/// The proof of one side, a word of its own: 32 bytes.
std::string token_proof(std::string_view token, std::string_view side, std::string_view server_nonce,
                        std::string_view client_nonce);

/// Bytes as hexadecimal digits, two each.
std::string hexadecimal(std::string_view bytes);

/// Whether two proofs are the same; how long it takes does not tell where they differ.
bool is_same_proof(std::string_view left, std::string_view right);

}  // namespace weft
