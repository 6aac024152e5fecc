#include "weft/comm/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "weft/base/environment.h"
#include "weft/base/error.h"
#include "weft/comm/call/backend.h"
#include "weft/comm/host/host_name.h"
#include "weft/comm/join.h"
#include "weft/comm/rank_environment.h"
#include "weft/comm/store/open_store.h"
#include "weft/comm/store/store.h"
#include "weft/comm/wait/rank_table.h"

namespace weft {

struct World::State {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::vector<std::string> hosts;
  std::optional<Store> store;
  int groups = 0;  ///< created in this attempt
  int attempt = 0;
  int parts = 0;
  std::shared_ptr<Store::Failure> failure;  ///< this attempt's failure
  std::shared_ptr<DeviceChannels> channels = std::make_shared<DeviceChannels>();
  std::shared_ptr<CallLogs> logs = std::make_shared<CallLogs>();

  State() = default;
  /// Meets all other ranks.
  State(const Place& place, const Deadline& deadline) : rank(place.ranks.rank), size(place.ranks.size) {
    Joined joined = join_world(place, deadline);
    hosts = std::move(joined.hosts);
    store = joined.store.with(RankTable::join(joined.store, rank, hosts, deadline));
    begin_attempt(0);
    count_neighbours();  // defaults if the place does not say
    local_rank = place.ranks.local_rank.value_or(local_rank);
    local_size = place.ranks.local_size.value_or(local_size);
  }

  void count_neighbours() {
    local_rank = local_size = 0;
    for (int other = 0; other < size; ++other) {
      if (hosts[other] != hosts[rank]) continue;
      ++local_size;
      if (other < rank) ++local_rank;
    }
  }
  void begin_attempt(int number) {
    attempt = number;
    groups = 0;
    failure = std::make_shared<Store::Failure>(fmt::format("{}attempt/{}/failure", store->prefix(), number));
  }
};

namespace {

/// Group numbers reserved for a part of the world: its meetings come between earlier and later ones of the whole world.
constexpr int kGroupsOfPart = 1 << 16;

}  // namespace

World::World() : state_(std::make_shared<State>()) { state_->hosts = {this_host()}; }

World::World(std::shared_ptr<State> state) : state_(std::move(state)) {}

World World::from_environment(std::chrono::milliseconds timeout) {
  const auto mine = rank_environment();
  if (!mine) return World();
  if (mine->size == 1) return World();
  return World(std::make_shared<State>(place_from_environment(*mine), timeout));
}

World World::join(int rank, int size, const std::string& address, std::chrono::milliseconds timeout) {
  if (size < 1 || rank < 0 || rank >= size) {
    throw InputError(fmt::format("rank {} of {}: the rank must be from 0 and below the world's size", rank, size));
  }
  if (size == 1) return World();
  const RankEnvironment mine{.rank = rank, .size = size, .token = env_string("WEFT_TOKEN").value_or("")};
  return World(std::make_shared<State>(
      Place{mine, rendezvous_at(address), mine.token, key_prefix_from_environment(), this_host()}, timeout));
}

std::vector<World> World::threads(int size) {
  if (size < 1) throw InputError(fmt::format("World::threads({}): at least one rank is needed", size));
  return threads(std::vector<std::string>(size, this_host()));
}

std::vector<World> World::threads(const std::vector<std::string>& hosts) {
  const int size = static_cast<int>(hosts.size());
  const std::shared_ptr<StoreConnection> connection = make_local_store();
  const auto tables = RankTable::threads(Store(connection, "weft/0/"), hosts);
  std::vector<World> worlds;
  for (int rank = 0; rank < size; ++rank) {
    auto state = std::make_shared<State>();
    state->rank = rank;
    state->size = size;
    state->hosts = hosts;
    state->count_neighbours();
    state->store = Store(connection, "weft/0/").with(tables[rank]);
    state->begin_attempt(0);
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

std::optional<World> World::part(int size) const {
  State& s = *state_;
  if (size < 1 || size > s.size) throw InputError(fmt::format("part({}): the world has {} ranks", size, s.size));
  auto state = std::make_shared<State>();
  state->rank = s.rank;
  state->size = size;
  state->local_rank = s.local_rank;
  state->logs = s.logs;
  state->hosts.assign(s.hosts.begin(), s.hosts.begin() + size);
  if (size > 1) {
    state->store = s.store->below(fmt::format("part/{}", s.parts));
    state->begin_attempt(s.attempt);
    state->groups = s.groups;
  }
  ++s.parts;
  s.groups += kGroupsOfPart;
  if (s.rank >= size) return std::nullopt;
  state->local_size = static_cast<int>(std::count(state->hosts.begin(), state->hosts.end(), s.hosts[s.rank]));
  return World(std::move(state));
}

Store& World::store() const {
  if (!state_->store) throw InputError("a world of one rank has no store");
  return *state_->store;
}

const std::shared_ptr<DeviceChannels>& World::device_channels() const { return state_->channels; }

const std::shared_ptr<CallLogs>& World::call_logs() const { return state_->logs; }

// Ranks create groups together in attempts. When an attempt fails, all ranks leave it, each at the group it has reached; their
// next groups, counted from 0 again, belong to the next attempt, which ignores that failure.
Store World::next_group_store() const {
  const Store& all = store();
  State& s = *state_;
  if (s.failure->known) s.begin_attempt(s.attempt + 1);
  const int group = s.groups++;
  all.table()->begin_meeting((int64_t{s.attempt} << 32) + group);
  return all.failing_on(s.failure).below(fmt::format("attempt/{}/group/{}", s.attempt, group));
}

}  // namespace weft
