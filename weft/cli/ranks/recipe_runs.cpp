#include "weft/cli/ranks/recipe_runs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "weft/base/cores.h"
#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/base/this_executable.h"
#include "weft/cli/output/output.h"
#include "weft/launch/exit_status.h"
#include "weft/launch/jobs.h"

namespace weft {

namespace {

/// Returns the last error in the log of a run that ended with that status.
std::string last_words(const std::string& log, int status) {
  const std::string prefix = "weft: ";
  std::ifstream in(log, std::ios::binary);
  std::string last;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(prefix)) last = line.substr(prefix.size());
  }
  return last.empty() ? fmt::format("exit status {}", status) : shortened(last, 500);
}

Job job_of(const RecipeRun& run) {
  Job job{.command = {this_executable(), "train", run.recipe},
          .environment = {fmt::format("OMP_NUM_THREADS={}", run.threads)},
          .log = run.log};
  for (const std::string& override : run.overrides) job.command.insert(job.command.end(), {"--set", override});
  job.command.insert(job.command.end(), {"-n", fmt::to_string(run.ranks), "--summary", run.summary});
  return job;
}

}  // namespace

int run_threads(int concurrent_ranks) {
  if (const auto threads = omp_num_threads()) return *threads;
  return threads_per_rank(available_cores(), concurrent_ranks);
}

std::string crowding_text(int concurrent_ranks) {
  const int cores = available_cores();
  if (concurrent_ranks <= cores) return {};
  return fmt::format("; {} ranks share {} core{}, which slows them down", concurrent_ranks, cores, cores == 1 ? "" : "s");
}

FileDescriptor hold_results_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw InputError(fmt::format("cannot create the folder '{}': {}", printable(path), error.message()));
  FileDescriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0 || flock(folder.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      throw InputError(fmt::format("cannot lock the folder '{}': {}", printable(path), std::strerror(errno)));
    }
    throw InputError(
        fmt::format("another command is using '{}' for its results; wait for it, or use another folder", printable(path)));
  }
  return folder;
}

int run_recipes(const std::vector<RecipeRun>& runs, int side_by_side, double save_s,
                const std::function<void(size_t run, const RecipeRunEnd& end)>& on_end) {
  std::vector<Job> jobs;
  jobs.reserve(runs.size());
  for (const RecipeRun& run : runs) jobs.push_back(job_of(run));
  const auto ended = [&](size_t job, const JobEnd& end) {
    if ((end.status != 0 && end.interrupted) || end.status == kSavedAndStopped) return;  // a later study continues it
    if (end.status == 0) return on_end(job, {});
    on_end(job, {.diverged = end.status == kDiverged, .error = last_words(runs[job].log, end.status)});
  };
  constexpr double kToEnd = 10.0;
  survive(SIGPIPE);
  return run_jobs(jobs, {.side_by_side = side_by_side, .grace_s = save_s + kToEnd, .on_end = ended});
}

}  // namespace weft
