// JSON of exported programs, which may be damaged or a stranger's: what nlohmann's parser and conversions leave unchecked.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace weft {

/// Parses a text. Throws Json::exception, also for nesting that no program has: copies and texts of such values recurse.
template <class Json>
Json parse_exported(const std::string& text) {
  return Json::parse(text, [](int depth, typename Json::parse_event_t, Json&) {
    constexpr int kDeepest = 64;
    if (depth > kDeepest) throw Json::other_error::create(501, "it is nested too deep", nullptr);
    return true;
  });
}

/// Returns an integer. Throws Json::exception for another kind of value, and for one out of range.
template <class Json>
int64_t exported_integer(const Json& json) {
  const bool fits = json.is_number_integer() && (!json.is_number_unsigned() || json.template get<uint64_t>() <= INT64_MAX);
  if (!fits) throw Json::type_error::create(302, "type must be an integer of 64 bits", &json);
  return json.template get<int64_t>();
}

}  // namespace weft
