#include "weft/program/simulate/events.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <queue>

#include "weft/base/error.h"
#include "weft/program/simulate/collective_queue.h"
#include "weft/program/simulate/host_clock.h"
#include "weft/program/simulate/mailbox.h"
#include "weft/program/simulate/pass_times.h"
#include "weft/program/simulate/shared_cores.h"
#include "weft/program/simulate/slowdown.h"
#include "weft/program/simulate/software.h"
#include "weft/program/simulate/work_time.h"

namespace weft {
namespace {

constexpr double kUnknown = -1.0;

struct Side {
  int next = 0;  // next instruction to start
  bool is_queued = false;
  double started_s = 0.0;  // start of the previous instruction
  int last_on_lane = -1;   // latest instruction that occupies the compute lane till its end
  double copy_free_s = 0.0;
  std::map<int, Mailbox::Message> untaken;  // without overlap: arrived messages, by receive
};

class Events {
 public:
  /// `ahead_s`, by side: how far its host is ahead as the step begins; empty: not at all.
  Events(const Program& program, const Hardware& hardware, const Ranks& ranks, const ModelLaunches& launches,
         const std::vector<double>& ahead_s, Simulation& simulation)
      : program_(program),
        hardware_(hardware),
        ranks_(ranks),
        simulation_(simulation),
        work_(program, hardware),
        network_(ranks, hardware),
        collectives_(program, network_, ranks, simulation),
        slowdown_(simulation.ranks.size(), hardware.collectives ? hardware.collectives->taken_from_compute : 0.0),
        cores_(hardware, simulation, program.world_size()),
        sides_(simulation.ranks.size()),
        passes_(program, work_, network_) {
    for (const SimulatedRank& side : simulation.ranks) {
      lists_.push_back(&program.of(side.rank));
      hosts_.emplace_back(program, *lists_.back(), hardware, launches, work_, ahead_s.empty() ? 0.0 : ahead_s[hosts_.size()]);
    }
  }

  void run();

  std::vector<double> ahead_s() const { return hosts_ahead_s(hosts_, simulation_.ranks); }

 private:
  const InstructionList& list(int side) const { return *lists_[side]; }
  const Instruction& at(const InstructionRef& x) const { return list(x.side)[x.index]; }
  Span& span(const InstructionRef& x) { return simulation_.ranks[x.side].spans[x.index]; }
  std::string say(const InstructionRef& x) const { return describe(program_, simulation_, x); }

  void schedule(int side);
  bool wait_for(const InstructionRef& other, double& time);
  bool overlaps_compute(const InstructionRef& x);
  bool takes_lane(const InstructionRef& x);
  double take(const InstructionRef& receive, double time);
  bool end_compute();
  void start(const InstructionRef& x, double time);
  double slowed(const InstructionRef& x, const Given& given, double begin, double seconds);
  void finish(const InstructionRef& x, double begin, double end);
  void join(const InstructionRef& x, double ready);
  void copy(const InstructionRef& x, double time);
  void send(const InstructionRef& x, double time);
  void receive(const InstructionRef& x);
  void deliver(int from, int to);
  int place_of_peer(const InstructionRef& x) const;
  int peer_of(const InstructionRef& x) const;

  void check_finished();
  bool has_finished(int side) const { return sides_[side].next == std::ssize(list(side)); }
  bool waits_in_vain(const InstructionRef& x);
  std::vector<int> awaited(const InstructionRef& x);
  std::string standing(int side) const;

