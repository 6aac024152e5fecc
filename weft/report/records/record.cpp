#include "weft/report/records/record.h"

#include <algorithm>
#include <chrono>

namespace weft {

std::optional<double> value_of(const RecordValues& values, std::string_view name) {
  const auto found = std::find_if(values.begin(), values.end(), [&](const RecordValue& value) { return value.name == name; });
  return found == values.end() ? std::nullopt : std::optional(found->value);
}

std::string detail_of(const EventRecord& event, std::string_view name) {
  const auto found =
      std::find_if(event.details.begin(), event.details.end(), [&](const auto& one) { return one.first == name; });
  return found == event.details.end() ? "" : found->second;
}

double unix_time_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace weft
