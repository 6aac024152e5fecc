#include "weft/comm/world.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "weft/base/error.h"
#include "weft/base/loopback.h"
#include "weft/comm/host/host_name.h"
#include "weft/comm/host/process.h"
#include "weft/comm/rank_environment.h"
#include "weft/comm/store/agent_round.h"
#include "weft/comm/store/store.h"
#include "weft/comm/store/store_connection.h"
#include "weft/comm/wait/rank_table.h"

namespace weft {

struct World::State {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::vector<std::string> hosts;
  std::optional<Store> store;
  int groups = 0;  ///< made in this attempt
  int attempt = 0;
  int parts = 0;
  std::shared_ptr<Store::Failure> failure;  ///< of this attempt

  void begin_attempt(int number) {
    attempt = number;
    groups = 0;
    failure = std::make_shared<Store::Failure>(fmt::format("{}attempt/{}/failure", store->prefix(), number));
  }
};

namespace {

std::string server_name(Rendezvous::Server server) {
  switch (server) {
    case Rendezvous::Server::launcher:
      return "the launcher";
    case Rendezvous::Server::agent:
      return "torchrun's agent";
    case Rendezvous::Server::rank_zero:
      break;
  }
  return "rank 0";
}

std::shared_ptr<StoreConnection> meet(const RankEnvironment& mine, std::chrono::milliseconds timeout) {
  const Rendezvous rendezvous = rendezvous_from_environment(mine);
  const StoreAddress address{server_name(rendezvous.server), rendezvous.host, rendezvous.port};
  try {
    if (mine.rank > 0 || rendezvous.server != Rendezvous::Server::rank_zero) return connect(address, timeout);
    return serve(address, rendezvous.loopback ? listen_on_loopback(address.port) : FileDescriptor(), timeout);
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    throw CommError(fmt::format("rank {} of {}: {}", mine.rank, mine.size, error.what()));
  }
}

// The same environment may serve a program after another (weft run -- sh -c 'one; two'), each of which meets apart. Two at a
// time are a mistake of whoever starts ranks by hand.
Store join(const Store& all, const RankEnvironment& mine, const Deadline& deadline) {
  Store store = all.within(deadline);
  const auto process_key = [&mine](int64_t turn) { return fmt::format("process/{}/{}", mine.rank, turn); };
  const int64_t turn = store.add(fmt::format("joined/{}", mine.rank), 1);
  store.set(process_key(turn), fmt::format("{} {}", ::getpid(), this_host()));
  if (turn == 1) return all;
  const std::string before = store.get(process_key(turn - 1), deadline, "joining the other ranks");
  const int pid = std::stoi(before);
  const bool here = before.substr(before.find(' ') + 1) == this_host();
  if (!here || (pid != ::getpid() && process_state(pid) != ProcessState::ended)) {
    throw InputError(
        fmt::format("rank {} of {}: another process has this rank too (RANK={}), process {}; give each a number of its own",
                    mine.rank, mine.size, mine.rank, pid));
  }
  return all.below(fmt::format("turn/{}", turn));
}

std::vector<std::string> exchange_hosts(Store& store, const RankEnvironment& mine, const Deadline& deadline) {
  store.set(fmt::format("host/{}", mine.rank), fmt::format("{} {}", mine.size, this_host()), deadline);
  std::vector<std::string> hosts;  // as many as come: a size that somebody mistyped takes no memory
  while (static_cast<int>(hosts.size()) < mine.size) {
    const int rank = static_cast<int>(hosts.size());
    const std::string told = store.get(fmt::format("host/{}", rank), deadline,
                                       fmt::format("rank {} of {} waits for rank {} to start", mine.rank, mine.size, rank));
    const size_t space = std::min(told.find(' '), told.size());
    if (told.substr(0, space) != std::to_string(mine.size)) {
      throw InputError(fmt::format("rank {} is started in a world of {}, rank {} in one of {}; give all the same WORLD_SIZE",
                                   mine.rank, mine.size, rank, told.substr(0, space)));
    }
    hosts.push_back(told.substr(std::min(space + 1, told.size())));
  }
  return hosts;
}

/// Numbers of groups that a part of the world has: its meetings come between those of the whole world before and after.
constexpr int kGroupsOfPart = 1 << 16;

}  // namespace

World::World() : state_(std::make_shared<State>()) { state_->hosts = {this_host()}; }

World::World(std::shared_ptr<State> state) : state_(std::move(state)) {}

World World::from_environment(std::chrono::milliseconds timeout) {
  const auto mine = rank_environment();
  if (!mine) return World();
  auto state = std::make_shared<State>();
  state->rank = mine->rank;
  state->size = mine->size;
  if (mine->size == 1) {
    state->hosts = {this_host()};
    return World(state);
  }
  const Deadline deadline = timeout;
  const std::shared_ptr<StoreConnection> connection = meet(*mine, timeout);
  std::string prefix = key_prefix_from_environment();
  if (rendezvous_from_environment(*mine).server == Rendezvous::Server::agent) {
    prefix = fmt::format("weft/agent/{}/", agent_round(Store(connection, "weft/agent/"), mine->rank, mine->size, deadline));
  }
  state->store = join(Store(connection, prefix), *mine, deadline);
  state->hosts = exchange_hosts(*state->store, *mine, deadline);
  state->store = state->store->with(RankTable::join(*state->store, mine->rank, state->hosts, deadline));
  state->begin_attempt(0);

  // Where the environment is silent, the ranks on this host count themselves.
  int before = 0, on_host = 0;
  for (int rank = 0; rank < mine->size; ++rank) {
    if (state->hosts[rank] != state->hosts[mine->rank]) continue;
    ++on_host;
    if (rank < mine->rank) ++before;
  }
  state->local_rank = mine->local_rank.value_or(before);
  state->local_size = mine->local_size.value_or(on_host);
  return World(state);
}

std::vector<World> World::threads(int size) {
  if (size < 1) throw InputError(fmt::format("World::threads({}): at least one rank is needed", size));
  const std::shared_ptr<StoreConnection> connection = make_local_store();
  const std::vector<std::string> hosts(size, this_host());
  const auto tables = RankTable::threads(Store(connection, "weft/0/"), hosts);
  std::vector<World> worlds;
  for (int rank = 0; rank < size; ++rank) {
    auto state = std::make_shared<State>();
    state->rank = state->local_rank = rank;
    state->size = state->local_size = size;
    state->hosts = hosts;
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

// What ranks make together they make in attempts. When one fails all ranks leave it, each at the group that it has come to;
// their next groups, counted from none again, belong to the next attempt, which knows nothing of that failure.
Store World::next_group_store() const {
  const Store& all = store();
  State& s = *state_;
  if (s.failure->told) s.begin_attempt(s.attempt + 1);
  const int group = s.groups++;
  all.table()->begin_meeting((int64_t{s.attempt} << 32) + group);
  return all.failing_on(s.failure).below(fmt::format("attempt/{}/group/{}", s.attempt, group));
}

}  // namespace weft
