// weft run --health-port: it answers whoever asks, also beside clients that never end their requests, which hold no run up.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/cli/command.h"
#include "tests/support/wait_until.h"
#include "weft/base/file_descriptor.h"
#include "weft/base/loopback.h"

namespace weft::health_test {
namespace {

FileDescriptor connect_to(int port) {
  for (int i = 0; i < 1000; ++i) {
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return socket;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return FileDescriptor();
}

bool say(const FileDescriptor& socket, const std::string& text) {
  return ::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

std::string answer_of(int port, const std::string& path) {
  const FileDescriptor socket = connect_to(port);
  say(socket, "GET " + path + " HTTP/1.1\r\nHost: h\r\n\r\n");
  std::string text;
  char part[512];
  for (ssize_t got = 0; (got = ::recv(socket.get(), part, sizeof part, 0)) > 0;) text.append(part, static_cast<size_t>(got));
  return text;
}

TEST(Health, ClientsThatNeverEndHoldNothingUp) {
  const TemporaryFolder folder;
  const int port = free_loopback_port();
  const std::string until_told = "while [ ! -e " + (folder / "over").string() + " ]; do sleep 0.1; done";
  const pid_t pid = start_weft({"run", "-n", "1", "--health-port", std::to_string(port), "--", "/bin/sh", "-c", until_told},
                               folder.path(), {.deadline_s = 60});
  std::vector<FileDescriptor> slow;
  for (int i = 0; i < 40; ++i) {
    slow.push_back(connect_to(port));
    const bool is_said = say(slow.back(), "GET /healthz HTTP/1.1\r\nA: ");
    EXPECT_TRUE(is_said) << "client " << i;
    if (!is_said) break;
  }
  std::atomic<bool> over = false;
  std::thread drops([&] {
    while (!over) {
      for (const FileDescriptor& socket : slow) say(socket, "b");
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
  });
  std::string answer;  // 503 until the rank runs
  const auto is_well = [&] { return (answer = answer_of(port, "/healthz")).find("200 OK") != std::string::npos; };
  EXPECT_TRUE(wait_until(is_well, 20.0)) << answer;
  std::ofstream(folder / "over").close();
  EXPECT_EQ(wait_for(pid, 30.0), 0);
  over = true;
  drops.join();
}

}  // namespace
}  // namespace weft::health_test
