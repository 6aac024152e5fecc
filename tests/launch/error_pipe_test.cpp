// Error pipe: the launcher reads what a rank reports, regardless of other writes and variables.
#include "weft/launch/error_pipe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "weft/base/monotonic.h"

namespace weft {
namespace {

class ErrorPipeTest : public testing::Test {
 protected:
  void announce(int fd, const char* rank = "3") {
    setenv("WEFT_ERROR_FD", std::to_string(fd).c_str(), 1);
    setenv("RANK", rank, 1);
  }
  /// Sets the variables as a launcher does.
  void announce(const ErrorPipe& pipe, const char* rank = "3") {
    for (const std::string& variable : pipe.environment()) {
      const size_t mark = variable.find('=');
      setenv(variable.substr(0, mark).c_str(), variable.substr(mark + 1).c_str(), 1);
    }
    setenv("RANK", rank, 1);
  }
  void TearDown() override {
    unsetenv("WEFT_ERROR_FD");
    unsetenv("WEFT_ERROR_PIPE");
    unsetenv("RANK");
  }
};

TEST_F(ErrorPipeTest, MessageArrivesWholeWithRankTimeAndBlame) {
  ErrorPipe pipe;
  announce(pipe);
  const int64_t before = monotonic_ns();
  ASSERT_TRUE(report_error("loss is nan\nat step 3"));
  ASSERT_TRUE(report_error("rank 1 died", Blame::peer, 1, 4));
  ASSERT_TRUE(report_error("calls do not match", Blame::peer));
  const std::vector<RankError> errors = pipe.receive();
  ASSERT_EQ(errors.size(), 3u);
  EXPECT_EQ(errors[0].text, "loss is nan at step 3");
  EXPECT_EQ(errors[0].rank, 3);
  EXPECT_EQ(errors[0].blame, Blame::self);
  EXPECT_GE(errors[0].time_ns, before);
  EXPECT_LE(errors[0].time_ns, errors[1].time_ns);
  EXPECT_EQ(errors[1].blame, Blame::peer);
  EXPECT_EQ(errors[0].culprit, -1);
  EXPECT_EQ(errors[1].culprit, 1);
  EXPECT_EQ(errors[1].text, "rank 1 died");
  EXPECT_EQ(errors[0].status, 1);
  EXPECT_EQ(errors[1].status, 4);
  EXPECT_EQ(errors[2].blame, Blame::peer);
  EXPECT_EQ(errors[2].culprit, -1);
  EXPECT_TRUE(pipe.receive().empty());
}

TEST_F(ErrorPipeTest, WithoutAPipeTheCallerPrints) {
  EXPECT_FALSE(report_error("no launcher"));
  announce(4000);  // not an open descriptor
  EXPECT_FALSE(report_error("closed"));
  const FileDescriptor file(open("/dev/null", O_WRONLY));
  announce(file.get());
  EXPECT_FALSE(report_error("a file that took the number"));
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const FileDescriptor users(ends[0]), end(ends[1]);
  announce(end.get());
  EXPECT_FALSE(report_error("a pipe that took the number"));
  char byte = 0;
  EXPECT_EQ(read(users.get(), &byte, 1), -1) << "nothing is written";
  ErrorPipe pipe;
  announce(pipe.write_end());
  EXPECT_FALSE(report_error("a pipe of nobody's"));
  announce(pipe);
  EXPECT_TRUE(report_error("this one's"));
  announce(end.get());
  EXPECT_FALSE(report_error("another than the one of that number"));
  announce(2);
  EXPECT_FALSE(report_error("never stderr"));
}

TEST_F(ErrorPipeTest, LongTextsAreCutAndRanksDoNotMix) {
  ErrorPipe pipe;
  announce(pipe);
  std::vector<std::thread> writers;
  for (char letter = 'a'; letter < 'e'; ++letter) {
    writers.emplace_back([letter] {
      for (int i = 0; i < 3; ++i) report_error(std::string(10'000, letter));
    });
  }
  for (std::thread& writer : writers) writer.join();
  const std::vector<RankError> errors = pipe.receive();
  ASSERT_EQ(errors.size(), 12u);
  for (const RankError& error : errors) {
    EXPECT_GT(error.text.size(), 4000u);
    EXPECT_EQ(error.text, std::string(error.text.size(), error.text[0]));
  }
}

TEST_F(ErrorPipeTest, ForeignTextIsIgnored) {
  ErrorPipe pipe;
  announce(pipe);
  const std::string noise = "hello\n12 x self y\n12 0 nobody z\n\n";
  ASSERT_EQ(write(pipe.write_end(), noise.data(), noise.size()), static_cast<ssize_t>(noise.size()));
  report_error("real");
  const std::vector<RankError> errors = pipe.receive();
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].text, "real");
}

}  // namespace
}  // namespace weft