  const Program& program_;
  const Hardware& hardware_;
  const Ranks& ranks_;
  Simulation& simulation_;
  WorkTime work_;
  Network network_;
  CollectiveQueue collectives_;
  Slowdown slowdown_;
  SharedCores cores_;
  Mailbox mailbox_;
  std::vector<Side> sides_;
  std::vector<const InstructionList*> lists_;  // by side
  std::vector<HostClock> hosts_;               // by side
  PassTimes passes_;
  using Event = std::pair<double, int>;  // time and side; equal times go by side
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
};

void Events::run() {
  const int num_sides = static_cast<int>(sides_.size());
  for (int side = 0; side < num_sides; ++side) {
    simulation_.ranks[side].spans.assign(list(side).size(), {.end_s = kUnknown});
  }
  for (int side = 0; side < num_sides; ++side) schedule(side);
  for (;;) {
    if (end_compute()) continue;
    if (queue_.empty()) break;
    const auto [time, side] = queue_.top();
    queue_.pop();
    sides_[side].is_queued = false;
    start({.side = side, .index = sides_[side].next++}, time);
    schedule(side);
  }
  check_finished();
  for (int side = 0; side < num_sides; ++side) {
    simulation_.ranks[side].launches = hosts_[side].launches();
    simulation_.ranks[side].host_waits = hosts_[side].waits();
  }
}

// Ends the compute that ends first, if that is before the next instruction starts.
bool Events::end_compute() {
  const auto end = cores_.take_first(queue_.empty() ? std::numeric_limits<double>::infinity() : queue_.top().first);
  if (!end) return false;
  span(end->x).beside_s = end->longer_s;
  finish(end->x, span(end->x).start_s, end->time_s);
  return true;
}

bool Events::wait_for(const InstructionRef& other, double& time) {
  const double end = span(other).end_s;
  time = std::max(time, end);
  return end != kUnknown;
}

// True for instructions that move bytes and overlap compute.
bool Events::overlaps_compute(const InstructionRef& x) {
  const Instruction& moves = at(x);
  if (hardware_.software) return software_overlaps(*hardware_.software, moves, program_.shard_level);
  if (hardware_.overlap) return true;
  if (is_collective(moves)) return network_.overlaps_compute(network_.ring(moves.axes, tied_block(moves)).port);
  if (is_transfer(moves.op)) return network_.overlaps_compute(network_.port(simulation_.ranks[x.side].pp, place_of_peer(x)));
  return false;  // copies do not overlap
}

bool Events::takes_lane(const InstructionRef& x) {
  return at(x).lane == Lane::compute || (at(x).op != Op::receive && !overlaps_compute(x));
}

// Without overlap a message is taken when it is waited for, which takes compute time.
double Events::take(const InstructionRef& receive, double time) {
  auto& untaken = sides_[receive.side].untaken;
  const auto found = untaken.find(receive.index);
  if (found == untaken.end()) return time;
  Span& taken = span(receive);
  taken.begin_s = std::max(time, found->second.begin_s);
  taken.end_s = taken.begin_s + found->second.end_s - found->second.begin_s;
  untaken.erase(found);
  return taken.end_s;
}

// Queues the side's next instruction once all of its waits have a known end.
void Events::schedule(int side) {
  Side& state = sides_[side];
  const InstructionRef x = {.side = side, .index = state.next};
  if (state.is_queued || has_finished(side)) return;
  double time = state.started_s;
  bool known = true;
  for (int wait : at(x).waits) {
    if (wait < 0 || wait >= x.index) throw Error(fmt::format("{}: waits for instruction {}", say(x), wait));
    known = (wait_for({side, wait}, time) || state.untaken.count(wait) != 0) && known;
  }
  if (takes_lane(x) && state.last_on_lane >= 0) known = wait_for({side, state.last_on_lane}, time) && known;
  HostClock& host = hosts_[side];
  double caught_up = 0.0;
  if (host.waits_for() >= 0) known = wait_for({side, host.waits_for()}, caught_up) && known;
  if (!known) return;
  for (int wait : at(x).waits) time = take({side, wait}, time);
  if (host.waits_for() >= 0) host.wait_until(caught_up);
  if (const Given given = host.next(x.index); given.launches > 0 && given.first_s > time) {
    if (at(x).lane == Lane::compute) span(x).held_s = given.first_s - time;
    time = given.first_s;
  }
  state.is_queued = true;
  queue_.emplace(time, side);
}

void Events::start(const InstructionRef& x, double time) {
  Side& state = sides_[x.side];
  state.started_s = time;
  span(x).start_s = time;
  const Instruction& instruction = at(x);
  if (takes_lane(x)) state.last_on_lane = x.index;
  span(x).holds_lane = instruction.lane != Lane::compute && !overlaps_compute(x);
  const Given given = hosts_[x.side].next(x.index);
  hosts_[x.side].give(x.index);
  if (is_collective(instruction)) return join(x, slowed(x, given, time, work_.seconds(instruction)));
  if (instruction.op == Op::send) return send(x, time);
  if (instruction.op == Op::receive) return receive(x);
  if (instruction.op == Op::offload || instruction.op == Op::reload) return copy(x, time);
  const double seconds = passes_.seconds(instruction);
  if (cores_.are_short() && instruction.lane == Lane::compute) return cores_.add(x, time, seconds);
  span(x).beside_s = slowdown_.more(x.side, time, seconds);
  finish(x, time, slowed(x, given, time, seconds + span(x).beside_s));
}

// End of work that takes `seconds` with all launches at hand: its last kernel begins once it is launched.
double Events::slowed(const InstructionRef& x, const Given& given, double begin, double seconds) {
  const double end = begin + seconds;
  if (given.launches == 0 || at(x).lane != Lane::compute) return end;
  const double last_end = given.last_s + seconds / given.launches;
  span(x).slowed_s = std::max(last_end - end, 0.0);
  return std::max(last_end, end);
}

void Events::finish(const InstructionRef& x, double begin, double end) {
  span(x).begin_s = begin;
  span(x).end_s = end;
  schedule(x.side);
}

void Events::join(const InstructionRef& x, double ready) {
  const std::optional<CollectiveQueue::Completed> completed = collectives_.join(x, ready);
  if (!completed) return;
  for (const InstructionRef& member : completed->members) {
    span(member).begin_s = completed->begin_s;
    span(member).end_s = completed->end_s;
    if (completed->port == Port::network) cores_.add_traffic(member.side, completed->begin_s, completed->end_s);
    if (at(member).lane == Lane::comm) slowdown_.add(member.side, completed->begin_s, completed->end_s);
  }
  for (const InstructionRef& member : completed->members) schedule(member.side);
}

// Copies run one at a time.
void Events::copy(const InstructionRef& x, double time) {
  double& free = sides_[x.side].copy_free_s;
  const double begin = std::max(time, free);
  free = begin + work_.copy_seconds(at(x));
  finish(x, begin, free);
}

int Events::place_of_peer(const InstructionRef& x) const {
  const int peer = at(x).peer;
  if (peer < 0 || peer >= ranks_.mesh().pp || peer == simulation_.ranks[x.side].pp) {
    throw Error(fmt::format("{}: peer {} must be another of the {} pipeline ranks", say(x), peer, ranks_.mesh().pp));
  }
  return peer;
}

int Events::peer_of(const InstructionRef& x) const {
  const int column = ranks_.column_of(simulation_.ranks[x.side].rank);
  return simulation_.index_of_rank[ranks_.rank_of(column, place_of_peer(x))];
}

void Events::send(const InstructionRef& x, double time) {
  const int to = peer_of(x);
  const Link& link = network_.link(simulation_.ranks[x.side].pp, at(x).peer);
  const auto [bytes, way] = network_.split(static_cast<double>(at(x).wire_bytes), link, !program_.partial_gradients);
  const Mailbox::Message message = mailbox_.send(x, to, time, bytes, way);
  if (cores_.are_short() && network_.port(simulation_.ranks[x.side].pp, at(x).peer) == Port::network) {
    for (const int side : {x.side, to}) cores_.add_traffic(side, message.begin_s, message.end_s);
  }
  const double held = hardware_.software ? hardware_.software->exposed_messages : 1.0;
  finish(x, message.begin_s, message.begin_s + held * (message.end_s - message.begin_s));
  deliver(x.side, to);
}

void Events::receive(const InstructionRef& x) {
  const int from = peer_of(x);
  mailbox_.expect(from, x);
  deliver(from, x.side);
}

void Events::deliver(int from, int to) {
  const std::optional<Mailbox::Delivery> delivery = mailbox_.take(from, to);
  if (!delivery) return;
  const auto& [message, receive] = *delivery;
  const InstructionRef send = {.side = from, .index = message.send};
  const Instruction& a = at(send);
  const Instruction& b = at(receive);
  if (a.first != b.first || a.micro != b.micro || a.what != b.what) {
    throw Error(
        fmt::format("{} gets another message: {}; messages between two ranks keep their order", say(receive), say(send)));
  }
  if (!overlaps_compute(receive)) {
    sides_[to].untaken[receive.index] = message;
    return schedule(to);
  }
  const double start = span(receive).start_s;
  finish(receive, std::max(start, message.begin_s), std::max(start, message.end_s));
}

// Sides that `x`, which has started and not ended, waits for.
std::vector<int> Events::awaited(const InstructionRef& x) {
  return is_collective(at(x)) ? collectives_.missing(x) : std::vector<int>{peer_of(x)};
}

bool Events::waits_in_vain(const InstructionRef& x) {
  const std::vector<int> others = awaited(x);
  return std::any_of(others.begin(), others.end(), [this](int side) { return has_finished(side); });
}

std::string Events::standing(int side) const {
  if (has_finished(side)) return fmt::format("rank {} has finished its list", simulation_.ranks[side].rank);
  return fmt::format("{} is not reached", say({.side = side, .index = sides_[side].next}));
}

void Events::check_finished() {
  std::vector<InstructionRef> stuck;
  for (int side = 0; side < static_cast<int>(sides_.size()); ++side) {
    while (!sides_[side].untaken.empty()) {  // never waited for
      const InstructionRef receive = {.side = side, .index = sides_[side].untaken.begin()->first};
      take(receive, span(receive).start_s);
    }
    for (int index = 0; index < sides_[side].next; ++index) {
      if (span({side, index}).end_s == kUnknown) stuck.push_back({.side = side, .index = index});
    }
  }
  if (!stuck.empty()) {
    // Reports an instruction that waits for a finished rank first: it is nearest to the cause.
    const auto vain = std::find_if(stuck.begin(), stuck.end(), [this](const InstructionRef& x) { return waits_in_vain(x); });
    const InstructionRef& x = vain == stuck.end() ? stuck.front() : *vain;
    throw Error(fmt::format("{} never ends: {}", say(x), standing(awaited(x).front())));
  }
  if (const std::optional<InstructionRef> unread = mailbox_.left_over()) {
    throw Error(fmt::format("{}: never received; {}", say(*unread), standing(peer_of(*unread))));
  }
}

}  // namespace

void run_events(const Program& program, const Hardware& hardware, const Ranks& ranks, const ModelLaunches& launches,
                Simulation& simulation) {
  Events first(program, hardware, ranks, launches, {}, simulation);
  first.run();
  if (!hardware.host_launch_s) return;
  Events(program, hardware, ranks, launches, first.ahead_s(), simulation).run();
}

}  // namespace weft
