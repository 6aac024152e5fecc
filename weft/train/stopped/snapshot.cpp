#include "weft/train/stopped/snapshot.h"

#include <unistd.h>

#include <chrono>
#include <utility>

#include "weft/comm/call/call_log.h"
#include "weft/comm/store/store.h"
#include "weft/comm/wait/rank_table.h"
#include "weft/report/records/record.h"

namespace weft {
namespace {

constexpr std::chrono::milliseconds kForStacks{500};
constexpr std::chrono::milliseconds kForNames{1500};

/// Times of the log's clock as seconds since 1970.
class WallClock {
 public:
  double at(LoggedCall::Time time) const {
    return time == LoggedCall::Time() ? 0.0 : now_s_ - std::chrono::duration<double>(now_ - time).count();
  }

 private:
  double now_s_ = unix_time_s();
  LoggedCall::Time now_ = std::chrono::steady_clock::now();
};

CallEvidence evidence_of(const LoggedCall& call, const Axis& axis, const WallClock& clock) {
  const Call described{.operation = call.operation, .dtype = call.dtype, .reduce = call.reduce};
  const bool is_ended = call.ended != LoggedCall::Time();
  const bool is_started = call.waited != LoggedCall::Time() || !call.is_in_background;
  constexpr const char* kReductions[] = {"sum", "max", "min"};
  return {.number = call.number,
          .order = call.order,
          .operation = std::string(operation_name(call.operation)),
          .dtype = std::string(dtype_name(call.dtype)),
          .reduce = described.reduces() ? kReductions[static_cast<int>(call.reduce)] : "",
          .name = call.what.data(),
          .numel = call.numel,
          .peer = call.root >= 0 ? axis.ranks[static_cast<size_t>(call.root)] : -1,
          .begun_s = clock.at(call.begun),
          .ended_s = clock.at(call.ended),
          .state = is_ended     ? "completed"
                   : is_started ? "started"
                                : "scheduled"};
}

void add_wait(RankEvidence& evidence, const World& world) {
  const RankRow row = world.store().table()->read(world.rank());
  evidence.has_failed = row.state == RankState::failed;
  evidence.culprit = evidence.has_failed ? row.culprit : -1;
  evidence.error = evidence.has_failed ? row.failure : "";
  evidence.waits_in = row.doing;
  evidence.wait_axis = row.axis;
  evidence.wait_ranks = row.members;
  evidence.awaits = row.awaits;
}

void add_groups(RankEvidence& evidence, const World& world) {
  const WallClock clock;
  for (const CallLog::Content& log : world.call_logs()->content()) {
    GroupEvidence group{.id = log.id,
                        .axis = log.axis.name,
                        .backend = log.backend,
                        .ranks = log.axis.ranks,
                        .collectives = log.collectives,
                        .calls = {}};
    for (const LoggedCall& call : log.calls) group.calls.push_back(evidence_of(call, log.axis, clock));
    evidence.groups.push_back(std::move(group));
  }
}

void add_place(RankEvidence& evidence, const RankActivity& activity) {
  if (!activity.activity.starts_with("step ")) evidence.activity = activity.activity;
  evidence.thread = activity.thread;
  evidence.step = activity.current->steps_begun();
  const auto now = activity.current->now();
  if (!now) return;
  evidence.operation = name(now->op);
  evidence.instruction = now->index;
  evidence.micro = now->micro;
  const bool has_block = now->op != Op::load && now->op != Op::loss && now->op != Op::reduce_loss;
  const auto block = static_cast<size_t>(now->block);
  if (has_block && block < activity.blocks.size()) evidence.block = activity.blocks[block];
}

}  // namespace

RankSnapshot take_snapshot(const World& world, const RankActivity& activity) {
  RankSnapshot snapshot{
      .evidence = {.rank = world.rank(), .ranks = world.size(), .pid = ::getpid(), .host = world.host(world.rank())},
      .stacks = {}};
  RankEvidence& evidence = snapshot.evidence;
  add_place(evidence, activity);
  add_wait(evidence, world);
  add_groups(evidence, world);
  snapshot.stacks = thread_stacks(kForStacks);
  evidence.time_s = unix_time_s();
  return snapshot;
}

RankEvidence named(RankSnapshot snapshot, const World& world) {
  RankEvidence evidence = std::move(snapshot.evidence);
  std::vector<uintptr_t> code;
  for (const ThreadStack& stack : snapshot.stacks) code.insert(code.end(), stack.code.begin(), stack.code.end());
  const std::vector<std::string> names = function_names(code, std::chrono::steady_clock::now() + kForNames);
  auto next = names.begin();
  for (const ThreadStack& stack : snapshot.stacks) {
    const auto end = next + static_cast<std::ptrdiff_t>(stack.code.size());
    evidence.threads.push_back({stack.id, stack.name, {next, end}});
    next = end;
  }
  const std::vector<RankRow> rows = world.store().table()->read();
  for (int rank = 0; rank < world.size(); ++rank) {
    const RankRow& row = rows[static_cast<size_t>(rank)];
    if (rank == world.rank() || (row.state != RankState::ended && row.state != RankState::stopped)) continue;
    evidence.lost.push_back({rank, row.state == RankState::ended ? "ended" : "stopped", row.process});
  }
  return evidence;
}

}  // namespace weft
