// Progress: what a person sees of a run: a line every so many steps, 20 to 40 of a run or more of a long one, after steps that
// are multiples of 1, 2 or 5 times a power of ten. On a terminal one line more is redrawn in place below them.
//
// Nothing here prints or asks the terminal: reports, time and width go in, text comes out, and the caller writes it in one
// piece (so a redraw does not flicker).
#pragma once

#include <string>

#include "weft/report/report.h"

namespace weft {

/// Where a run is shown, and how often.
struct ProgressOptions {
  bool terminal = false;      ///< one line redrawn below the others; false: a log
  double redraw_s = 0.1;      ///< terminal: least time between redraws
  double longest_gap_s = 30;  ///< about the longest time between lines
};

/// Makes the text that shows a run, report by report.
class Progress {
 public:
  /// Nothing is shown yet.
  explicit Progress(const ProgressOptions& options) : options_(options) {}

  /// The text after a step, empty where none is due. `now_s` is any clock that runs evenly, `width` the terminal's columns now.
  std::string step(const StepReport& report, double now_s, int width);
  /// The text after an evaluation; on a terminal the redrawn line comes after it.
  std::string evaluation(const EvaluationReport& report, int width);
  /// The same for a line of another kind.
  std::string line(const std::string& text, int width);
  /// The table; leaves the terminal at the start of a line.
  std::string finish(const FinalReport& report);
  /// What leaves the terminal at the start of a line, for an error that comes next.
  std::string end_line();

 private:
  std::string redraw(int width) const;
  bool line_is_due(const StepReport& report, double now_s) const;

  ProgressOptions options_;
  bool drawn_ = false;  ///< the terminal's line stands there
  double drawn_s_ = 0.0;
  int64_t first_step_ = 0;  ///< that was reported; 0: none
  double first_s_ = 0.0;    ///< when
  StepReport last_;
};

/// A terminal's line: " 420/2000 [=====>      ]  loss 2.3456  12.3 k tokens/s  lr 0.0003  83 s left", at most `width` columns:
/// the learning rate gives way first, then the bar, the rate, the time left, the loss.
std::string progress_bar(const StepReport& report, int width);
/// The line of a step: "step  420/2000  loss 2.3456  norm 0.812  12.3 k tokens/s  lr 0.0003  83 s left". At most 80 columns:
/// the time left gives way first, then the learning rate.
std::string progress_line(const StepReport& report);
/// The line for an evaluation: "evaluation after step 500: loss 2.0723  accuracy 40.36 %  (6.55 s)".
std::string evaluation_line(const EvaluationReport& report);
/// The line for a checkpoint: "saved runs/a/step-00000500: 126 MiB in 310 ms, steps stood still for 21.0 ms".
std::string save_line(const SaveReport& report);
/// The end of a run as a table: time, rate, loss, accuracy, peak memory a rank, communication share and bytes. A last line
/// warns of a loss that has gone up tenfold.
std::string final_table(const FinalReport& report);

}  // namespace weft
