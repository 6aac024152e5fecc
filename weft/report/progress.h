// Progress: text that shows a run. Lines are due after steps that are multiples of 1, 2 or 5 times a power of ten: 20 to 40
// lines per run, or more for a long one. On a terminal one more line is redrawn in place below them.
//
// Nothing here prints or queries the terminal: reports, time and width go in, text comes out, and the caller writes it in one
// piece to avoid flicker.
#pragma once

#include <string>

#include "weft/report/report.h"

namespace weft {

/// How and how often a run is shown.
struct ProgressOptions {
  bool terminal = false;      ///< one line redrawn below the others; false: a log
  double redraw_s = 0.1;      ///< terminal: minimum time between redraws
  double longest_gap_s = 30;  ///< target maximum time between lines
};

/// Builds the text that shows a run, report by report.
class Progress {
 public:
  /// Shows nothing yet.
  explicit Progress(const ProgressOptions& options) : options_(options) {}

  /// Text for a step; empty if none is due. `now_s` is any steady clock, `width` the terminal's current columns.
  std::string step(const StepReport& report, double now_s, int width);
  /// Text for an evaluation, followed by the redrawn line on a terminal.
  std::string evaluation(const EvaluationReport& report, int width);
  /// Text for any other line, followed by the redrawn line on a terminal.
  std::string line(const std::string& text, int width);
  /// Final table; leaves the terminal at the start of a line.
  std::string finish(const FinalReport& report);
  /// Text that moves the terminal to the start of a line, before an error.
  std::string end_line();

 private:
  std::string redraw(int width) const;
  bool line_is_due(const StepReport& report, double now_s) const;

  ProgressOptions options_;
  bool drawn_ = false;  ///< the redrawn line is on the screen
  double drawn_s_ = 0.0;
  int64_t first_step_ = 0;  ///< first reported step; 0: none
  double first_s_ = 0.0;    ///< time of that step
  StepReport last_;
};

/// The terminal's line: " 420/2000 [=====>      ]  loss 2.3456  12.3 k tokens/s  lr 0.0003  83 s left", at most `width`
/// columns: drops the learning rate first, then the bar, the rate, the time left, the loss.
std::string progress_bar(const StepReport& report, int width);
/// The line of a step: "step  420/2000  loss 2.3456  norm 0.812  12.3 k tokens/s  lr 0.0003  83 s left". At most 80 columns:
/// drops the time left first, then the learning rate.
std::string progress_line(const StepReport& report);
/// The line of an evaluation: "evaluation after step 500: loss 2.0723  accuracy 40.36 %  (6.55 s)".
std::string evaluation_line(const EvaluationReport& report);
/// The line of a checkpoint: "saved runs/a/step-00000500: 126 MiB in 310 ms, steps paused for 21.0 ms".
std::string save_line(const SaveReport& report);
/// The end of a run as a table: time, rate, loss, accuracy, peak memory per rank, communication share and bytes. A last line
/// warns if the loss has risen tenfold.
std::string final_table(const FinalReport& report);

}  // namespace weft
