#include "weft/comm/join.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <memory>
#include <sstream>

#include "weft/base/error.h"
#include "weft/base/loopback.h"
#include "weft/base/process.h"
#include "weft/base/token.h"
#include "weft/comm/host/host_name.h"
#include "weft/comm/store/agent_round.h"
#include "weft/comm/store/open_store.h"
#include "weft/comm/store/store_connection.h"

namespace weft {
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

std::shared_ptr<StoreConnection> meet(const Place& place, std::chrono::milliseconds timeout) {
  const Rendezvous& rendezvous = place.rendezvous;
  const RankEnvironment& mine = place.ranks;
  const StoreAddress address{server_name(rendezvous.server), rendezvous.host, rendezvous.port, place.token};
  try {
    if (rendezvous.server == Rendezvous::Server::agent) return connect_c10d(address, timeout);
    if (mine.rank > 0 || rendezvous.server != Rendezvous::Server::rank_zero) return connect(address, timeout);
    return serve(address, rendezvous.loopback ? listen_on_loopback(address.port) : FileDescriptor(), timeout);
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    throw CommError(fmt::format("rank {} of {}: {}", mine.rank, mine.size, error.what()));
  }
}

// Several programs may use the same environment in turn (weft run -- sh -c 'one; two'); each program's ranks meet separately.
// Two programs at once are a user's mistake.
Store take_turn(const Store& all, const Place& place, const Deadline& deadline) {
  const RankEnvironment& mine = place.ranks;
  Store store = all.within(deadline);
  const auto process_key = [&mine](int64_t turn) { return fmt::format("process/{}/{}", mine.rank, turn); };
  // Includes random bytes because a process may take several turns.
  const std::string own = fmt::format("{} {} {}", ::getpid(), make_token(), place.host);
  if (store.set_once(process_key(1), own) == own) return all;
  const int64_t turn = 1 + store.add(fmt::format("joined/{}", mine.rank), 1);
  store.set(process_key(turn), own);
  std::istringstream before(store.get(process_key(turn - 1), deadline, "joining the other ranks"));
  int pid = 0;
  std::string token, host;
  before >> pid >> token;
  before.ignore();
  std::getline(before, host);
  if (host != place.host || (pid != ::getpid() && process_state(pid) != ProcessState::ended)) {
    throw InputError(
        fmt::format("rank {} of {}: another process has the same rank (RANK={}): process {}; give each process its own rank",
                    mine.rank, mine.size, mine.rank, pid));
  }
  return all.below(fmt::format("turn/{}", turn));
}

// "rank 3 to start, and for 5, 6 and 12 more"
std::string missing_text(const Gathered& gathered) {
  const std::vector<int>& named = gathered.missing_ranks;
  if (named.empty()) return "the others to start";
  std::string text = fmt::format("rank {} to start", named.front());
  if (named.size() > 1) text += fmt::format(", and for {}", fmt::join(named.begin() + 1, named.end(), ", "));
  const int unnamed = gathered.missing - static_cast<int>(named.size());
  return unnamed > 0 ? fmt::format("{} and {} more", text, unnamed) : text;
}

std::vector<std::string> exchange_hosts(Store& store, const Place& place, const Deadline& deadline) {
  const RankEnvironment& mine = place.ranks;
  Gathered gathered = store.gather({"hosts", mine.rank, mine.size, place.host}, deadline);
  if (gathered.end == WaitEnd::came) return std::move(gathered.values);
  if (gathered.other_rank >= 0) {
    throw InputError(fmt::format("rank {} has a world of {} ranks but rank {} has {}; give all ranks the same WORLD_SIZE",
                                 mine.rank, mine.size, gathered.other_rank, gathered.other_size));
  }
  throw CommError(fmt::format("rank {} of {} waits for {}: {} {:.1f} s", mine.rank, mine.size, missing_text(gathered),
                              gathered.end == WaitEnd::passed
                                  ? "still missing after"
                                  : fmt::format("the store, which {} serves, has not answered for", store.server()),
                              deadline.timeout().count() / 1000.0));
}

Joined join_once(const Place& place, const Deadline& deadline) {
  const std::shared_ptr<StoreConnection> connection = meet(place, deadline.left());
  std::string prefix = place.prefix;
  if (place.rendezvous.server == Rendezvous::Server::agent) {
    const Store all(connection, "weft/agent/");
    prefix = fmt::format("weft/agent/{}/", agent_round(all, place.ranks.rank, place.ranks.size, deadline));
  }
  Store store = take_turn(Store(connection, prefix), place, deadline);
  std::vector<std::string> hosts = exchange_hosts(store, place, deadline);
  return {std::move(store), std::move(hosts)};
}

}  // namespace

Place place_from_environment(const RankEnvironment& mine) {
  return {mine, rendezvous_from_environment(mine), mine.token, key_prefix_from_environment(), this_host()};
}

// If rank 0's store disappears meanwhile, it belonged to the previous program, which ended there a little later than here.
Joined join_world(const Place& place, const Deadline& deadline) {
  const bool may_be_another = place.rendezvous.server == Rendezvous::Server::rank_zero && place.ranks.rank > 0;
  while (true) {
    try {
      return join_once(place, deadline);
    } catch (const LostStore&) {
      if (!may_be_another || deadline.passed()) throw;
    }
  }
}

}  // namespace weft
