#include "weft/comm/rank_environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstddef>

#include "weft/base/environment.h"
#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/base/interfaces.h"
#include "weft/base/parse_number.h"
#include "weft/base/printable.h"
#include "weft/base/slurm_step.h"

namespace weft {

namespace {

bool is_loopback(const std::string& host) { return host == "localhost" || is_loopback_address(host); }

/// "127.0.0.1:41234/29500" comes from the launcher that set MASTER_PORT=29500. Ranks that another program started inside one of
/// its ranks have another MASTER_PORT, and meet elsewhere.
std::optional<Rendezvous> served_by_launcher(int master_port) {
  const auto text = env_string("WEFT_STORE");
  if (!text) return std::nullopt;
  const size_t slash = text->rfind('/'), colon = text->rfind(':', slash);
  const auto refuse = [&] {
    return InputError(fmt::format("WEFT_STORE=\"{}\": expected ADDRESS:PORT/MASTER_PORT", shortened(*text)));
  };
  if (slash == std::string::npos || colon == std::string::npos) throw refuse();
  const auto port = parse_number<int>(std::string_view(*text).substr(colon + 1, slash - colon - 1));
  const auto belongs_to = parse_number<int>(std::string_view(*text).substr(slash + 1));
  if (!port || !belongs_to || *port < 0) throw refuse();
  if (*belongs_to != master_port) return std::nullopt;
  return Rendezvous{Rendezvous::Server::launcher, text->substr(0, colon), *port, true};
}

/// Variables set by torchrun, or by hand.
std::optional<RankEnvironment> of_torchrun() {
  const auto rank = env_count("RANK"), size = env_count("WORLD_SIZE");
  if (!rank && !size) return std::nullopt;
  if (!rank || !size) {
    throw InputError(fmt::format("{} is set in the environment but {} is not: set both, or neither for one rank",
                                 rank ? "RANK" : "WORLD_SIZE", rank ? "WORLD_SIZE" : "RANK"));
  }
  const auto local_size = env_count("LOCAL_WORLD_SIZE");
  return RankEnvironment{*rank, *size, env_count("LOCAL_RANK"), local_size, local_size == size};
}

// Outside the kernel's ephemeral range and the range for SLURM steps (base/slurm_step.cpp).
constexpr int kFirstMpiPort = 28000, kMpiPorts = 4000;

/// Names of the variables in one MPI implementation.
struct MpiNames {
  const char *rank, *size, *local_rank, *local_size;
};

std::optional<RankEnvironment> of_mpi(const MpiNames& names, const std::string& job) {
  const auto rank = env_count(names.rank), size = env_count(names.size);
  if (!rank && !size) return std::nullopt;
  if (!rank || !size) {
    throw InputError(
        fmt::format("{} is set in the environment but {} is not: start ranks with mpirun, or set RANK and "
                    "WORLD_SIZE for each",
                    rank ? names.rank : names.size, rank ? names.size : names.rank));
  }
  const auto local_size = env_count(names.local_size);
  RankEnvironment mine{*rank, *size, env_count(names.local_rank), local_size, local_size == size};
  if (mine.one_host) mine.address = "127.0.0.1";
  mine.port = kFirstMpiPort + static_cast<int>(fnv1a(job) % kMpiPorts);
  mine.token = "mpi " + job;
  return mine;
}

/// mpirun numbers its jobs; its processes get the number from PMIx.
std::optional<RankEnvironment> of_open_mpi() {
  const auto job = env_string("PMIX_NAMESPACE");
  return of_mpi({"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                job.value_or(fmt::format("user {}", ::geteuid())));
}

/// Hydra, which starts the processes of MPICH and Intel MPI, gives them nothing unique to the job.
std::optional<RankEnvironment> of_mpich() {
  return of_mpi({"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}, fmt::format("user {}", ::geteuid()));
}

std::optional<RankEnvironment> of_slurm() {
  const auto step = slurm_step();
  if (!step) return std::nullopt;
  RankEnvironment mine{step->task, step->num_tasks, step->local_task, {}, step->hosts.size() == 1};
  if (!step->tasks_of_host.empty()) mine.local_size = step->tasks_of_host[static_cast<size_t>(step->node)];
  mine.address = step->address();
  mine.port = step->port();
  mine.token = step->token();
  return mine;
}

/// mpirun may start its daemons by srun, whose variables then reach its ranks, so MPI's take precedence. But if srun itself
/// sets MPI's variables (--mpi=pmi2, pmix), both agree, and SLURM's say more.
std::optional<RankEnvironment> of_cluster() {
  if (auto mine = of_open_mpi()) return mine;
  auto of_pmi = of_mpich();
  auto of_step = of_slurm();
  if (of_pmi && !(of_step && of_step->rank == of_pmi->rank && of_step->size == of_pmi->size)) return of_pmi;
  if (!of_step && env_string("PMIX_RANK")) {
    throw InputError(
        fmt::format("PMIX_RANK={} is set, but the number of ranks is unknown: start them with mpirun or srun, "
                    "or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT for each",
                    shortened(*env_string("PMIX_RANK"))));
  }
  return of_step;
}

}  // namespace

std::optional<RankEnvironment> rank_environment() {
  auto mine = of_torchrun();
  if (!mine) mine = of_cluster();
  if (!mine) return std::nullopt;
  if (mine->size < 1 || mine->rank >= mine->size) {
    throw InputError(
        fmt::format("RANK={} with WORLD_SIZE={}: the rank must be below the world's size", mine->rank, mine->size));
  }
  if (mine->local_rank && mine->local_size && *mine->local_rank >= *mine->local_size) {
    throw InputError(fmt::format("LOCAL_RANK={} with LOCAL_WORLD_SIZE={}: the rank must be below the size", *mine->local_rank,
                                 *mine->local_size));
  }
  if (const auto token = env_string("WEFT_TOKEN")) mine->token = *token;
  return mine;
}

Rendezvous rendezvous_from_environment(const RankEnvironment& ranks) {
  const std::string address = env_string("MASTER_ADDR").value_or(ranks.address);
  if (address.empty() && ranks.port) {
    throw InputError(
        fmt::format("{} ranks on several hosts, but MASTER_ADDR is not set: it is the host that rank 0 runs on "
                    "(mpirun -x MASTER_ADDR=HOST, or -genv MASTER_ADDR HOST)",
                    ranks.size));
  }
  auto port = env_count("MASTER_PORT");
  if (ranks.port && env_count("WEFT_PORT")) port = env_count("WEFT_PORT");
  if (!port) port = ranks.port;
  if (address.empty() || !port) {
    throw InputError(fmt::format("WORLD_SIZE={} but {} is not set: it says where rank 0 serves the store", ranks.size,
                                 address.empty() ? "MASTER_ADDR" : "MASTER_PORT"));
  }
  if (*port < 1 || *port > 65535) throw InputError(fmt::format("MASTER_PORT={}: not a TCP port", *port));
  if (const auto launcher = served_by_launcher(*port)) return *launcher;
  if (env_string("TORCHELASTIC_USE_AGENT_STORE") == "True") return {Rendezvous::Server::agent, address, *port, false};
  const bool loopback = ranks.one_host || is_loopback(address);
  return {Rendezvous::Server::rank_zero, loopback ? "127.0.0.1" : address, *port, loopback};
}

Rendezvous rendezvous_at(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  const std::string digits = colon == std::string::npos ? "" : address.substr(colon + 1);
  const int port = parse_number<int>(digits).value_or(0);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty() || port < 1 || port > 65535) {
    throw InputError(fmt::format("'{}' is not an address for ranks to meet at: expected HOST:PORT, such as \"node0:29500\"",
                                 shortened(address)));
  }
  const bool loopback = is_loopback(host);
  return {Rendezvous::Server::rank_zero, loopback ? "127.0.0.1" : host, port, loopback};
}

std::string key_prefix_from_environment() {
  if (const auto restart = env_count("WEFT_RESTART")) return fmt::format("weft/{}/", *restart);
  return fmt::format("weft/{}/", env_count("TORCHELASTIC_RESTART_COUNT").value_or(0));
}

}  // namespace weft
