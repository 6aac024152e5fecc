#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "weft/base/error.h"
#include "weft/exported/operation.h"

namespace weft {
namespace {

/// Two results of one operator: on integers, and as soon as one is a float.
struct NumberRule {
  int64_t (*of_integers)(int64_t, int64_t);
  double (*of_floats)(double, double);
};

int64_t in_range(bool overflows, int64_t result) {
  if (overflows) throw InputError("model: a size exceeds the range of counts");
  return result;
}

int64_t added(int64_t a, int64_t b) {
  int64_t sum = 0;
  const bool overflows = __builtin_add_overflow(a, b, &sum);
  return in_range(overflows, sum);
}

int64_t subtracted(int64_t a, int64_t b) {
  int64_t difference = 0;
  const bool overflows = __builtin_sub_overflow(a, b, &difference);
  return in_range(overflows, difference);
}

int64_t multiplied(int64_t a, int64_t b) {
  int64_t product = 0;
  const bool overflows = __builtin_mul_overflow(a, b, &product);
  return in_range(overflows, product);
}

int64_t raised(int64_t base, int64_t exponent) {
  if (exponent < 0) throw InputError("model: a size is raised to a negative power");
  int64_t result = 1;
  while (exponent > 0) {
    if (exponent % 2 == 1) result = multiplied(result, base);
    exponent /= 2;
    if (exponent > 0) base = multiplied(base, base);
  }
  return result;
}

int64_t truncated(double value) {
  constexpr double kMost = 9.2e18;
  if (!(std::fabs(value) < kMost)) throw InputError("model: a size exceeds the range of counts");
  return static_cast<int64_t>(value);
}

int64_t floor_divided(int64_t a, int64_t b) {
  if (b == 0) throw InputError("model: a size is divided by zero");
  if (b == -1) return subtracted(0, a);
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

const std::map<std::string, NumberRule>& number_rules() {
  static const std::map<std::string, NumberRule> rules = {
      {"_operator.add", {added, [](double a, double b) { return a + b; }}},
      {"_operator.sub", {subtracted, [](double a, double b) { return a - b; }}},
      {"_operator.mul", {multiplied, [](double a, double b) { return a * b; }}},
      {"_operator.floordiv", {floor_divided, [](double a, double b) { return std::floor(a / b); }}},
      {"_operator.mod",
       {[](int64_t a, int64_t b) { return b == -1 ? 0 : a - b * floor_divided(a, b); },
        [](double a, double b) { return a - b * std::floor(a / b); }}},
      {"_operator.truediv", {nullptr, [](double a, double b) { return a / b; }}},
      {"_operator.pow", {raised, [](double a, double b) { return std::pow(a, b); }}},
      {"_operator.neg", {[](int64_t a, int64_t) { return subtracted(0, a); }, [](double a, double) { return -a; }}},
      {"torch.sym_max",
       {[](int64_t a, int64_t b) { return std::max(a, b); }, [](double a, double b) { return std::max(a, b); }}},
      {"torch.sym_min",
       {[](int64_t a, int64_t b) { return std::min(a, b); }, [](double a, double b) { return std::min(a, b); }}},
      {"torch.sym_float", {nullptr, [](double a, double) { return a; }}},
      {"torch._sym_sqrt", {nullptr, [](double a, double) { return std::sqrt(a); }}},
  };
  return rules;
}

double as_double(const c10::IValue& value) { return value.isInt() ? static_cast<double>(value.toInt()) : value.toDouble(); }

}  // namespace

bool is_arithmetic(const std::string& target) {
  return number_rules().count(target) > 0 || target == "torch.sym_int" || target == "math.trunc";
}

c10::IValue arithmetic(const std::string& target, const std::vector<c10::IValue>& operands) {
  const auto is_number = [](const c10::IValue& x) { return x.isInt() || x.isDouble(); };
  if (operands.empty() || operands.size() > 2 || !std::all_of(operands.begin(), operands.end(), is_number)) {
    throw InputError(fmt::format("model: operator {} on values that are not one or two numbers", target));
  }
  const c10::IValue &a = operands.front(), &b = operands.back();
  const auto rule = number_rules().find(target);
  if (rule == number_rules().end()) return a.isInt() ? a.toInt() : truncated(a.toDouble());
  const bool has_integers = a.isInt() && b.isInt();
  if (has_integers && rule->second.of_integers != nullptr) return rule->second.of_integers(a.toInt(), b.toInt());
  return rule->second.of_floats(as_double(a), as_double(b));
}

}  // namespace weft
