// Checks of a host, its clocks and GPUs: each fault, made here, fails with a cause and what to do.
#include "weft/train/check/host_checks.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "weft/train/check/cuda_facts.h"
#include "weft/train/check/device_checks.h"
#include "weft/train/check/link_checks.h"

namespace weft::host_checks_test {
namespace {

void expect(const CheckLine& line, CheckVerdict verdict, const std::string& text, const std::string& advice = "") {
  EXPECT_EQ(line.verdict, verdict) << line.text;
  EXPECT_NE(line.text.find(text), std::string::npos) << line.text;
  EXPECT_NE(line.advice.find(advice), std::string::npos) << line.advice;
  EXPECT_EQ(line.advice.empty(), verdict != CheckVerdict::failed);
}

class HostChecks : public testing::Test {
 protected:
  HostChecks() { std::filesystem::create_directories(folder_); }
  ~HostChecks() override { std::filesystem::remove_all(folder_); }
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  const std::filesystem::path folder_ = std::filesystem::temp_directory_path() / ("host_checks_" + std::to_string(::getpid()));
};

TEST_F(HostChecks, SharedMemory) {
  const auto line = [](bool on_gpus, const std::string& path) {
    return check_shared_memory({.on_gpus = on_gpus}, {.shared_memory = path});
  };
  expect(line(true, "/nonexistent"), CheckVerdict::failed, "cannot be written: No such file or directory", "--shm-size");
  expect(line(false, "/nonexistent"), CheckVerdict::not_checked, "ranks on CPUs do not use it");
  expect(line(true, "/proc/sys"), CheckVerdict::failed, "cannot be written: ", "mount a tmpfs");
  const CheckLine here = line(false, folder_.string());
  EXPECT_NE(here.verdict, CheckVerdict::failed) << here.text;
  EXPECT_TRUE(std::filesystem::is_empty(folder_)) << "the file is removed";
}

TEST_F(HostChecks, Memory) {
  HostFiles files{.memory = file("meminfo", "MemTotal: 4194304 kB\nMemFree: 1 kB\nMemAvailable:  2097152 kB\n"),
                  .cgroup = (folder_ / "none").string()};
  expect(check_host_memory({.ranks = 4}, files), CheckVerdict::ok, "2.00 GiB available of 4.00 GiB");
  expect(check_host_memory({.ranks = 5}, files), CheckVerdict::failed, "5 ranks need 2.50 GiB", "fewer ranks");
  files.cgroup = folder_.string();
  file("memory.max", "max\n");
  file("memory.current", "1073741824\n");
  expect(check_host_memory({.ranks = 4}, files), CheckVerdict::ok, "2.00 GiB");
  file("memory.max", "1610612736\n");
  expect(check_host_memory({.ranks = 4}, files), CheckVerdict::failed, "512 MiB available of 4.00 GiB, by the control group's");
  files.memory = "/nonexistent";
  expect(check_host_memory({}, files), CheckVerdict::not_checked, "/nonexistent");
}

TEST_F(HostChecks, LimitsNeedMoreForMoreRanks) {
  const HostFiles without{.infiniband = "/nonexistent"};
  expect(check_limits({.ranks = 1}, without), CheckVerdict::ok, "open files ");
  expect(check_limits({.ranks = 1 << 28}, without), CheckVerdict::failed, "open files are limited to ", "ulimit -Hn");
}

TEST_F(HostChecks, Clocks) {
  expect(clocks_line({}), CheckVerdict::not_checked, "one host");
  expect(clocks_line({{"b", 0.5, 0.001}, {"c", -0.9, 0.001}}), CheckVerdict::ok, "900 ms apart at most");
  expect(clocks_line({{"b", 0.5, 0.001}, {"c", -3.0, 0.001}}), CheckVerdict::failed, "c's clock is 3.00 s behind", "chronyd");
  expect(clocks_line({{"b", 3.0, 2.5}}), CheckVerdict::ok, "apart");  // a slow network does not make a clock wrong
}

TEST_F(HostChecks, Links) {
  std::vector<PairTime> pairs;
  for (int i = 0; i < 4; ++i) {
    for (int j = i + 1; j < 4; ++j) {
      pairs.push_back({.first = i, .second = j, .latency_s = 1e-5, .bytes_per_s = {1 << 30, 1 << 30}});
    }
  }
  const std::vector<std::string> hosts = {"a", "b", "c", "d"};
  expect(links_line(pairs, hosts), CheckVerdict::ok, "6 pairs: 1.00 GiB/s to 1.00 GiB/s, latency up to 10.0 us");
  pairs[0].bytes_per_s[1] = 1 << 28;
  expect(links_line(pairs, hosts), CheckVerdict::failed, "rank 1 on b to rank 0 on a: 256 MiB/s", "weft netcheck");
  for (PairTime& pair : pairs) pair.one_host = pair.shares_cores = true;
  expect(links_line(pairs, {4, "a"}), CheckVerdict::ok, "not compared inside hosts whose ranks share cores");
}

TEST_F(HostChecks, Gpus) {
  CudaGpu gpu{.name = "H100", .clock_mhz = 1900, .most_mhz = 1980, .reaches = {true, true}};
  CudaFacts facts{.driver = "570.1", .driver_cuda = 12080, .runtime_cuda = 12060, .nccl = "2.27.3", .gpus = {gpu, gpu}};
  const auto lines = [&](size_t used) { return cuda_lines(facts, used); };
  for (const CheckLine& line : lines(2)) EXPECT_EQ(line.verdict, CheckVerdict::ok) << line.text;
  EXPECT_EQ(cuda_versions(facts), "CUDA 12.6, driver 570.1, NCCL 2.27.3");
  expect(lines(1)[1], CheckVerdict::not_checked, "one GPU");
  facts.runtime_cuda = 13000;
  expect(lines(2)[0], CheckVerdict::failed, "driver 570.1 runs CUDA up to 12.8; LibTorch has CUDA 13.0", "newer driver");
  facts.gpus[1].reaches[0] = false;
  expect(lines(2)[1], CheckVerdict::ok, "no GPU reaches another's memory");
  facts.gpus = {gpu, gpu, gpu};
  for (CudaGpu& one : facts.gpus) one.reaches = {true, true, true};
  facts.gpus[1].reaches[0] = false;
  expect(lines(3)[1], CheckVerdict::failed, "GPUs 0 and 1 do not reach each other's memory", "ACS");
  facts.gpus[1].slowed_by = 0x41;  // idle, and heat
  facts.gpus[1].clock_mhz = 900;
  expect(lines(2)[2], CheckVerdict::failed, "GPU 1 runs at 900 of 1980 MHz because of heat", "nvidia-smi");
  facts.gpus[0].memory_errors = 3;
  expect(lines(1)[2], CheckVerdict::failed, "GPU 0 has 3 uncorrected memory errors", "replace");
  facts.gpus[0] = {.name = "?", .reaches = {true, true}};
  expect(lines(1)[2], CheckVerdict::not_checked, "NVML");
}

TEST_F(HostChecks, DeviceMemory) {
  expect(device_memory_line("cuda:0", int64_t{79} << 30, int64_t{80} << 30), CheckVerdict::ok,
         "cuda:0: 79.0 GiB free of 80.0 GiB");
  expect(device_memory_line("cuda:0", int64_t{30} << 30, int64_t{80} << 30), CheckVerdict::failed, "30.0 GiB free",
         "another process");
}

TEST_F(HostChecks, VersionsAreThoseOfTheBuild) { expect(check_versions("weft 1"), CheckVerdict::ok, "weft 1, LibTorch 2."); }

}  // namespace
}  // namespace weft::host_checks_test
