// The ports used if none is named.
#include "weft/base/port_range.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/environment_variables.h"
#include "weft/base/error.h"
#include "weft/base/file_descriptor.h"
#include "weft/base/interfaces.h"
#include "weft/base/loopback.h"

namespace weft::port_range_test {
namespace {

using test::EnvironmentVariables;

/// Returns `size` consecutive ports, the first of which was free a moment ago.
PortRange some_ports(int size) {
  int first = 0;
  do first = free_loopback_port();
  while (first + size > 65535);
  return {first, first + size - 1};
}

std::string text_of(const PortRange& range) { return std::to_string(range.first) + "-" + std::to_string(range.last); }

std::vector<std::pair<std::string, std::string>> variables(const PortRange& range) { return {{"WEFT_PORTS", text_of(range)}}; }

TEST(PortRange, Texts) {
  const auto range = parse_port_range("20000-20100");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first, 20000);
  EXPECT_EQ(range->size(), 101);
  for (const char* text :
       {"", "20000", "20000-", "-20100", "20100-20000", "1023-2000", "60000-65536", "20000:20100", "a-b", "1-2-3"}) {
    EXPECT_FALSE(parse_port_range(text)) << text;
  }
  const EnvironmentVariables wrong(variables({2, 1}));
  EXPECT_THROW(port_range(), InputError);
}

TEST(PortRange, EveryListenerUsesItsPorts) {
  const PortRange range = some_ports(12);
  const EnvironmentVariables set(variables(range));
  std::vector<FileDescriptor> sockets;
  std::set<int> ports;
  std::string error;
  while (error.empty() && ports.size() <= 12) {
    try {
      sockets.push_back(ports.size() % 2 == 0 ? listen_on_loopback() : listen_everywhere(0));
      const int port = port_of(sockets.back());
      EXPECT_GE(port, range.first);
      EXPECT_LE(port, range.last);
      EXPECT_TRUE(ports.insert(port).second) << port;
    } catch (const Error& problem) {
      error = problem.what();
    }
  }
  EXPECT_GT(ports.size(), 6U) << "other processes may hold some ports";
  EXPECT_NE(error.find("cannot open a port of " + text_of(range) + " (run.ports or WEFT_PORTS) on "), std::string::npos)
      << error;
  EXPECT_NE(error.find(": Address already in use"), std::string::npos) << error;
  sockets.clear();
  const int free = free_loopback_port();
  EXPECT_TRUE(free >= range.first && free <= range.last) << free;
}

TEST(PortRange, ANamedPortIsUsedAsGiven) {
  const int named = free_loopback_port();
  const EnvironmentVariables set(variables(some_ports(3)));
  EXPECT_EQ(port_of(listen_on_loopback(named)), named);
}

}  // namespace
}  // namespace weft::port_range_test
