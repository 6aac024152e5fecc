// Cores: quotas of both versions of control groups, in a simulated folder.
#include "weft/base/cores.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "tests/support/refusal.h"

namespace weft {
namespace {

class CgroupFolder {
 public:
  explicit CgroupFolder(const std::map<std::string, std::string>& files) {
    std::string name = (std::filesystem::temp_directory_path() / "weft_cgroup_XXXXXX").string();
    folder_ = mkdtemp(name.data());
    for (const auto& [path, text] : files) {
      std::filesystem::create_directories((folder_ / path).parent_path());
      std::ofstream(folder_ / path) << text;
    }
  }
  ~CgroupFolder() { std::filesystem::remove_all(folder_); }
  CgroupFiles files() const { return {.membership = (folder_ / "self").string(), .root = (folder_ / "fs").string()}; }

 private:
  std::filesystem::path folder_;
};

struct Case {
  const char* what;
  std::map<std::string, std::string> files;
  int quota;  ///< 0: no quota
};

TEST(Cores, QuotaLimitsTheAffinityMask) {
  const std::string v2 = "0::/a/b\n", v1 = "4:memory:/x\n2:cpu,cpuacct:/a/b\n1:cpuset:/\n";
  const Case cases[] = {
      {"no files", {}, 0},
      {"v2 without a limit", {{"self", v2}, {"fs/a/b/cpu.max", "max 100000\n"}}, 0},
      {"v2 one core", {{"self", v2}, {"fs/a/b/cpu.max", "100000 100000\n"}}, 1},
      {"v2 a share of a core", {{"self", v2}, {"fs/a/b/cpu.max", "20000 100000\n"}}, 1},
      {"v2 limit of the group above", {{"self", v2}, {"fs/a/cpu.max", "100000 100000"}, {"fs/a/b/cpu.max", "max 100000"}}, 1},
      {"v2 in a container that sees its own group as root", {{"self", v2}, {"fs/cpu.max", "150000 100000\n"}}, 1},
      {"v2 more than available", {{"self", v2}, {"fs/a/b/cpu.max", "100000000 100000\n"}}, 0},
      {"v1 without a limit",
       {{"self", v1}, {"fs/cpu/a/b/cpu.cfs_quota_us", "-1"}, {"fs/cpu/a/b/cpu.cfs_period_us", "100000"}},
       0},
      {"v1 one core", {{"self", v1}, {"fs/cpu/a/b/cpu.cfs_quota_us", "100000"}, {"fs/cpu/a/b/cpu.cfs_period_us", "100000"}}, 1},
      {"malformed text", {{"self", "\n:\n::\n0::\n"}, {"fs/cpu.max", "x"}}, 0},
  };
  const int unlimited = available_cores({.membership = "/nonexistent", .root = "/nonexistent"});
  ASSERT_GE(unlimited, 1);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    const CgroupFolder folder(c.files);
    EXPECT_EQ(available_cores(folder.files()), c.quota == 0 ? unlimited : c.quota);
  }
}

TEST(Cores, OfSeveralProcesses) {
  CoreSet cores;
  cores.set(3);
  cores.set(70);
  EXPECT_EQ(available_cores(cores, {.membership = "/nonexistent", .root = "/nonexistent"}), 2);
  EXPECT_EQ(available_cores(CoreSet(), {.membership = "/nonexistent", .root = "/nonexistent"}), 1);
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  const int core = sched_getcpu();
  CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const CoreSet bound = affinity();
  sched_setaffinity(0, sizeof before, &before);
  EXPECT_EQ(bound.count(), 1U);
  EXPECT_TRUE(bound[static_cast<size_t>(core)]);
}

TEST(Cores, OmpThreadsMayBeGivenPerLevel) {
  const auto threads_from = [](const char* text) {
    setenv("OMP_NUM_THREADS", text, 1);
    const std::optional<int> threads = omp_num_threads();
    unsetenv("OMP_NUM_THREADS");
    return threads;
  };
  EXPECT_EQ(threads_from(""), std::nullopt);
  EXPECT_EQ(threads_from("3"), 3);
  EXPECT_EQ(threads_from("0"), 1);
  EXPECT_EQ(threads_from("2,1"), 2);
  EXPECT_EQ(threads_from(" 4 , 3,2"), 4);
  for (const char* text : {"two", "2,", ",2", "2,x", "2;1", "1.5", ","}) {
    SCOPED_TRACE(text);
    const std::string why = test::refusal([&] { threads_from(text); });
    unsetenv("OMP_NUM_THREADS");
    EXPECT_EQ(why.find("environment variable OMP_NUM_THREADS='"), 0u) << why;
  }
}

TEST(Cores, ThreadsPerRankAreAtLeastOne) {
  EXPECT_EQ(threads_per_rank(8, 2), 4);
  EXPECT_EQ(threads_per_rank(8, 3), 2);
  EXPECT_EQ(threads_per_rank(2, 4), 1);
  EXPECT_EQ(threads_per_rank(2, 1), 2);
}

}  // namespace
}  // namespace weft
