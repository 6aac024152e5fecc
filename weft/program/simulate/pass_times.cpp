#include "weft/program/simulate/pass_times.h"

namespace weft {

double PassTimes::seconds(const Instruction& x) {
  const double alone = work_.seconds(x);
  const std::vector<InnerCall>& calls = program_.inner_calls(x);
  if (calls.empty() || work_.is_measured(x)) return alone;
  PassTime& pass = passes_[&calls];
  if (pass.flops != x.flops || pass.alone != alone) pass = {x.flops, alone, network_.seconds(program_, x, alone)};
  return pass.seconds;
}

}  // namespace weft
