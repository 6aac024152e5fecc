#include "weft/comm/store/proof.h"

#include "weft/base/token.h"

namespace weft::proof {
namespace {

constexpr std::string_view kMagic{"weft-s1\n", 8};  // changes with the messages

}  // namespace

std::string greeting(Greeting kind, std::string_view server_nonce) {
  return std::string(kMagic).append(1, static_cast<char>(kind)).append(server_nonce);
}

bool read_greeting(std::string_view bytes, Greeting& kind, std::string& server_nonce) {
  if (bytes.size() != kGreetingBytes || bytes.substr(0, kMagic.size()) != kMagic) return false;
  kind = static_cast<Greeting>(bytes[kMagic.size()]);
  server_nonce = bytes.substr(kMagic.size() + 1);
  return kind == Greeting::open || kind == Greeting::prove || kind == Greeting::full;
}

std::string reply(std::string_view token, std::string_view server_nonce, std::string_view client_nonce) {
  const std::string own =
      token.empty() ? std::string(kProofBytes, '\0') : token_proof(token, "client", server_nonce, client_nonce);
  return std::string(kMagic).append(client_nonce).append(own);
}

bool is_proven(std::string_view reply, std::string_view token, std::string_view server_nonce, std::string& client_nonce) {
  if (reply.size() != kReplyBytes || reply.substr(0, kMagic.size()) != kMagic) return false;
  client_nonce = reply.substr(kMagic.size(), kNonceBytes);
  return token.empty() ||
         is_same_proof(reply.substr(kMagic.size() + kNonceBytes), token_proof(token, "client", server_nonce, client_nonce));
}

std::string welcome(std::string_view token, std::string_view server_nonce, std::string_view client_nonce) {
  const std::string own =
      token.empty() ? std::string(kProofBytes, '\0') : token_proof(token, "server", server_nonce, client_nonce);
  return std::string(1, '+').append(own);
}

std::string refusal() { return std::string(1, '-').append(kProofBytes, '\0'); }

Welcome read_welcome(std::string_view bytes, std::string_view token, std::string_view server_nonce,
                     std::string_view client_nonce) {
  if (bytes.front() == '-') return Welcome::refused;
  const bool known = token.empty() || is_same_proof(bytes.substr(1), token_proof(token, "server", server_nonce, client_nonce));
  return bytes.front() == '+' && known ? Welcome::taken : Welcome::stranger;
}

}  // namespace weft::proof
