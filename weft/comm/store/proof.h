// Start of a connection to a store: each side proves that it knows the job's token, which itself never leaves a process.
//
// The server greets with a random number. The client answers with its own number and an HMAC-SHA256 (RFC 2104) over both, keyed
// with the token; the server answers with another HMAC over both. A word before the numbers differs between the two, so one
// side's proof cannot be sent back to it. A server without a token requires no proof, and accepts every client that speaks this
// protocol. Later messages are neither signed nor encrypted.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace weft::proof {

inline constexpr size_t kNonceBytes = 32;
inline constexpr size_t kProofBytes = 32;

/// The server's first message.
enum class Greeting : char {
  open,   ///< no proof required
  prove,  ///< proof of the token required
  full    ///< no room for another connection
};
inline constexpr size_t kGreetingBytes = 8 + 1 + kNonceBytes;
std::string greeting(Greeting kind, std::string_view server_nonce);
/// Parses a greeting; returns false for anything else.
bool read_greeting(std::string_view bytes, Greeting& kind, std::string& server_nonce);

/// The client's reply to the greeting.
inline constexpr size_t kReplyBytes = 8 + kNonceBytes + kProofBytes;
std::string reply(std::string_view token, std::string_view server_nonce, std::string_view client_nonce);
/// Returns whether the reply proves that the client knows the token (or, without a token, is a reply at all).
bool is_proven(std::string_view reply, std::string_view token, std::string_view server_nonce, std::string& client_nonce);

/// The server's last message before requests: whether it accepts the client, and its own proof.
inline constexpr size_t kWelcomeBytes = 1 + kProofBytes;
std::string welcome(std::string_view token, std::string_view server_nonce, std::string_view client_nonce);
std::string refusal();
enum class Welcome { taken, refused, stranger };
/// stranger: the server does not know the token.
Welcome read_welcome(std::string_view bytes, std::string_view token, std::string_view server_nonce,
                     std::string_view client_nonce);

}  // namespace weft::proof
