// Steps of a Trainer: issued, and settled once the host knows their numbers.
#include <c10/util/FunctionRef.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weft/base/error.h"
#include "weft/engine/failed_step.h"
#include "weft/train/trainer/bad_step.h"
#include "weft/train/trainer/rank_batch.h"
#include "weft/train/trainer/trainer.h"
#include "weft/train/trainer/trainer_checks.h"
#include "weft/train/trainer/trainer_state.h"

namespace weft {

Batch TrainerState::handed_out(const std::function<Batch()>& next) {
  struct Ends {
    bool& hands_out;
    ~Ends() { hands_out = false; }
  } const ends{hands_out};
  hands_out = true;
  return own_thread->as_caller(next);
}

void TrainerState::submit(const std::function<Batch()>& next) {
  start();
  const MemoryLedger::Attached attached(options.ledger);
  enter_phase();
  SubmittedStep own{.step = steps_done, .rate = rate_at(options.learning_rate, options.rate_phases, steps_done), .taken = {}};
  updater->begin(own.step, own.rate);
  const at::Device device = options.communication.device;
  const bool compares = !std::exchange(has_compared, true);
  SampleCheck samples;
  const auto load = [&] {
    Batch batch = handed_out(next);
    check_micro_batch(batch, options.micro_batch);
    if (compares && !samples.has_batch()) {
      samples.record(batch);
      for (const AxisSet axis : {kTensorAxis, kContextAxis}) samples.compare(groups.by_axes.along(axis), axis, device);
    }
    own.taken.push_back(batch);
    return to_device(std::move(batch), device, uploads);
  };
  try {
    engine->submit(own.step, load);
  } catch (const FailedStep& error) {
    repeat(own, error.what());
  }
  if (engine->unread() == 0) own.taken.clear();  // it has not failed
  if (audit) audit->after_step();
  // Stages load at different times, and middle stages do not load.
  if (compares) samples.compare(groups.by_axes.along(kPipelineAxis), kPipelineAxis, device);
  submitted.push_back(std::move(own));
  ++steps_done;
}

void TrainerState::begin_audit() {
  attempt("the audit", [this] {
    start();
    audit->begin();
  });
}

/// Throws what was wrong with the step that failed with the error `wrong`.
void TrainerState::repeat(SubmittedStep& failed, const std::string& wrong) {
  const at::Device device = options.communication.device;
  submitted.clear();
  steps_done = failed.step;
  updater->begin(failed.step, failed.rate);
  if (audit) audit->cancel();
  auto batch = failed.taken.begin();
  BadStep bad(failed.step, wrong, {});
  try {
    engine->repeat(failed.step, [&] { return to_device(*batch++, device, uploads); });
  } catch (const BadStep& found) {
    bad = found;
  } catch (const InputError&) {
    throw;  // it says what was wrong
  } catch (const LostRank& error) {
    throw LostRank(error.rank(), fmt::format("{}; while it was repeated: {}", wrong, error.what()));
  } catch (const CommError& error) {
    throw CommError(fmt::format("{}; while it was repeated: {}", wrong, error.what()));
  } catch (const std::exception& error) {  // such as too little memory for the checks
    bad = BadStep(failed.step, fmt::format("{}; repeating the step to find the cause failed: {}", wrong, error.what()), {});
  }
  try {
    bad = agreed_on(bad, mesh, options);
  } catch (const std::exception& error) {
    throw BadStep(failed.step, fmt::format("{}; the ranks could not agree on the cause: {}", bad.what(), error.what()), {});
  }
  if (!options.on_bad_step) throw bad;
  const std::string more = own_thread->as_caller([&] { return options.on_bad_step(bad, failed.taken); });
  throw BadStep(bad.step(), bad.wrong(), bad.findings(), more.empty() ? "" : "; " + more);
}

/// Reads the steps whose results the host knows, as a failure would drop them, and all before the program changes.
void TrainerState::finish_phase() {
  if (engine && (engine->unread() == 0 || batches.phase_at(steps_done) != phase || shift != engine_shift)) read_all();
}

/// The host's wait alone needs no device.
void TrainerState::read_oldest() {
  const std::string what = fmt::format("step {}", submitted.front().step + 1);
  StepResult result;
  const auto read = [&] {
    SubmittedStep oldest = std::move(submitted.front());
    submitted.pop_front();
    try {
      result = engine->settle();
    } catch (const FailedStep& error) {
      in_own_thread(what, [&] { repeat(oldest, error.what()); });
    }
  };
  attempts.run(what, [&] { as_error(what, [&] { groups.checked(read); }); });
  divisor = result.divisor;
  results.push_back(std::move(result));
}

void TrainerState::read_all() {
  while (!submitted.empty()) read_oldest();
}

void TrainerState::keep_results() noexcept {
  try {
    while (!submitted.empty()) {
      StepResult result = engine->settle();
      groups.throw_if_failed();  // an abort ends the wait, and leaves any numbers
      results.push_back(std::move(result));
      submitted.pop_front();
    }
  } catch (...) {  // the caller has the first error
    steps_done = submitted.front().step;
    submitted.clear();
  }
}

void Trainer::submit(const Next& next) {
  state_->expect_weights("a step");
  if (!state_->has_trained) {
    throw InputError(
        "trainer: the model has nothing to train: all its parameters are frozen, or it has none; leave "
        "requires_grad on some before the trainer is made, or only evaluate");
  }
  state_->check_caller();
  state_->finish_phase();
  const bool is_audited = state_->options.audit_every > 0 && (state_->steps_done + 1) % state_->options.audit_every == 0;
  if (is_audited) state_->begin_audit();
  try {
    state_->attempt_beside_steps(fmt::format("step {}", state_->steps_done + 1), [&] { state_->submit(next); });
  } catch (...) {
    state_->keep_results();
    throw;
  }
  if (is_audited) state_->attempt("the audit", [&] { state_->audit->end(); });
}

void Trainer::submit(Loader& loader) {
  const InstructionList& list = state_->current().of(state_->rank);
  const bool loads = std::any_of(list.begin(), list.end(), [](const Instruction& x) { return x.op == Op::load; });
  if (loads && loader.next_step() != state_->steps_done) {
    throw InputError(fmt::format(
        "trainer: the loader is at the samples of step {}, but step {} is next; make it with loader_options(), after a "
        "load() if there is one",
        loader.next_step() + 1, state_->steps_done + 1));
  }
  submit([&loader] { return loader.next(); });
}

namespace {

/// A copy that the caller cannot refill, pinned if the tensor is.
at::Tensor own(const at::Tensor& x) {
  if (!x.defined()) return x;
  return x.is_cpu() && x.is_pinned() ? x.clone().pin_memory() : x.clone();
}

Batch own(Batch batch) {
  for (at::Tensor& input : batch.inputs) input = own(input);
  batch.target = own(batch.target);
  return batch;
}

/// Hands out the parts of this rank's share of a step.
Trainer::Next micro_batches_of(const TrainerState& s, const Batch& batch) {
  const int64_t global_batch = s.batches.at(s.steps_done), share = global_batch / s.data_ranks;
  const std::string misfit = samples_misfit(batch, share);
  if (!misfit.empty()) {
    throw InputError(fmt::format(
        "trainer: {} in a batch on rank {}, must have {} (global batch {} over {} data-parallel ranks); of a DataLoader set "
        "drop_last=True",
        misfit, s.mesh.world().rank(), share, global_batch, s.data_ranks));
  }
  return [batch, micro = s.options.micro_batch, begin = int64_t{0}]() mutable {
    Batch part{.inputs = {}, .target = batch.target.narrow(0, begin, micro)};
    for (const at::Tensor& input : batch.inputs) part.inputs.push_back(input.narrow(0, begin, micro));
    begin += micro;
    return part;
  };
}

}  // namespace

void Trainer::submit(const Batch& batch) {
  const bool reads_now = state_->options.communication.device.is_cpu();
  submit(micro_batches_of(*state_, reads_now ? batch : own(batch)));
}

const AuditReport* Trainer::last_audit() const { return state_->audit ? state_->audit->last() : nullptr; }

StepResult Trainer::settle() {
  TrainerState& s = *state_;
  if (s.results.empty() && s.submitted.empty()) {
    if (s.attempts.failed()) s.attempt_beside_steps("a result", [] {});
    throw InputError("trainer: settle() without a step to settle; submit() one first");
  }
  if (s.results.empty()) s.read_oldest();
  StepResult result = std::move(s.results.front());
  s.results.pop_front();
  return result;
}

int64_t Trainer::unsettled() const { return static_cast<int64_t>(state_->results.size() + state_->submitted.size()); }
bool Trainer::reads_late() const { return state_->engine && state_->engine->unread() > 0; }

namespace {

StepResult whole_step(Trainer& trainer, c10::function_ref<void()> submit) {
  if (trainer.unsettled() > 0) {
    throw InputError(fmt::format("trainer: step() while {} not settled; call settle() first, or submit() instead of step()",
                                 trainer.unsettled() == 1 ? "a submitted step is" : "submitted steps are"));
  }
  submit();
  return trainer.settle();
}

}  // namespace

StepResult Trainer::step(const Next& next) {
  return whole_step(*this, [&] { submit(next); });
}
StepResult Trainer::step(Loader& loader) {
  return whole_step(*this, [&] { submit(loader); });
}
StepResult Trainer::step(const Batch& batch) {
  return whole_step(*this, [&] { submit(micro_batches_of(*state_, batch)); });
}

}  // namespace weft
