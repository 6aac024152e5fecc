#include "weft/comm/rank_environment.h"

#include <fmt/format.h>

#include "weft/base/environment.h"
#include "weft/base/error.h"
#include "weft/base/parse_number.h"
#include "weft/base/printable.h"

namespace weft {

namespace {

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0; }

/// "127.0.0.1:41234/29500": of the launcher that set MASTER_PORT=29500. Ranks that something else started inside one of its
/// ranks have another MASTER_PORT, and meet elsewhere.
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

}  // namespace

std::optional<RankEnvironment> rank_environment() {
  auto rank = env_count("RANK");
  auto size = env_count("WORLD_SIZE");
  auto local_rank = env_count("LOCAL_RANK");
  const auto local_size = env_count("LOCAL_WORLD_SIZE");
  bool one_host = size && local_size && *size == *local_size;
  if (!rank && !size) {
    rank = env_count("SLURM_PROCID");
    size = env_count("SLURM_NTASKS");
    if (!rank || !size) return std::nullopt;
    if (!local_rank) local_rank = env_count("SLURM_LOCALID");
    one_host = env_count("SLURM_NNODES") == 1;
  }
  if (!rank || !size) {
    throw InputError(fmt::format("{} is set in the environment but {} is not: set both, or neither for one rank",
                                 rank ? "RANK" : "WORLD_SIZE", rank ? "WORLD_SIZE" : "RANK"));
  }
  if (*size < 1 || *rank >= *size) {
    throw InputError(fmt::format("RANK={} with WORLD_SIZE={}: the rank must be below the world's size", *rank, *size));
  }
  if (local_rank && local_size && *local_rank >= *local_size) {
    throw InputError(
        fmt::format("LOCAL_RANK={} with LOCAL_WORLD_SIZE={}: the rank must be below the size", *local_rank, *local_size));
  }
  return RankEnvironment{*rank, *size, local_rank, local_size, one_host};
}

Rendezvous rendezvous_from_environment(const RankEnvironment& ranks) {
  const auto address = env_string("MASTER_ADDR");
  const auto port = env_count("MASTER_PORT");
  if (!address || !port) {
    throw InputError(fmt::format("WORLD_SIZE={} but {} is not set: it says where rank 0 serves the store", ranks.size,
                                 address ? "MASTER_PORT" : "MASTER_ADDR"));
  }
  if (*port < 1 || *port > 65535) throw InputError(fmt::format("MASTER_PORT={}: not a TCP port", *port));
  if (const auto launcher = served_by_launcher(*port)) return *launcher;
  if (env_string("TORCHELASTIC_USE_AGENT_STORE") == "True") return {Rendezvous::Server::agent, *address, *port, false};
  const bool loopback = ranks.one_host || is_loopback(*address);
  return {Rendezvous::Server::rank_zero, loopback ? "127.0.0.1" : *address, *port, loopback};
}

std::string key_prefix_from_environment() {
  if (const auto restart = env_count("WEFT_RESTART")) return fmt::format("weft/{}/", *restart);
  return fmt::format("weft/{}/", env_count("TORCHELASTIC_RESTART_COUNT").value_or(0));
}

}  // namespace weft
