#include "weft/report/report.h"

namespace weft {

void BestEvaluation::add(const EvaluationReport& report) {
  if (!loss || report.loss < loss->value) loss = {report.loss, report.step};
  if (report.accuracy && (!accuracy || *report.accuracy > accuracy->value)) accuracy = {*report.accuracy, report.step};
}

std::string name_beside(const EvaluationReport& first, const EvaluationReport& other) {
  if (!first.averaged || other.averaged) return other.set;
  return other.set.empty() ? "not averaged" : other.set + ", not averaged";
}

}  // namespace weft
