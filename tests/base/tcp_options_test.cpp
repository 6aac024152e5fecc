// Unacknowledged data of connections.
#include "weft/base/tcp_options.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>

#include "weft/base/file_descriptor.h"
#include "weft/base/loopback.h"

namespace weft::tcp_options_test {
namespace {

struct Connection {
  FileDescriptor sender, receiver;
};

Connection connect_two() {
  const FileDescriptor listening = listen_on_loopback();
  Connection both;
  both.sender = FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port_of(listening)));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(both.sender.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  both.receiver = FileDescriptor(::accept(listening.get(), nullptr, nullptr));
  return both;
}

TEST(TcpOptions, UnreadDataIsUnconfirmed) {
  const Connection both = connect_two();
  EXPECT_EQ(unconfirmed_bytes(both.sender.get()), 0);
  ::fcntl(both.sender.get(), F_SETFL, O_NONBLOCK);
  std::array<char, 1 << 16> data{};
  size_t sent = 0;
  for (ssize_t part = 0; (part = ::send(both.sender.get(), data.data(), data.size(), 0)) > 0;)
    sent += static_cast<size_t>(part);
  EXPECT_GT(unconfirmed_bytes(both.sender.get()), 0) << "more than the peer's system buffers for a program that does not read";
  for (size_t got = 0; got < sent;) got += static_cast<size_t>(::recv(both.receiver.get(), data.data(), data.size(), 0));
  for (int i = 0; i < 1000 && unconfirmed_bytes(both.sender.get()) > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(unconfirmed_bytes(both.sender.get()), 0);
}

TEST(TcpOptions, NothingIsUnconfirmedWithoutAPeer) {
  Connection both = connect_two();
  std::array<char, 1 << 16> data{};
  ::fcntl(both.sender.get(), F_SETFL, O_NONBLOCK);
  while (::send(both.sender.get(), data.data(), data.size(), 0) > 0) continue;
  const linger at_once{1, 0};
  ::setsockopt(both.receiver.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  both.receiver = FileDescriptor();
  for (int i = 0; i < 1000 && unconfirmed_bytes(both.sender.get()) > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(unconfirmed_bytes(both.sender.get()), 0) << "it was reset";
  EXPECT_EQ(unconfirmed_bytes(STDIN_FILENO), 0);
  EXPECT_EQ(unconfirmed_bytes(-1), 0);
}

TEST(TcpOptions, ConnectionsOfThisProcessAreFound) {
  const std::set<int> before = tcp_connections();
  const Connection both = connect_two();
  const std::set<int> now = tcp_connections();
  EXPECT_TRUE(now.count(both.sender.get()) == 1 && now.count(both.receiver.get()) == 1);
  EXPECT_EQ(before.count(both.sender.get()), 0U);
}

}  // namespace
}  // namespace weft::tcp_options_test
