// How a connection to a store begins: each side proves that it knows the job's token, which itself never leaves a process.
//
// The server greets with a random number. The client answers with one of its own and HMAC-SHA256 over both under the token, the
// server with another HMAC over both: RFC 2104, with a word before the numbers that tells the two apart, so that nobody can
// send one side's proof back to it. Where the server was given no token it asks for no proof, and refuses nobody who speaks
// this language. What follows is neither signed nor encrypted.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace weft::proof {

inline constexpr size_t kNonceBytes = 32;
inline constexpr size_t kProofBytes = 32;

/// The server's first words.
enum class Greeting : char {
  open,   ///< no proof is asked for
  prove,  ///< prove that you know the token
  full    ///< there is no room for another connection
};
inline constexpr size_t kGreetingBytes = 8 + 1 + kNonceBytes;
std::string greeting(Greeting kind, std::string_view server_nonce);
/// What a greeting says; false for what is none.
bool read_greeting(std::string_view bytes, Greeting& kind, std::string& server_nonce);

/// The client's answer to it.
inline constexpr size_t kReplyBytes = 8 + kNonceBytes + kProofBytes;
std::string reply(std::string_view token, std::string_view server_nonce, std::string_view client_nonce);
/// Whether the answer proves that the client knows the token (or, with none, is a reply at all).
bool is_proven(std::string_view reply, std::string_view token, std::string_view server_nonce, std::string& client_nonce);

/// The server's last words before messages: whether it takes the client, and its own proof.
inline constexpr size_t kWelcomeBytes = 1 + kProofBytes;
std::string welcome(std::string_view token, std::string_view server_nonce, std::string_view client_nonce);
std::string refusal();
enum class Welcome { taken, refused, stranger };
/// stranger: the server does not know the token.
Welcome read_welcome(std::string_view bytes, std::string_view token, std::string_view server_nonce,
                     std::string_view client_nonce);

}  // namespace weft::proof
