// A few functions over yaml-cpp's emitter, so that a manifest's code reads like the manifest.
#pragma once

#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>

#include <string>
#include <type_traits>

namespace weft {

/// Writes a comment after the last value, unless it is empty.
inline void remark(YAML::Emitter& out, const std::string& comment) {
  if (!comment.empty()) out << YAML::Comment(comment);
}
/// Writes a string that stays a string: in quotes if it would be a number, a truth value or null.
void put_text(YAML::Emitter& out, const std::string& text, const std::string& comment = "");
/// Writes a key with a text, a number or a truth value.
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
/// Writes multi-line text, as lines if YAML allows it. The key may be any string: it stays one, as with put_text().
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
/// Writes a list element.
template <class Body>
void put_item(YAML::Emitter& out, Body&& body) {
  out << YAML::BeginMap;
  body();
  out << YAML::EndMap;
}
/// Writes a list element that begins with its name.
template <class Body>
void put_named(YAML::Emitter& out, const std::string& name, Body&& body) {
  put_item(out, [&] {
    put(out, "name", name);
    body();
  });
}

}  // namespace weft
