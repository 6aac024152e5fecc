// Few words over yaml-cpp's emitter, so that a manifest's code reads as the manifest does.
#pragma once

#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>

#include <string>
#include <type_traits>

namespace weft {

/// A comment behind what was put last, where there is one.
inline void remark(YAML::Emitter& out, const std::string& comment) {
  if (!comment.empty()) out << YAML::Comment(comment);
}
/// A string that stays one for whoever reads it: in quotes where it would be a number, a truth value or nothing.
void put_text(YAML::Emitter& out, const std::string& text, const std::string& comment = "");
/// A key with a text, a number or a truth value.
template <class Value>
void put(YAML::Emitter& out, const char* key, const Value& value, const std::string& comment = "") {
  out << YAML::Key << key << YAML::Value;
  if constexpr (std::is_convertible_v<const Value&, std::string>) {
    put_text(out, value, comment);
  } else {
    out << value;
    remark(out, comment);
  }
}
/// Text of several lines, as lines where YAML can have them so. The key is anybody's: it stays a string as put_text()'s are.
void put_lines(YAML::Emitter& out, const std::string& key, const std::string& text);

template <class Body>
void put_map(YAML::Emitter& out, const char* key, Body&& body) {
  out << YAML::Key << key << YAML::Value << YAML::BeginMap;
  body();
  out << YAML::EndMap;
}
template <class Body>
void put_list(YAML::Emitter& out, const char* key, Body&& body) {
  out << YAML::Key << key << YAML::Value << YAML::BeginSeq;
  body();
  out << YAML::EndSeq;
}
/// A list's next element.
template <class Body>
void put_item(YAML::Emitter& out, Body&& body) {
  out << YAML::BeginMap;
  body();
  out << YAML::EndMap;
}
/// A list's next element, whose name comes first.
template <class Body>
void put_named(YAML::Emitter& out, const std::string& name, Body&& body) {
  put_item(out, [&] {
    put(out, "name", name);
    body();
  });
}

}  // namespace weft
