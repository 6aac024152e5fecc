// Console: prints a run's reports to standard output, as a redrawn line on a terminal and as plain lines elsewhere.
//
// A training does not fail because its log cannot be written: it continues, saves its weights, and failure() reports the
// problem at the end.
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
  /// Prints a line between others.
  void note(const std::string& text);
  void finish(const FinalReport& report);
  /// Leaves a terminal at the start of a line, before an error is printed.
  void end_line();
  /// Why some output could not be written; empty if all was.
  const std::string& failure() const { return failure_; }

 private:
  void write(const std::string& text);

  Progress progress_;
  std::string failure_;
};

}  // namespace weft
