// weft run --health-port: answers requests, even beside clients with unfinished requests, which must not hold up the run.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/cli/training.h"
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

std::string answer_to(int port, const std::string& request) {
  const FileDescriptor socket = connect_to(port);
  say(socket, request);
  std::string text;
  char part[512];
  for (ssize_t got = 0; (got = ::recv(socket.get(), part, sizeof part, 0)) > 0;) text.append(part, static_cast<size_t>(got));
  return text;
}

std::string answer_of(int port, const std::string& path) {
  return answer_to(port, "GET " + path + " HTTP/1.1\r\nHost: h\r\n\r\n");
}

TEST(Health, UnfinishedRequestsHoldNothingUp) {
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
  EXPECT_EQ(answer_of(port, "/metrics").find("weft_seconds_without_step"), std::string::npos) << "it counts no steps";
  std::ofstream(folder / "over").close();
  EXPECT_EQ(wait_for(pid, 30.0), 0);
  over = true;
  drops.join();
}

/// A run of a program that ends once a file appears.
class HealthOfAProgram : public ::testing::Test {
 protected:
  HealthOfAProgram() {
    const std::string until_told = "while [ ! -e " + (folder_ / "over").string() + " ]; do sleep 0.1; done";
    pid_ = start_weft({"run", "-n", "1", "--health-port", std::to_string(port_), "--", "/bin/sh", "-c", until_told},
                      folder_.path(), {.deadline_s = 60});
  }
  ~HealthOfAProgram() override {
    std::ofstream(folder_ / "over").close();
    EXPECT_EQ(wait_for(pid_, 30.0), 0);
  }

  const TemporaryFolder folder_;
  const int port_ = free_loopback_port();
  pid_t pid_ = 0;
};

TEST_F(HealthOfAProgram, BadRequestsAreRefused) {
  const auto status = [&](const std::string& request) { return answer_to(port_, request).substr(0, 12); };
  EXPECT_EQ(status("GET /livez HTTP/1.0\r\n\r\n"), "HTTP/1.1 200");
  EXPECT_EQ(status("GET /livez?verbose HTTP/1.1\r\nHost: h\r\n\r\n"), "HTTP/1.1 200");
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), "HTTP/1.1 404");
  EXPECT_EQ(status("POST /livez HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody"), "HTTP/1.1 405");
  EXPECT_EQ(status("livez\r\n\r\n"), "HTTP/1.1 400");
  EXPECT_EQ(status("GET /livez HTTP/1.1\r\nA: " + std::string(20000, 'a')), "HTTP/1.1 400");
  const std::string head = answer_to(port_, "HEAD /metrics HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200")) << head;
  EXPECT_TRUE(head.ends_with("\r\n\r\n")) << head;
}

/// More than are served at once.
TEST_F(HealthOfAProgram, SilentClientsMakeRoom) {
  std::vector<FileDescriptor> mute;
  for (int i = 0; i < 200; ++i) mute.push_back(connect_to(port_));
  EXPECT_NE(answer_of(port_, "/livez").find("200 OK"), std::string::npos);
  char nothing = 0;
  for (const FileDescriptor& socket : mute) EXPECT_EQ(::recv(socket.get(), &nothing, 1, 0), 0) << "it is closed";
}

class HealthOfARank : public TrainingTest {
 protected:
  HealthOfARank()
      : TrainingTest(
            "model = { name = \"gpt\", layers = 1, heads = 1, width = 8, context = 8 }\n"
            "data = { name = \"text\" }\nbatch = { global = 8 }\n"
            "run = { steps = 1000000, evaluate_every = 0 }\n") {}
};

TEST_F(HealthOfARank, IsServedWithoutALauncher) {
  const int port = free_loopback_port();
  const std::string saves = "save.folder=" + (folder_ / "kept").string();
  const pid_t pid =
      start_weft(train({"--health-port", std::to_string(port), "--set", saves}), folder_.path(), {.deadline_s = 60});
  std::string answer;
  const auto says = [&](const std::string& path, const std::string& text) {
    return wait_until([&] { return (answer = answer_of(port, path)).find(text) != std::string::npos; }, 20.0);
  };
  EXPECT_TRUE(says("/healthz", "ok: running, 1 rank, ")) << answer;
  EXPECT_TRUE(says("/metrics", "weft_local_ranks{run=\"r\",job=")) << answer;
  EXPECT_TRUE(wait_until([&] { return answer_of(port, "/livez").find(", 0 steps done") == std::string::npos; }, 20.0));
  EXPECT_TRUE(says("/metrics", "weft_seconds_without_step{")) << answer;
  for (const char* metric :
       {"weft_loss{", "weft_learning_rate{", "weft_samples_done{", "weft_tokens_done{", "weft_memory_bytes{"}) {
    EXPECT_TRUE(says("/metrics", metric)) << metric << " in " << answer;
  }
  kill(pid, SIGTERM);
  EXPECT_EQ(wait_for(pid, 30.0), 75);
}

}  // namespace
}  // namespace weft::health_test
