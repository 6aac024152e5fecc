// Listening addresses of a head and its store. Only loopback is certain here; tests/cluster has hosts with more.
#include "weft/launch/agent/sockets.h"

#include <gtest/gtest.h>

#include <string>

#include "weft/base/error.h"
#include "weft/base/interfaces.h"
#include "weft/base/loopback.h"
#include "weft/launch/agent/ssh_route.h"

namespace weft::sockets_test {
namespace {

TEST(HeadSocket, ListensOnLoopbackForAgentsOnThisHost) {
  for (const char* host : {"127.0.0.1", "localhost"}) {
    const HeadSocket head = listen_for_agents(host, 0);
    EXPECT_EQ(own_address_of(head.socket), "127.0.0.1") << host;
    EXPECT_EQ(head.why_everywhere, "");
    const FileDescriptor beside = listen_beside(head.socket);
    EXPECT_EQ(own_address_of(beside), "127.0.0.1");
    EXPECT_NE(port_of(beside), port_of(head.socket));
    EXPECT_EQ(address_here(beside), "127.0.0.1");
  }
}

TEST(HeadSocket, ListensOnAllInterfacesForAnUnknownNameAndSaysWhy) {
  for (const std::string host : {"192.0.2.1", "no.such.host.invalid", ""}) {  // RFC 5737: unassigned
    const HeadSocket head = listen_for_agents(host, 0);
    const std::string address = own_address_of(head.socket);
    EXPECT_TRUE(address == "::" || address == "0.0.0.0") << host << ": " << address;
    EXPECT_EQ(head.why_everywhere.empty(), host.empty());
    EXPECT_NE(head.why_everywhere.find(host), std::string::npos) << head.why_everywhere;
    EXPECT_EQ(address_here(listen_beside(head.socket)), "127.0.0.1");
  }
}

TEST(HeadSocket, ATakenPortIsAnError) {
  const FileDescriptor taken = listen_on_loopback();
  EXPECT_THROW(listen_for_agents("127.0.0.1", port_of(taken)), Error);
}

TEST(SshRoute, IsKnownForDirectConnections) {
  EXPECT_EQ(direct_host("user me\nhostname 10.0.0.2\nport 22\nproxyusefdpass no\n"), "10.0.0.2");
  EXPECT_EQ(direct_host("hostname b\nproxyjump none\nproxycommand none\n"), "b");
  for (const char* between : {"proxyjump gate", "proxycommand nc b 22", "bindaddress 10.0.0.1", "bindinterface eth1"}) {
    EXPECT_EQ(direct_host("hostname b\n" + std::string(between) + "\n"), "") << between;
  }
  EXPECT_EQ(direct_host("unknown option"), "");
}

}  // namespace
}  // namespace weft::sockets_test
