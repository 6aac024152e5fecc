// Console: shows a run's reports on standard output, as a redrawn line on a terminal and as plain lines elsewhere.
#pragma once

#include <string>

#include "weft/train/progress.h"

namespace weft {

class Console {
 public:
  Console();
  void line(const std::string& text) const;
  void step(const StepReport& report);
  void evaluation(const EvaluationReport& report);
  void finish(const FinalReport& report);
  /// Before an error is printed.
  void end_line();

 private:
  Progress progress_;
};

}  // namespace weft
