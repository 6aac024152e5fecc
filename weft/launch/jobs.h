// Jobs: programs of this host that are run to their end, some beside each other, each in its own process group and with its own
// log. They die with this process, whatever it dies of, as ranks do (launch/guardian.h).
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace weft {

/// A program to run.
struct Job {
  std::vector<std::string> command;      ///< argv
  std::vector<std::string> environment;  ///< "KEY=value", besides this process's
  std::string log;                       ///< file for what it writes to standard output and error; begun anew
};

/// How a job ended.
struct JobEnd {
  int status = 0;            ///< its exit status, 128 + signal where one ended it
  bool interrupted = false;  ///< after a signal to this process had ended all
};

/// How jobs are run.
struct JobOptions {
  int side_by_side = 1;                                            ///< at most
  double grace_s = 10.0;                                           ///< what jobs have for ending by themselves after a signal
  std::function<void(size_t job)> on_start = {};                   ///< told as one is started, by number
  std::function<void(size_t job, const JobEnd& end)> on_end = {};  ///< told as one has ended, by number
};

/// Runs all of them, in order, whatever they end with. SIGINT, SIGTERM, SIGHUP and SIGUSR1 end those that run, with SIGTERM
/// first, and start no more; a second signal kills them. Returns 0, or that signal, once none is left. Throws InputError for a
/// program that cannot be run or a log that cannot be written, after the others were ended.
int run_jobs(const std::vector<Job>& jobs, const JobOptions& options = {});

}  // namespace weft
