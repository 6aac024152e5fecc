// Damaged inputs of every kind: each is accepted, or refused in one clear line; none crashes (best seen with the asan preset)
// or takes over 20 s of CPU time or 2 GiB. WEFT_FUZZ=100000 sets the number of cases in all; WEFT_SEED=17 runs one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/fuzz/inputs.h"
#include "tests/fuzz/watched.h"

namespace weft {
namespace {

class Folder {
 public:
  Folder() {
    char path[] = "/tmp/weft_fuzz_XXXXXX";
    if (mkdtemp(path) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = path;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class Fuzz : public ::testing::TestWithParam<int> {};

/// Files that hold programs have three times the others' cases.
unsigned num_cases(fuzz::Kind kind) {
  constexpr unsigned kShares = fuzz::kNumKinds + 2 * 3;
  const bool is_program = kind >= fuzz::Kind::exported_archive;
  return test::fuzz_cases(30 * kShares) / kShares * (is_program ? 3 : 1);
}

TEST_P(Fuzz, damaged_inputs_are_refused_in_one_line) {
  const auto kind = static_cast<fuzz::Kind>(GetParam());
  const Folder folder;
  const auto failures = fuzz::run_watched(test::seeds(num_cases(kind)), [&](unsigned seed) {
    test::Random random(seed * fuzz::kNumKinds + static_cast<unsigned>(kind));
    return fuzz::try_damaged(kind, folder.path(), random);
  });
  for (const fuzz::Failure& failure : failures) {
    ADD_FAILURE() << name(kind) << ": " << failure.what << "\n" << test::replay(failure.seed);
  }
}

INSTANTIATE_TEST_SUITE_P(Inputs, Fuzz, ::testing::Range(0, fuzz::kNumKinds));

TEST(WatchedRun, crashes_hangs_and_memory_are_noted_and_the_rest_continues) {
  const auto failures = fuzz::run_watched(test::seeds(6),
                                          [](unsigned seed) -> std::string {
                                            if (seed == 1) std::abort();
                                            if (seed == 2) {
                                              for (;;) {
                                              }
                                            }
                                            if (seed == 4) return "wrong";
                                            return {};
                                          },
                                          20, {.cpu_s = 0.3, .bytes = int64_t{8} << 30});
  ASSERT_EQ(failures.size(), 3U);
  EXPECT_EQ(failures[0].seed, 1U);
  EXPECT_NE(failures[0].what.find("wait status"), std::string::npos);
  EXPECT_EQ(failures[1].seed, 2U);
  EXPECT_NE(failures[1].what.find("computes for more than"), std::string::npos);
  EXPECT_EQ(failures[2].seed, 4U);
  EXPECT_EQ(failures[2].what, "wrong");
}

TEST(WatchedRun, only_printable_text_is_a_line) {
  for (const char* good : {"a", "käse 🧶", "'\\x1b'"}) EXPECT_EQ(fuzz::line_problem(good), "") << good;
  for (const char* bad : {"", "a\nb", "a\x1b[31m", "\xff", "\xc3", "\xed\xa0\x80", "\x7f", "std::bad_alloc", "\xc2\x85"}) {
    EXPECT_NE(fuzz::line_problem(bad), "") << bad;
  }
  EXPECT_NE(fuzz::line_problem(std::string(5000, 'a')), "");
}

}  // namespace
}  // namespace weft
