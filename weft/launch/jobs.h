// Jobs: programs that run to completion on this host, several at once if wanted, each in its own process group and with its own
// log. Like ranks, they die with this process, however it dies (launch/guardian.h).
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace weft {

/// A program to run.
struct Job {
  std::vector<std::string> command;      ///< argv
  std::vector<std::string> environment;  ///< "KEY=value", in addition to this process's
  std::string log;                       ///< file for standard output and error; truncated
};

/// How a job ended.
struct JobEnd {
  int status = 0;            ///< exit status, or 128 + signal
  bool interrupted = false;  ///< ended after a signal to this process had stopped all jobs
};

/// Options of run_jobs().
struct JobOptions {
  int side_by_side = 1;                                            ///< most jobs at once
  double grace_s = 10.0;                                           ///< time for jobs to end after a signal
  std::function<void(size_t job)> on_start = {};                   ///< called with the index of a started job
  std::function<void(size_t job, const JobEnd& end)> on_end = {};  ///< called with the index of a finished job
};

/// Starts all jobs in order, whatever the exit statuses of earlier ones. On SIGINT, SIGTERM, SIGHUP or SIGUSR1, ends the
/// running jobs with SIGTERM and starts no more; a second signal kills them. Returns 0, or that signal, after the last job has
/// ended. If a program cannot be run or a log cannot be written, ends the others and throws InputError.
int run_jobs(const std::vector<Job>& jobs, const JobOptions& options = {});

}  // namespace weft
