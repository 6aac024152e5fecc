#include "weft/base/slurm_step.h"

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <string_view>

#include "weft/base/environment.h"
#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/base/host_list.h"
#include "weft/base/parse_number.h"
#include "weft/base/port_range.h"

namespace weft {

namespace {

// Ids from here on are SLURM's own: the batch script, salloc's shell, the job's container step.
constexpr int64_t kFirstOwnId = 0xfffffff0;
constexpr int kFirstPort = 23000, kPorts = 5000;

std::optional<int64_t> step_id() {
  const auto id = env_int("SLURM_STEP_ID");
  return id && *id >= 0 && *id < kFirstOwnId ? id : std::nullopt;
}

/// Returns whether this process is a task that is itself a rank, rather than a rank that a task started.
bool is_own_rank() { return step_id() && !env_string("RANK"); }

/// The first of several equivalent variables that is set: the step's or, if an older srun sets none, the job's.
struct Variable {
  std::string name;
  std::optional<std::string> value;
};

Variable first_set(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (auto value = env_string(name)) return {name, std::move(value)};
  }
  return {*names.begin(), std::nullopt};
}

int count_of(std::initializer_list<const char*> names) {
  const Variable variable = first_set(names);
  if (const auto count = env_count(variable.name.c_str())) return *count;
  throw InputError(
      fmt::format("SLURM_STEP_ID is set but {} is not: start ranks with srun, or set RANK and WORLD_SIZE", variable.name));
}

void check_hosts(const SlurmStep& step, const Variable& list, const Variable& counts) {
  if (step.task >= step.num_tasks) {
    throw InputError(fmt::format("SLURM_PROCID={} of {} tasks: must be below the number of tasks", step.task, step.num_tasks));
  }
  const size_t num_hosts = step.hosts.size();
  if (static_cast<size_t>(step.node) >= num_hosts) {
    throw InputError(fmt::format("SLURM_NODEID={}, but {} names {} hosts", step.node, list.name, num_hosts));
  }
  if (step.tasks_of_host.empty()) return;
  if (step.tasks_of_host.size() != num_hosts) {
    throw InputError(fmt::format("{} lists {} hosts but {} lists {}: both must describe the same step", counts.name,
                                 step.tasks_of_host.size(), list.name, num_hosts));
  }
  const int64_t all = std::accumulate(step.tasks_of_host.begin(), step.tasks_of_host.end(), int64_t{0});
  if (all != step.num_tasks) {
    throw InputError(fmt::format("{}={} lists {} tasks but the step has {}: both must describe the same step", counts.name,
                                 *counts.value, all, step.num_tasks));
  }
}

}  // namespace

std::string SlurmStep::address() const {
  if (const auto address = env_string("MASTER_ADDR")) return *address;
  return hosts.size() == 1 ? "127.0.0.1" : hosts.front();
}

int SlurmStep::port() const {
  for (const char* name : {"WEFT_PORT", "MASTER_PORT"}) {
    const auto port = env_count(name);
    if (!port) continue;
    if (*port < 1 || *port > 65535) throw InputError(fmt::format("{}={}: not a TCP port", name, *port));
    return *port;
  }
  const auto range = port_range();
  const int first = range ? range->first : kFirstPort;
  const auto ports = static_cast<uint64_t>(range ? range->num_meeting() : kPorts);
  const uint64_t of_job = fnv1a(fmt::format("{}/{}", job, restarts)) % ports;
  return first + static_cast<int>((of_job + static_cast<uint64_t>(step)) % ports);
}

std::string SlurmStep::token() const { return fmt::format("slurm {}/{}.{}", job, restarts, step); }

std::optional<SlurmStep> slurm_step() {
  const auto id = step_id();
  if (!id) return std::nullopt;
  if (const auto parts = env_count("SLURM_HET_SIZE"); parts && *parts > 1) {
    throw InputError(fmt::format(
        "SLURM_HET_SIZE={}: ranks of a heterogeneous job cannot find each other through SLURM's variables, because "
        "each component sets its own; use one kind of node, or give each rank RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT",
        *parts));
  }
  const auto job = first_set({"SLURM_JOB_ID", "SLURM_JOBID"}).value;
  const Variable list = first_set({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  const Variable counts = first_set({"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
  if (!job || !list.value) {
    throw InputError(fmt::format("SLURM_STEP_ID is set but {} is not: start ranks with srun, or set RANK and WORLD_SIZE",
                                 job ? list.name : "SLURM_JOB_ID"));
  }
  SlurmStep step{.job = *job,
                 .step = *id,
                 .restarts = env_count("SLURM_RESTART_COUNT").value_or(0),
                 .task = count_of({"SLURM_PROCID"}),
                 .num_tasks = count_of({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"}),
                 .local_task = count_of({"SLURM_LOCALID"}),
                 .node = count_of({"SLURM_NODEID"}),
                 .hosts = expand_host_list(list.name, *list.value)};
  if (counts.value) step.tasks_of_host = expand_counts(counts.name, *counts.value);
  check_hosts(step, list, counts);
  return step;
}

std::optional<int> slurm_cores_per_task() { return is_own_rank() ? env_count("SLURM_CPUS_PER_TASK") : std::nullopt; }

std::optional<int> slurm_gpus_per_task() {
  const auto gpus = env_string("SLURM_GPUS_PER_TASK");  // "1" or "a100:1"
  if (!is_own_rank() || !gpus) return std::nullopt;
  return parse_number<int>(std::string_view(*gpus).substr(gpus->rfind(':') + 1));
}

}  // namespace weft
