// The part of Trainer that keeps an average of the weights and swaps it in.
#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/checkpoint/format/saved_checkpoint.h"
#include "weft/engine/memory_ledger.h"
#include "weft/train/trainer/trainer.h"
#include "weft/train/trainer/trainer_state.h"

namespace weft {

void TrainerState::start_average(int block, std::vector<at::Tensor>& state) const {
  if (options.average.is_kept()) state.back().copy_(model->flat(block).master);
}

void TrainerState::exchange_average() {
  const MemoryLedger::Attached attached(options.ledger);
  engine->fill_state(
      [this](int block, std::vector<at::Tensor>& state) { exchange_values(model->flat(block).master, state.back()); });
}

void TrainerState::expect_weights(const char* what) const {
  if (!average_stands_in) return;
  throw InputError(fmt::format("trainer: {} while the average stands in for the weights; leave with_average() first", what));
}

bool Trainer::keeps_average() const { return state_->options.average.is_kept(); }

void Trainer::with_average(const std::function<void()>& call) {
  TrainerState& s = *state_;
  if (!keeps_average()) {
    throw InputError("trainer: no average of the weights is kept; set TrainerOptions::average (optimizer.ema)");
  }
  s.expect_between_steps();
  s.expect_weights("with_average()");
  start();
  const auto exchange = [&s] {
    s.exchange_average();
    s.engine->gather_whole();
  };
  s.attempt("exchanging the weights for their average", exchange);
  s.average_stands_in = true;
  try {
    call();
  } catch (...) {
    s.average_stands_in = false;
    try {
      if (s.attempts.failed()) {
        s.exchange_average();  // only this rank's share: other ranks may have failed
      } else {
        s.attempt("putting the weights back", exchange);
      }
    } catch (const std::exception&) {  // the trainer cannot continue; the first error is reported
    }
    throw;
  }
  s.average_stands_in = false;
  s.attempt("putting the weights back", exchange);
}

}  // namespace weft
