// The secret shared by the processes of a job (WEFT_TOKEN), and the proof that both sides of a connection know it without
// sending it: each side sends a fresh number (nonce) and answers with the HMAC-SHA256 over both under the token. The HMAC's
// input begins with a word for the side, so one side's proof is useless as the other's: an attacker who relays nonces between
// two processes that know the token gains nothing that a third would accept.
#pragma once

#include <string>
#include <string_view>

namespace weft {

/// Returns unpredictable bytes from the system. Throws Error if the system cannot provide them.
std::string random_bytes(int count);

/// Returns a new secret of 256 random bits, as hexadecimal digits. Keep it in environments and files that only their owner
/// reads, never on a command line, which every user of the host sees. Throws Error like random_bytes().
std::string make_token();

/// Returns a nonce of 128 random bits, as hexadecimal digits. Throws Error like random_bytes().
std::string make_nonce();

/// HMAC-SHA256 of data under a key, 32 bytes (RFC 2104).
std::string hmac_sha256(std::string_view key, std::string_view data);

/// Proof of one side, where `side` is a word unique to it: 32 bytes.
std::string token_proof(std::string_view token, std::string_view side, std::string_view server_nonce,
                        std::string_view client_nonce);

/// Bytes as hexadecimal digits, two per byte.
std::string hexadecimal(std::string_view bytes);

/// Compares two proofs in constant time, so timing does not reveal where they differ.
bool is_same_proof(std::string_view left, std::string_view right);

}  // namespace weft
