// The part of Trainer that saves and loads.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <set>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/base/stopwatch.h"
#include "weft/base/storage_error.h"
#include "weft/checkpoint/format/checkpoint_folder.h"
#include "weft/checkpoint/safetensors_header.h"
#include "weft/checkpoint/storage/open_storage.h"
#include "weft/train/trainer/checkpoint_state.h"
#include "weft/train/trainer/fill_weights.h"
#include "weft/train/trainer/finite_state.h"
#include "weft/train/trainer/snapshot.h"
#include "weft/train/trainer/trainer.h"
#include "weft/train/trainer/trainer_state.h"

namespace weft {

namespace {

/// Time for a rank's share while others wait. A dead or failed rank is detected at once.
constexpr std::chrono::hours kSlowestDisk{1};

/// The copy that does not hold the newest snapshot.
int first_copy(RunBoard& board) {
  const std::optional<Snapshot> newest = newest_snapshot(board);
  return newest ? 1 - newest->number : 0;
}

std::unique_ptr<RankMeeting> meet(const TrainerState& s, const std::string& doing) {
  const std::chrono::milliseconds timeout = std::max<std::chrono::milliseconds>(s.options.communication.timeout, kSlowestDisk);
  return std::make_unique<RankMeeting>(s.mesh.world(), doing, timeout, s.options.communication.timeout);
}

constexpr const char* kUnlike = "registered state differs: ";

/// Registered states and the shapes of their tensors, a line each.
std::set<std::string> registered_lines(const TrainerState& s) {
  std::set<std::string> lines;
  for (const auto& [name, state] : s.registered) {
    lines.insert(fmt::format("'{}'", name));
    for (const NamedTensor& t : state.tensors)
      lines.insert(fmt::format("'{}' with '{}' of {} [{}]", name, t.name, c10::toString(t.tensor.scalar_type()),
                               fmt::join(t.tensor.sizes(), ", ")));
  }
  return lines;
}

/// What rank 0, which writes registered state, does not have, or this rank; empty: they are alike.
std::string unlike_registered(const TrainerState& s, RankMeeting& meeting) {
  const std::set<std::string> own = registered_lines(s);
  const std::string text = fmt::format("{}", fmt::join(own, "\n"));
  const std::string first = meeting.of_rank_zero(text, s.options.communication.timeout);
  if (first == text) return {};
  std::set<std::string> theirs;
  for (size_t begin = 0, end = 0; begin < first.size(); begin = end + 1) {
    end = std::min(first.find('\n', begin), first.size());
    theirs.insert(first.substr(begin, end - begin));
  }
  const auto one_without = [](const std::set<std::string>& some, const std::set<std::string>& others) {
    const auto found = std::find_if(some.begin(), some.end(), [&](const std::string& line) { return others.count(line) == 0; });
    return found == some.end() ? std::string() : *found;
  };
  const std::string here = one_without(own, theirs);
  const int has = here.empty() ? 0 : meeting.rank(), lacks = here.empty() ? meeting.rank() : 0;
  return fmt::format("{}rank {} has {}, rank {} does not; register the same on all ranks", kUnlike, has,
                     here.empty() ? one_without(theirs, own) : here, lacks);
}

/// The first rank's error: state that is not finite, or registered state that rank 0 does not have so. Nothing is written yet,
/// so ranks wait as in a step.
std::string verdict(const TrainerState& s, RankMeeting& meeting, const FiniteState& looked) {
  const std::string unlike = unlike_registered(s, meeting);
  return meeting.verdict(unlike.empty() ? looked.error() : unlike, s.options.communication.timeout);
}

/// Runs `fill` on every rank; all throw one rank's error. It returns a digest of what it read, which is rank 0's on all ranks;
/// empty: it is not compared.
void fill(TrainerState& s, const std::string& path, const std::function<std::string()>& fill) {
  s.expect_between_steps();
  const std::unique_ptr<RankMeeting> meeting = s.attempt("loading " + path, [&] { return meet(s, "loading " + path); });
  std::string failure, digest;
  s.half_loaded = "it did not finish on all ranks";
  try {
    digest = s.in_own_thread("loading " + path, fill);
  } catch (const std::exception& error) {
    failure = encode_error(error);
  }
  const std::string of_first = meeting->of_rank_zero(digest);
  if (digest != of_first && !digest.empty() && !of_first.empty()) {
    failure = encode_error(InputError(fmt::format(
        "{}: rank {} reads other weights there than rank 0; give all ranks the same file, and do not replace it meanwhile",
        path, meeting->rank())));
  }
  const std::string first = meeting->verdict(failure);
  s.half_loaded = first.empty() ? "" : encoded_message(first);
  if (!first.empty()) throw_encoded(first);
  s.attempt("gathering the loaded weights", [&s] { s.engine->gather_whole(); });
}

}  // namespace

void Trainer::register_state(const std::string& name, RegisteredState state) {
  if (name.empty() || name.find('/') != std::string::npos || printable(name) != name) {
    throw InputError(fmt::format(
        "trainer: '{}' cannot name registered state; it must be UTF-8 that can be printed, without '/'", shortened(name)));
  }
  for (const NamedTensor& t : state.tensors) {
    if (t.tensor.defined() && t.tensor.is_contiguous()) {
      if (safetensors_type(t.tensor.scalar_type()) != nullptr) continue;
      throw InputError(fmt::format("trainer: tensor '{}' of registered state '{}' is {}, which checkpoints cannot store",
                                   t.name, name, c10::toString(t.tensor.scalar_type())));
    }
    throw InputError(
        fmt::format("trainer: tensor '{}' of registered state '{}' is not contiguous, or undefined", t.name, name));
  }
  if (!state_->registered.emplace(name, std::move(state)).second) {
    throw InputError(fmt::format("trainer: state '{}' is already registered; give each its own name", name));
  }
}

SaveReport Trainer::save(const std::string& path, const SaveOptions& options) {
  begin_save(path, options, /*in_background=*/false);
  return finish_save();
}

void Trainer::save_in_background(const std::string& path, const SaveOptions& options) {
  const LayoutOptions& layout = state_->options.layout;
  const bool offloads = layout.offload_optimizer != Offload::none || layout.offload_parameters != Offload::none;
  begin_save(path, options, /*in_background=*/!offloads);
}

void Trainer::begin_save(const std::string& path, const SaveOptions& options, bool in_background) {
  start();
  TrainerState& s = *state_;
  s.expect_weights("a save");
  const Stopwatch asked;
  if (is_saving()) finish_save();
  const CheckpointPath to = parent_and_name(path);
  BackgroundSave::Job job{
      .storage = to.storage, .checkpoint = to.checkpoint, .replace = options.replace, .after = options.after};
  job.report.path = path;
  job.report.waited_s = asked.seconds();
  std::string refused;  // non-finite state is refused on all ranks before any writes, so that the trainer can continue
  s.attempt(fmt::format("saving {}", path), [&] {
    job.meeting = meet(s, fmt::format("saving {}", path));
    RankMeeting& meeting = *job.meeting;
    try {
      job.texts = state_texts(s);
      FiniteState looked(*s.model, s.steps_done);
      if (!in_background) {
        for_each_written(s, [&looked](const StatePart& part) { looked.look_at(part); });
        refused = verdict(s, meeting, looked);
        if (!refused.empty()) return;
        job.write = [&s](DataWriter& writer) { for_each_written(s, [&writer](const StatePart& part) { writer.add(part); }); };
        s.saving.run_now(std::move(job));
        return;
      }
      const MemoryLedger::Attached attached(s.options.ledger);
      const MemoryScope scope(MemoryCategory::saving);
      s.staging.clear();
      for_each_written(s, [&](const StatePart& part) {
        looked.look_at(part);
        s.staging.add(part);
      });
      s.staging.finish();
      refused = verdict(s, meeting, looked);
      if (!refused.empty()) return s.staging.clear();
      job.write = [&s](DataWriter& writer) {
        for (const StatePart& part : s.staging.parts()) writer.add(part);
      };
      job.report.copied_s = asked.seconds() - job.report.waited_s;
      s.saving.start(std::move(job));
    } catch (const std::exception& error) {  // before the others wait in vain
      if (!s.saving.is_under_way()) meeting.fail(error.what());
      throw;
    }
  });
  if (refused.starts_with(kUnlike)) throw InputError(fmt::format("{}: {}", path, refused));
  if (!refused.empty()) throw NumericError(fmt::format("{}: {}", path, refused));
}

bool Trainer::is_saving() const { return state_->saving.is_under_way(); }
bool Trainer::is_save_done() const { return state_->saving.is_done(); }

SaveReport Trainer::finish_save() { return is_saving() ? state_->saving.wait() : SaveReport{}; }

LoadReport Trainer::load(const std::string& path, const LoadOptions& options) {
  start_to_load();
  if (is_saving()) finish_save();
  LoadReport report;
  fill(*state_, path, [&] {
    const CheckpointPath from = parent_and_name(path);
    const std::unique_ptr<Storage> storage = open_storage(from.storage);
    report = load_state(*state_, *storage, from.checkpoint, read_checkpoint(*storage, from.checkpoint), options);
    return std::string();
  });
  return report;
}

void Trainer::save_to(RunBoard& board) {
  start();
  TrainerState& s = *state_;
  s.expect_weights("a snapshot");
  s.attempt("a snapshot", [&] {
    if (!s.next_copy) s.next_copy = first_copy(board);
    take_snapshot(s, board, *s.next_copy);
    s.next_copy = 1 - *s.next_copy;
  });
}

std::optional<LoadReport> Trainer::load_from(RunBoard& board, int64_t after_step) {
  TrainerState& s = *state_;
  s.next_copy = first_copy(board);
  const std::optional<Snapshot> snapshot = newest_snapshot(board);
  if (!snapshot || snapshot->step <= after_step) return std::nullopt;
  start_to_load();
  LoadReport report;
  fill(s, "the snapshot in memory", [&] {
    report = load_snapshot(s, board, *snapshot);
    return std::string();
  });
  return report;
}

WeightsReport Trainer::load_weights(const std::string& path, const WeightsOptions& options) {
  start_to_load();
  WeightsReport report;
  fill(*state_, path, [&] {
    report = fill_weights(*state_, path, options);
    return report.digest;
  });
  return report;
}

/// Half-loaded state is about to be loaded again.
void Trainer::start_to_load() {
  state_->expect_weights("a load");
  state_->half_loaded.clear();
  start();
}

}  // namespace weft
