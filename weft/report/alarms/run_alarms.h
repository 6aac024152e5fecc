// RunAlarms: tells while a run trains that it goes wrong: from its losses, norms, times and evaluations, as each becomes known.
//
// Each alarm is raised once, and again only after the run has been well meanwhile. Rules and limits: docs/records.md.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft {

/// What is wrong.
enum class AlarmKind { divergence, gradients, data, throughput, evaluation, accuracy, memory, idle };
/// "divergence", "gradients", ...
const char* alarm_name(AlarmKind kind);

struct Alarm {
  AlarmKind kind = AlarmKind::divergence;
  std::string text = {};     ///< what was seen: "the loss has risen from 2.1 to 24"
  std::string look_at = {};  ///< what may help: "a lower optimizer.lr, ..."
};

/// What a step shows.
struct SeenStep {
  int64_t step = 0;
  double loss = 0.0;
  double norm = 0.0;          ///< of the gradients; 0: not measured
  double step_s = 0.0;        ///< the step's time
  double data_s = 0.0;        ///< of it, waiting for samples
  int64_t samples = 0;        ///< in the step
  double memory_bytes = 0.0;  ///< of this process, where it was read again; 0: it was not
};

/// What an evaluation of the data's own set shows.
struct SeenEvaluation {
  int64_t step = 0;
  double loss = 0.0;
  std::optional<double> accuracy = {};  ///< 0 to 1
};

class RunAlarms {
 public:
  /// `chance`: accuracy of guessing, 1 / classes; empty: unknown.
  explicit RunAlarms(std::optional<double> chance = {}) : chance_(chance) {}

  std::vector<Alarm> add(const SeenStep& step);
  std::vector<Alarm> add(const SeenEvaluation& evaluation);
  /// "the loss had risen from 5.56 (step 1) to 5.03e+17 (step 9): ..." if it is ten times the first; else empty.
  std::string rise() const;

 private:
  /// Numbers of the last steps, the newest last.
  class Window {
   public:
    explicit Window(size_t most) : most_(most) {}
    void add(double value);
    size_t size() const { return values_.size(); }
    double mean(size_t newest = 0) const;    ///< of all, or of the newest
    double median(size_t newest = 0) const;  ///< of all, or of the newest
    /// Mean and standard deviation of all but the newest.
    std::pair<double, double> before(size_t newest) const;

   private:
    size_t most_;
    std::deque<double> values_;
  };
  struct Switch {
    bool on = false;
    /// Returns true where `wrong` begins; `well` re-arms.
    bool turns(bool wrong, bool well);
  };

  void look_at_loss(const SeenStep& step, std::vector<Alarm>& alarms);
  void look_at_norm(const SeenStep& step, std::vector<Alarm>& alarms);
  void look_at_times(const SeenStep& step, std::vector<Alarm>& alarms);
  void look_at_memory(const SeenStep& step, std::vector<Alarm>& alarms);

  std::optional<double> chance_;
  Window losses_{200}, norms_{200}, data_shares_{50}, rates_{20};
  std::optional<std::pair<int64_t, double>> first_;  ///< step and its loss
  std::pair<int64_t, double> last_;
  double first_losses_ = 0.0;                      ///< the largest of the first steps
  std::optional<double> first_mean_, least_mean_;  ///< of losses over some steps
  double best_rate_ = 0.0;                         ///< samples/s, median over some steps
  int is_fast_for_ = 0;                            ///< steps
  int64_t steps_ = 0, last_samples_ = 0;
  std::vector<std::pair<int64_t, double>> memory_;  ///< steps and bytes, rising
  std::optional<double> best_evaluation_;
  int worse_ = 0, at_chance_ = 0;  ///< evaluations in a row
  Switch diverges_, jumps_, explodes_, starves_, slows_, leaks_, worsens_, guesses_;
};

}  // namespace weft
