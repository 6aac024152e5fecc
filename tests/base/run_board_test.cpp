// RunBoard: the launcher's variable is only accepted if it names a board; other files stay unchanged.
#include "weft/base/run_board.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace weft::run_board_test {
namespace {

constexpr int kRanks = 2;

/// Returns the board that the variable names, after `change` has modified its descriptors.
std::unique_ptr<RunBoard> found(const RunBoard& board, const std::function<void(const std::vector<int>&)>& change) {
  const std::string text = board.environment();
  setenv("WEFT_BOARD", text.substr(text.find('=') + 1).c_str(), 1);
  change(board.descriptors());
  std::unique_ptr<RunBoard> result = RunBoard::from_environment();
  unsetenv("WEFT_BOARD");
  return result;
}

/// Replaces a descriptor with `file`.
void replace(int descriptor, const FileDescriptor& file) { ASSERT_EQ(dup2(file.get(), descriptor), descriptor); }

TEST(RunBoard, IsFoundByItsDescriptors) {
  RunBoard launchers(kRanks);
  launchers.set_steps_done(7);
  const auto ranks = found(launchers, [](const auto&) {});
  ASSERT_TRUE(ranks);
  EXPECT_EQ(ranks->steps_done(), 7);
  EXPECT_EQ(ranks->most_ranks(), kRanks);
  ranks->set_copy(1, 1, {.step = 3, .ranks = 2});
  EXPECT_EQ(launchers.copy(1, 1).step, 3);
  EXPECT_EQ(launchers.copy(1, 0).step, -1);
  EXPECT_NE(ftruncate(launchers.descriptors()[0], 0), 0) << "its pages cannot be taken away";
}

TEST(RunBoard, OtherFilesAreRefusedAndStayUnchanged) {
  char name[] = "/tmp/weft_run_board_XXXXXX";
  const FileDescriptor disk(mkstemp(name));
  unlink(name);
  const FileDescriptor memory(memfd_create("a user's", MFD_CLOEXEC)), sealed(memfd_create("sealed", MFD_ALLOW_SEALING));
  const std::string text(4096, 'x');
  for (const FileDescriptor* file : {&disk, &memory, &sealed}) {
    ASSERT_EQ(write(file->get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  ASSERT_EQ(fcntl(sealed.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  for (const FileDescriptor* file : {&disk, &memory, &sealed}) {
    for (const size_t place : {0, 1, 2 * kRanks}) {
      SCOPED_TRACE(place);
      EXPECT_FALSE(found(RunBoard(kRanks), [&](const auto& numbers) { replace(numbers[place], *file); }));
      std::string now(text.size(), ' ');
      ASSERT_EQ(pread(file->get(), now.data(), now.size(), 0), static_cast<ssize_t>(now.size()));
      EXPECT_EQ(now, text);
    }
  }
  const RunBoard other(kRanks);
  EXPECT_FALSE(found(RunBoard(kRanks), [&](const auto& numbers) { dup2(other.descriptors()[1], numbers[1]); }))
      << "a copy of another board";
}

TEST(RunBoard, AVariableWithoutABoardIsRefused) {
  for (const char* text : {"", "x", ",", "-1", "0", "4000", "4000,4001", "99999999999999999999"}) {
    setenv("WEFT_BOARD", text, 1);
    EXPECT_FALSE(RunBoard::from_environment()) << text;
  }
  unsetenv("WEFT_BOARD");
  const RunBoard board(kRanks);
  const std::string all = board.environment();
  for (const std::string& text : {all.substr(11, all.rfind(',') - 11), all.substr(11) + ",1"}) {
    setenv("WEFT_BOARD", text.c_str(), 1);
    EXPECT_FALSE(RunBoard::from_environment()) << text << " does not list all copies";
  }
  unsetenv("WEFT_BOARD");
}

}  // namespace
}  // namespace weft::run_board_test
