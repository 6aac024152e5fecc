// The job's secret: a known answer of HMAC-SHA256, and the proofs that two processes exchange.
#include "weft/base/token.h"

#include <gtest/gtest.h>

namespace weft::token_test {
namespace {

TEST(Token, ProofIsHmacSha256) {  // RFC 4231, test case 2
  EXPECT_EQ(hexadecimal(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(Token, EachIsNew) {
  EXPECT_EQ(make_token().size(), 64u);
  EXPECT_NE(make_token(), make_token());
  EXPECT_NE(make_nonce(), make_nonce());
}

TEST(Token, OnlyTheSameTokenAndNonceGiveTheSameProof) {
  const std::string token = make_token(), nonce = make_nonce(), other = make_nonce();
  const std::string proof = token_proof(token, "client", nonce, other);
  EXPECT_TRUE(is_same_proof(proof, token_proof(token, "client", nonce, other)));
  EXPECT_FALSE(is_same_proof(proof, token_proof(make_token(), "client", nonce, other)));
  EXPECT_FALSE(is_same_proof(proof, token_proof(token, "client", make_nonce(), other)));
  EXPECT_FALSE(is_same_proof(proof, token_proof(token, "client", nonce, make_nonce())));
  EXPECT_FALSE(is_same_proof(proof, token_proof(token, "server", nonce, other))) << "the other side's";
  EXPECT_FALSE(is_same_proof(proof, ""));
}

}  // namespace
}  // namespace weft::token_test
