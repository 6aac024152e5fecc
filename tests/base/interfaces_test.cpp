// Interface selection. Only the loopback interface is certain to exist; tests/cluster has hosts with more.
#include "weft/base/interfaces.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "weft/base/error.h"
#include "weft/base/loopback.h"
#include "weft/base/token.h"

namespace weft::interfaces_test {
namespace {

TEST(Interfaces, TheLoopbackInterfaceLeadsToItself) {
  EXPECT_EQ(local_address_towards("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(own_address_of(listen_towards("127.0.0.1", 0)), "127.0.0.1");
  EXPECT_THROW(local_address_towards("no.such.host.invalid"), Error);
}

TEST(Interfaces, OwnAddresses) {
  EXPECT_TRUE(is_own_address("127.0.0.1"));
  EXPECT_FALSE(is_own_address("192.0.2.1"));  // RFC 5737: unassigned
  EXPECT_THROW(is_own_address("localhost"), Error) << "a name";
  for (const char* address : {"127.0.0.1", "127.0.1.1", "::1"}) EXPECT_TRUE(is_loopback_address(address)) << address;
  for (const char* address : {"10.0.0.1", "fd00::1", ""}) EXPECT_FALSE(is_loopback_address(address)) << address;
}

// A name that resolves to the loopback interface here means something else on other hosts.
TEST(Interfaces, ListensEverywhereIfTheNameIsNoAddressOfThisHost) {
  for (const char* host : {"localhost", "127.0.1.1", "192.0.2.1"}) {
    const std::string address = own_address_of(listen_as(host, 0));
    EXPECT_TRUE(address == "::" || address == "0.0.0.0") << host << ": " << address;
  }
}

TEST(Interfaces, ALoopbackAddressIsNotAHostsNameForOthers) {
  for (const char* host : {"localhost", "127.0.1.1", "192.0.2.1"}) EXPECT_EQ(own_address_as(host), "") << host;
  EXPECT_THROW(own_address_as("no.such.host.invalid"), Error);
}

TEST(Interfaces, ListensOnOneAddressOnly) {
  const FileDescriptor socket = listen_at("127.0.0.1", 0);
  EXPECT_EQ(own_address_of(socket), "127.0.0.1");
  EXPECT_GT(port_of(socket), 0);
  try {
    listen_at("127.0.0.1", port_of(socket));
    FAIL() << "the port is taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("on 127.0.0.1: Address already in use"), std::string::npos) << error.what();
  }
  EXPECT_THROW(listen_at("192.0.2.1", 0), Error);
  const FileDescriptor all = listen_everywhere(0);
  EXPECT_GT(port_of(all), 0);
  EXPECT_EQ(peer_address_of(all), "");
}

TEST(Token, IsFreshEachTime) {
  const std::string one = make_token(), other = make_token();
  EXPECT_EQ(one.size(), 64u);
  EXPECT_EQ(one.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(one, other);
}

}  // namespace
}  // namespace weft::interfaces_test
