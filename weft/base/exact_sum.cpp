#include "weft/base/exact_sum.h"

namespace weft {

void ExactSum::add(double value) {
  constexpr int64_t kFull = int64_t{1} << 62;
  const ExactDigits number = exact_digits(value);
  if (!number.is_summable) ++words_[kWords];
  bool is_full = false;
  for (int i = 0; i < 3 && number.word + i < kWords; ++i) {
    words_[number.word + i] += static_cast<int64_t>(number.digits[i]);
    is_full = is_full || words_[number.word + i] >= kFull;
  }
  if (is_full) carry();
}

void ExactSum::carry() { carry_digits(words_.data()); }

double ExactSum::value() const { return exact_value(words_.data()); }

}  // namespace weft
