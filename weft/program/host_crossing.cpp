#include "weft/program/host_crossing.h"

namespace weft {

Way way_of(Op op) {
  if (op == Op::reduce_scatter) return Way::reduce_scatter;
  return op == Op::gather || op == Op::gather_gradients ? Way::all_gather : Way::all_reduce;
}

double whole_bytes(Way way, int64_t wire_bytes, int ranks) {
  const double n = ranks;
  return static_cast<double>(wire_bytes) * n / (n - 1.0) / (way == Way::all_reduce ? 2.0 : 1.0);
}

double wire_factor(bool narrow, Way way, double whole_bytes) {
  constexpr double kSmallBytes = 16 << 10;  // comm/hosts/host_operations.cpp
  return narrow && way != Way::all_gather && whole_bytes > kSmallBytes ? 0.5 : 1.0;
}

double crossing_share(Way way, int hosts, int ranks, int here) {
  const double n = ranks, h = hosts;
  if (way == Way::all_reduce) return 2.0 * (h - 1.0) / h;
  return way == Way::reduce_scatter ? (n - here) / n : here / n * (h - 1.0);
}

}  // namespace weft
