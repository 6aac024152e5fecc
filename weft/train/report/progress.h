// Progress: what a person sees of a run. On a terminal one line redrawn in place; in a log plain lines now and then.
//
// Nothing here prints or asks the terminal: reports, time and width go in, text comes out, and the caller writes it in one
// piece (so a redraw does not flicker).
#pragma once

#include <string>

#include "weft/train/report/report.h"

namespace weft {

struct ProgressOptions {
  bool terminal = false;
  double redraw_s = 0.1;      ///< terminal: least time between redraws
  double line_s = 1.0;        ///< log: least time between lines, of which there are about 20
  double longest_gap_s = 30;  ///< log: a line at least this often
};

class Progress {
 public:
  explicit Progress(const ProgressOptions& options) : options_(options) {}

  /// `now_s` is any clock that runs evenly, `width` the terminal's columns now. May return nothing.
  std::string step(const StepReport& report, double now_s, int width);
  std::string evaluation(const EvaluationReport& report, int width);
  /// The table; leaves the terminal at the start of a line.
  std::string finish(const FinalReport& report);
  /// Leaves the terminal at the start of a line, for an error that comes next.
  std::string end_line();

 private:
  std::string redraw(int width) const;
  bool line_is_due(const StepReport& report, double now_s) const;

  ProgressOptions options_;
  bool drawn_ = false;
  double drawn_s_ = 0.0;
  StepReport last_;
};

/// " 420/2000 [=====>      ]  loss 2.3456  12.3 k tokens/s  lr 3.00e-04  1 min 23 s left", at most `width` columns: the
/// learning rate gives way first, then the bar, the rate, the time left, the loss.
std::string progress_bar(const StepReport& report, int width);
std::string progress_line(const StepReport& report);
std::string evaluation_line(const EvaluationReport& report);
/// Time, rate, loss, accuracy, peak memory a rank, communication share and bytes.
std::string final_table(const FinalReport& report);

}  // namespace weft
