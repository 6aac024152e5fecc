#include "weft/launch/slurm/batch_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/launch/exit_status.h"
#include "weft/launch/shell_words.h"

namespace weft {

namespace {

// Time that the remaining ranks have after the first has ended, until srun ends them. Other ranks notice a failed rank at once,
// or after run.timeout_s; this covers the case in which even that fails.
constexpr int kWaitForOthers_s = 600;
constexpr int kKilledByUsr1 = 128 + 10;

/// Value of an option in an #SBATCH line, where sbatch treats a backslash as special both inside and outside quotes.
std::string option_value(std::string_view value) {
  if (shell_word(value) == value) return std::string(value);
  std::string quoted(1, '"');
  for (const char c : value) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  quoted += '"';
  return quoted;
}

std::string option_line(const std::string& option) {
  if (std::any_of(option.begin(), option.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; })) {
    throw InputError(fmt::format("{}: control characters are not allowed in an #SBATCH line", shortened(option)));
  }
  const size_t value = std::min(option.find('='), option.size() - 1) + 1;
  return fmt::format("#SBATCH {}{}\n", option.substr(0, value),
                     value < option.size() ? option_value(std::string_view(option).substr(value)) : "");
}

std::string asked_for(const BatchScript& script) {
  std::string text;
  const auto add = [&text](const std::string& option) { text += option_line(option); };
  const auto say = [&text](const std::string& comment) { text += "# " + comment + "\n"; };
  add("--job-name=" + script.job_name);
  add(fmt::format("--nodes={}", script.nodes));
  add(fmt::format("--ntasks-per-node={}", script.launcher ? 1 : script.ranks_per_node));
  if (script.cpus_per_task) add(fmt::format("--cpus-per-task={}", *script.cpus_per_task));
  for (const std::string& option : script.options) add(option);
  add("--chdir=" + script.folder);
  say("One log, which a restarted job appends to.");
  add("--output=" + (script.log.empty() ? std::string(script.array > 0 ? "%x-%A.log" : "%x-%j.log") : script.log));
  add("--open-mode=append");
  say("The ranks, not this script, get the signal before the time limit: they save and end with status 75.");
  add(fmt::format("--signal=USR1@{}", script.signal_before_s));
  say("SLURM restarts the job when a node has failed.");
  add("--requeue");
  if (script.array > 0) {
    say("One job after another; each resumes from the newest checkpoint.");
    add(fmt::format("--array=1-{}%1", script.array));
  }
  return text;
}

/// Formats the command over several lines, one option per line, as a person would.
std::string command_lines(const BatchScript& script) {
  std::vector<std::string> srun = {"srun", "--kill-on-bad-exit=0", fmt::format("--wait={}", kWaitForOthers_s)};
  // srun of SLURM 22.05 and later does not read it from the job's variables.
  if (script.cpus_per_task) srun.push_back(fmt::format("--cpus-per-task={}", *script.cpus_per_task));
  std::string text = shell_words(srun);
  if (!script.image.empty()) {
    text += " \\\n    " + shell_words({"apptainer", "exec"}) + (script.gpus ? " --nv " : " ") + shell_word(script.image);
  }
  return text + " \\\n    " + shell_words(script.command);
}

/// Shell code for a job whose ranks stopped on request. Without the limit, a job that is asked to stop right after every start
/// would be requeued forever.
std::string when_asked_to_end(const BatchScript& script) {
  if (script.array > 0) {
    return "      say 'the next job of the array continues'\n"
           "      exit \"$status\" ;;\n";
  }
  return "      if ((${SLURM_RESTART_COUNT:-0} >= requeues)); then\n"
         "        say \"not requeued: already requeued $requeues times\"\n"
         "      else\n"
         "        say 'requeued to continue'\n"
         "        scontrol requeue \"$SLURM_JOB_ID\" || say 'requeue failed: submit it again to continue'\n"
         "      fi\n"
         "      exit \"$status\" ;;\n";
}

std::string loop(const BatchScript& script) {
  const std::string end_array = script.array > 0 ? "      end_array\n" : "";
  std::string text = fmt::format("restarts={} # restarts of a failed training within a job{}\n",
                                 script.launcher ? 0 : script.restarts, script.launcher ? "; the launcher has --restarts" : "");
  if (script.array == 0) text += fmt::format("requeues={} # most requeues of a job that ran out of time\n", script.requeues);
  text +=
      "failures=0\n"
      "until train; do\n"
      "  status=$?\n"
      "  case $status in\n";
  text += fmt::format("    {} | {}) # saved; or stopped before there was anything to save\n", kSavedAndStopped, kKilledByUsr1);
  text += when_asked_to_end(script);
  text += fmt::format("    2 | {}) # a command line error or a loss that is not finite: would recur\n", kDiverged);
  text += end_array;
  text +=
      "      exit \"$status\" ;;\n"
      "  esac\n"
      "  say \"failed with status $status\"\n"
      "  ((++failures <= restarts)) || exit \"$status\"\n"
      "done\n";
  return script.array > 0 ? text + "end_array\n" : text;
}

}  // namespace

std::string batch_script(const BatchScript& script) {
  std::string text = "#!/bin/bash\n# " + printable(script.title) + "\n" + asked_for(script);
  text +=
      "set -u\n"
      "\n"
      "# The job's secret: its ranks drop connections that cannot prove they know it.\n"
      "WEFT_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \\n')\n"
      "export WEFT_TOKEN\n";
  if (script.cpus_per_task && !script.launcher) text += fmt::format("export OMP_NUM_THREADS={}\n", *script.cpus_per_task);
  text +=
      "\n"
      "say() { echo \"job $SLURM_JOB_ID, start ${SLURM_RESTART_COUNT:-0}: $*\"; }\n"
      "\n"
      "train() {\n  " +
      command_lines(script) + "\n}\n\n";
  if (script.array > 0) {
    text +=
        "# Cancels the waiting jobs, which have nothing left to do.\n"
        "end_array() { scancel --state=PENDING \"$SLURM_ARRAY_JOB_ID\"; }\n\n";
  }
  return text + "say \"on $SLURM_JOB_NODELIST\"\n" + loop(script);
}

}  // namespace weft
