#include "weft/train/check/host_checks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <vector>

#include "weft/base/cores.h"
#include "weft/base/file_descriptor.h"
#include "weft/base/file_io.h"
#include "weft/base/units.h"

namespace weft {

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kRankBytes = 512 * kMiB;     ///< a rank's process without its tensors
constexpr int64_t kSharedBytes = 1024 * kMiB;  ///< of /dev/shm, as docs/kubernetes.md asks for NCCL

/// The number after `name` in lines such as "MemAvailable:  1234 kB", in bytes; -1 without such a line.
int64_t memory_figure(const std::string& path, const std::string& name) {
  std::ifstream in(path);
  for (std::string word; in >> word;) {
    int64_t kib = 0;
    if (word == name && in >> kib) return kib << 10;
  }
  return -1;
}

int64_t number_in(const std::string& path) {
  std::ifstream in(path);
  int64_t value = -1;
  in >> value;
  return in ? value : -1;  // "max" is no number
}

/// Bytes left in the control group whose files are at the root of a container; unlimited elsewhere.
int64_t left_in_group(const std::string& root) {
  const int64_t most = number_in(root + "/memory.max"), used = number_in(root + "/memory.current");
  return most < 0 || used < 0 ? std::numeric_limits<int64_t>::max() : std::max<int64_t>(most - used, 0);
}

rlimit limit_of(__rlimit_resource resource) {
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  getrlimit(resource, &limit);
  return limit;
}

std::string limit_text(rlim_t limit) { return limit == RLIM_INFINITY ? "unlimited" : fmt::to_string(limit); }

bool has_entries(const std::string& folder) {
  std::error_code error;
  return !std::filesystem::is_empty(folder, error) && !error;
}

/// Why a file cannot be written in the folder; empty if it can.
std::string why_not_written(const std::string& folder) {
  const std::string path = fmt::format("{}/weft_check_{}", folder, ::getpid());
  const FileDescriptor file(::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (file.get() < 0) return std::strerror(errno);
  ::unlink(path.c_str());
  const std::vector<char> bytes(kMiB, 'w');
  if (!write_all(file.get(), bytes.data(), kMiB)) return std::strerror(errno);
  std::vector<char> back(kMiB);
  return read_all(file.get(), 0, back.data(), kMiB) == kMiB && back == bytes ? "" : "it returns other bytes than were written";
}

}  // namespace

CheckLine check_cores(const HostNeeds& needs) {
  const int cores = available_cores(), threads = needs.ranks * needs.threads;
  std::string text =
      fmt::format("{} for {} of {}", counted(cores, "core"), counted(needs.ranks, "rank"), counted(needs.threads, "thread"));
  if (threads > cores) text += "; they share cores, which is slow";
  return check_ok("cores", text);
}

CheckLine check_host_memory(const HostNeeds& needs, const HostFiles& files) {
  const int64_t total = memory_figure(files.memory, "MemTotal:"), available = memory_figure(files.memory, "MemAvailable:");
  if (total < 0 || available < 0) return not_checked("memory", files.memory + " does not tell it");
  const int64_t in_group = left_in_group(files.cgroup), left = std::min(available, in_group);
  const std::string text = fmt::format("{} available of {}{}", format_bytes(left), format_bytes(total),
                                       in_group < available ? ", by the control group's limit (memory.max)" : "");
  if (left >= needs.ranks * kRankBytes) return check_ok("memory", text);
  return check_failed("memory",
                      fmt::format("{}, but {} need {} before their tensors", text, counted(needs.ranks, "rank"),
                                  format_bytes(needs.ranks * kRankBytes)),
                      "end other processes, raise the container's limit, or start fewer ranks");
}

CheckLine check_limits(const HostNeeds& needs, const HostFiles& files) {
  const auto ranks = static_cast<rlim_t>(needs.ranks);
  const rlim_t files_needed = 64 + 8 * ranks;                                              // as launch/rank_limits.cpp
  const rlim_t processes_needed = 16 + ranks * (16 + static_cast<rlim_t>(needs.threads));  // threads count too
  const rlim_t open_files = limit_of(RLIMIT_NOFILE).rlim_max, processes = limit_of(RLIMIT_NPROC).rlim_cur;
  const rlim_t locked = limit_of(RLIMIT_MEMLOCK).rlim_cur;
  std::vector<std::string> causes, advice;
  const auto require = [&](const char* what, rlim_t actual, rlim_t needed, const char* option) {
    if (actual >= needed) return;
    causes.push_back(
        fmt::format("{} are limited to {}, but {} need about {}", what, actual, counted(needs.ranks, "rank"), needed));
    advice.emplace_back(option);
  };
  require("open files", open_files, files_needed, "ulimit -Hn");
  require("processes", processes, processes_needed, "ulimit -u");
  if (locked != RLIM_INFINITY && has_entries(files.infiniband)) {
    causes.push_back(fmt::format("locked memory is limited to {}, but InfiniBand registers buffers",
                                 format_bytes(static_cast<int64_t>(locked))));
    advice.emplace_back("ulimit -l unlimited");
  }
  if (!causes.empty()) {
    return check_failed("limits", fmt::format("{}", fmt::join(causes, "; ")),
                        fmt::format("raise {} (/etc/security/limits.conf, LimitNOFILE= of a service, docker --ulimit)",
                                    fmt::join(advice, " and ")));
  }
  return check_ok("limits",
                  fmt::format("open files {}, processes {}, locked memory {}", limit_text(open_files), limit_text(processes),
                              locked == RLIM_INFINITY ? "unlimited" : format_bytes(static_cast<int64_t>(locked))));
}

CheckLine check_shared_memory(const HostNeeds& needs, const HostFiles& files) {
  const std::string& path = files.shared_memory;
  struct statvfs status {};
  const bool is_there = ::statvfs(path.c_str(), &status) == 0;
  const int64_t room = is_there ? static_cast<int64_t>(status.f_bavail * status.f_frsize) : 0;
  std::string cause = is_there ? why_not_written(path) : std::strerror(errno);
  if (!cause.empty()) {
    cause = "cannot be written: " + cause;
  } else if (room < kSharedBytes) {
    cause = fmt::format("{} free, but NCCL needs {}", format_bytes(room), format_bytes(kSharedBytes));
  }
  if (cause.empty()) return check_ok("/dev/shm", fmt::format("{} free, writable", format_bytes(room)));
  if (!needs.on_gpus) return not_checked("/dev/shm", fmt::format("{}; ranks on CPUs do not use it", cause));
  return check_failed("/dev/shm", cause, "mount a tmpfs of 1 GiB or more there (docker --shm-size 1g)");
}

std::vector<CheckLine> check_host(const HostNeeds& needs, const HostFiles& files) {
  return {check_cores(needs), check_host_memory(needs, files), check_limits(needs, files), check_shared_memory(needs, files)};
}

}  // namespace weft
