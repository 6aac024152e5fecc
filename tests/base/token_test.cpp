// The job's secret: a known answer of HMAC-SHA256, and what two processes tell one another.
#include "weft/base/token.h"

#include <gtest/gtest.h>

namespace weft::token_test {
namespace {

TEST(Token, ProofIsHmacSha256) {  // RFC 4231, test case 2
  EXPECT_EQ(token_proof("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(Token, EachIsNew) {
  EXPECT_EQ(make_token().size(), 64u);
  EXPECT_NE(make_token(), make_token());
  EXPECT_NE(make_nonce(), make_nonce());
}

TEST(Token, OnlyTheSameTokenAndNonceGiveTheSameProof) {
  const std::string token = make_token(), nonce = make_nonce();
  EXPECT_TRUE(is_same_proof(token_proof(token, nonce), token_proof(token, nonce)));
  EXPECT_FALSE(is_same_proof(token_proof(token, nonce), token_proof(make_token(), nonce)));
  EXPECT_FALSE(is_same_proof(token_proof(token, nonce), token_proof(token, make_nonce())));
  EXPECT_FALSE(is_same_proof(token_proof(token, nonce), ""));
}

}  // namespace
}  // namespace weft::token_test
