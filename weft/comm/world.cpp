#include "weft/comm/world.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "weft/base/error.h"
#include "weft/comm/c10d/store_connection.h"
#include "weft/comm/rank_table.h"
#include "weft/comm/store.h"

namespace weft {

struct World::State {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::vector<std::string> hosts;
  std::optional<Store> store;
  std::atomic<int> groups = 0;
};

namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

std::optional<int> number(const char* name) {
  const auto text = variable(name);
  if (!text) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < 0) {
    throw InputError(fmt::format("{}=\"{}\" in the environment: expected a number that is not negative", name, *text));
  }
  return value;
}

std::string this_host() {
  if (const auto name = variable("WEFT_HOST")) return *name;
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

struct Place {
  int rank = 0;
  int size = 1;
  std::optional<int> local_rank;
  std::optional<int> local_size;
};

// torchrun's names first; SLURM's where RANK is unset and srun started more than one task.
std::optional<Place> place_from_environment() {
  auto rank = number("RANK");
  auto size = number("WORLD_SIZE");
  auto local_rank = number("LOCAL_RANK");
  auto local_size = number("LOCAL_WORLD_SIZE");
  if (!rank && !size) {
    rank = number("SLURM_PROCID");
    size = number("SLURM_NTASKS");
    if (!rank || !size) return std::nullopt;
    if (!local_rank) local_rank = number("SLURM_LOCALID");
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
  return Place{*rank, *size, local_rank, local_size};
}

c10::intrusive_ptr<c10d::Store> connect(const Place& place, std::chrono::milliseconds timeout) {
  const auto address = variable("MASTER_ADDR");
  const auto port = number("MASTER_PORT");
  if (!address || !port) {
    throw InputError(fmt::format("WORLD_SIZE={} but {} is not set: it says where rank 0 serves the store", place.size,
                                 address ? "MASTER_PORT" : "MASTER_ADDR"));
  }
  if (*port < 1 || *port > 65535) throw InputError(fmt::format("MASTER_PORT={}: not a TCP port", *port));
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(*port);
  options.timeout = timeout;
  options.waitWorkers = false;
  // torchrun's agent may already serve a store there; then every rank is a client.
  options.isServer = place.rank == 0 && variable("TORCHELASTIC_USE_AGENT_STORE") != "True";
  if (options.isServer) {
    if (const auto socket = number("WEFT_STORE_FD")) {
      ::fcntl(*socket, F_SETFD, FD_CLOEXEC);  // this rank's own children have no business with it
      options.masterListenFd = *socket;
    }
  }
  try {
    return c10::make_intrusive<c10d::TCPStore>(*address, options);
  } catch (const c10::Error& error) {
    throw CommError(fmt::format("rank {} of {} cannot {} the store at {}:{} within {:.1f} s: {}", place.rank, place.size,
                                options.isServer ? "serve" : "reach", *address, *port, timeout.count() / 1000.0,
                                error.what_without_backtrace()));
  }
}

// A store that outlives a restart of the ranks (torchrun's) still holds the keys of the ranks before.
std::string generation() {
  if (const auto restart = number("WEFT_RESTART")) return fmt::format("weft/{}/", *restart);
  return fmt::format("weft/{}/", number("TORCHELASTIC_RESTART_COUNT").value_or(0));
}

std::vector<std::string> exchange_hosts(Store& store, const Place& place, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  store.set(fmt::format("host/{}", place.rank), this_host());
  std::vector<std::string> hosts;
  for (int rank = 0; rank < place.size; ++rank) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    hosts.push_back(store.get(fmt::format("host/{}", rank), std::max(left, std::chrono::milliseconds(1)),
                              fmt::format("rank {} of {} waits for rank {} to start", place.rank, place.size, rank)));
  }
  return hosts;
}

}  // namespace

World::World() : state_(std::make_shared<State>()) { state_->hosts = {this_host()}; }

World::World(std::shared_ptr<State> state) : state_(std::move(state)) {}

World World::from_environment(std::chrono::milliseconds timeout) {
  const auto place = place_from_environment();
  if (!place) return World();
  auto state = std::make_shared<State>();
  state->rank = place->rank;
  state->size = place->size;
  if (place->size == 1) {
    state->hosts = {this_host()};
    return World(state);
  }
  auto connection = std::make_shared<Store::Connection>(Store::Connection{connect(*place, timeout)});
  state->store.emplace(std::move(connection), generation());
  state->hosts = exchange_hosts(*state->store, *place, timeout);
  state->store = state->store->with(RankTable::join(*state->store, place->rank, state->hosts, timeout));

  // Where the environment is silent, the ranks on this host count themselves.
  int before = 0, on_host = 0;
  for (int rank = 0; rank < place->size; ++rank) {
    if (state->hosts[rank] != state->hosts[place->rank]) continue;
    ++on_host;
    if (rank < place->rank) ++before;
  }
  state->local_rank = place->local_rank.value_or(before);
  state->local_size = place->local_size.value_or(on_host);
  return World(state);
}

std::vector<World> World::threads(int size) {
  if (size < 1) throw InputError(fmt::format("World::threads({}): at least one rank is needed", size));
  auto connection = std::make_shared<Store::Connection>(Store::Connection{c10::make_intrusive<c10d::HashStore>()});
  const std::vector<std::string> hosts(size, this_host());
  const auto tables = RankTable::threads(Store(connection, "weft/0/"), hosts);
  std::vector<World> worlds;
  for (int rank = 0; rank < size; ++rank) {
    auto state = std::make_shared<State>();
    state->rank = state->local_rank = rank;
    state->size = state->local_size = size;
    state->hosts = hosts;
    state->store = Store(connection, "weft/0/").with(tables[rank]);
    worlds.push_back(World(std::move(state)));
  }
  return worlds;
}

int World::rank() const { return state_->rank; }
int World::size() const { return state_->size; }
int World::local_rank() const { return state_->local_rank; }
int World::local_size() const { return state_->local_size; }

const std::string& World::host(int rank) const {
  if (rank < 0 || rank >= state_->size) throw InputError(fmt::format("host({}): the world has {} ranks", rank, state_->size));
  return state_->hosts[rank];
}

Store& World::store() const {
  if (!state_->store) throw InputError("a world of one rank has no store");
  return *state_->store;
}

// One key for the whole world: a rank that made this group well may already wait in the next one.
Store World::next_group_store() const {
  const int number = state_->groups++;
  store().table()->begin_meeting(number);
  return store().failing_on("mismatch").below(fmt::format("group/{}", number));
}

void World::announce_failure(const std::string& text) const { store().set("mismatch", text); }

}  // namespace weft
