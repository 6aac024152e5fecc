// Console: shows a run's reports on standard output, as a redrawn line on a terminal and as plain lines elsewhere.
//
// A training does not end because its log cannot be written: it goes on, its weights are saved, and failure() says so at the
// end.
#pragma once

#include <string>

#include "weft/report/progress.h"

namespace weft {

class Console {
 public:
  Console();
  void line(const std::string& text);
  void step(const StepReport& report);
  void evaluation(const EvaluationReport& report);
  void save(const SaveReport& report);
  /// A line between others.
  void note(const std::string& text);
  void finish(const FinalReport& report);
  /// Leaves a terminal at the start of a line, before an error is printed.
  void end_line();
  /// Why some of it could not be written; empty: all was.
  const std::string& failure() const { return failure_; }

 private:
  void write(const std::string& text);

  Progress progress_;
  std::string failure_;
};

}  // namespace weft
