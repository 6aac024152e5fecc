#include "weft/base/cores.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

#include "weft/base/environment.h"
#include "weft/base/error.h"
#include "weft/base/parse_number.h"
#include "weft/base/printable.h"

namespace weft {

namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

double number_in(const std::string& path) {
  std::ifstream in(path);
  double value = -1.0;
  in >> value;
  return in ? value : -1.0;
}

/// Version 2: "<quota> <period>" or "max <period>" in cpu.max.
double quota_v2(const std::string& folder) {
  std::ifstream in(folder + "/cpu.max");
  double quota = 0.0, period = 0.0;
  return (in >> quota >> period) && quota > 0 && period > 0 ? quota / period : kUnlimited;
}

/// Version 1: a quota of -1 means unlimited.
double quota_v1(const std::string& folder) {
  const double quota = number_in(folder + "/cpu.cfs_quota_us"), period = number_in(folder + "/cpu.cfs_period_us");
  return quota > 0 && period > 0 ? quota / period : kUnlimited;
}

/// Smallest quota from the group up to the root. Inside a container the path may not exist below the root; then the root is the
/// group itself.
double smallest_quota(const std::string& root, std::string path, double (*quota)(const std::string&)) {
  double smallest = quota(root);
  while (path.size() > 1) {
    smallest = std::min(smallest, quota(root + path));
    path.resize(path.rfind('/'));
  }
  return smallest;
}

double cgroup_quota(const CgroupFiles& files) {
  double smallest = kUnlimited;
  std::ifstream in(files.membership);
  for (std::string line; std::getline(in, line);) {  // "<id>:<controllers>:<path>"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos || second + 1 >= line.size() || line[second + 1] != '/') continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") smallest = std::min(smallest, smallest_quota(files.root, path, quota_v2));
    if (controllers.find(",cpu,") != std::string::npos) {
      smallest = std::min(smallest, smallest_quota(files.root + "/cpu", path, quota_v1));
    }
  }
  return smallest;
}

}  // namespace

CoreSet affinity() {
  CoreSet cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  const bool is_known = sched_getaffinity(0, sizeof set, &set) == 0;  // else the host has more cores than the set can hold
  const size_t on_host = std::thread::hardware_concurrency();
  for (size_t i = 0; i < cores.size(); ++i) cores[i] = is_known ? CPU_ISSET(i, &set) != 0 : i < on_host;
  return cores;
}

int available_cores(const CgroupFiles& files) { return available_cores(affinity(), files); }

int available_cores(const CoreSet& cores, const CgroupFiles& files) {
  return std::max(1, static_cast<int>(std::min(static_cast<double>(cores.count()), std::floor(cgroup_quota(files)))));
}

std::optional<int> omp_num_threads() {
  const std::optional<std::string> text = env_string("OMP_NUM_THREADS");
  if (!text) return std::nullopt;
  std::istringstream levels(*text + ',');
  std::optional<int> first;
  for (std::string level; std::getline(levels, level, ',');) {
    const size_t begin = level.find_first_not_of(" \t"), end = level.find_last_not_of(" \t");
    const auto threads =
        begin == std::string::npos ? std::nullopt : parse_number<int>(std::string_view(level).substr(begin, end - begin + 1));
    if (!threads) {
      throw InputError(
          fmt::format("environment variable OMP_NUM_THREADS='{}' is not a number of threads or a list like "
                      "4,2; correct or unset it",
                      shortened(*text)));
    }
    if (!first) first = std::max(1, *threads);
  }
  return first;
}

int threads_per_rank(int cores, int local_ranks) { return std::max(1, cores / std::max(1, local_ranks)); }

}  // namespace weft
