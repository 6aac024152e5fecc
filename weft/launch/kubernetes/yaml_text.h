// Few words over yaml-cpp's emitter, so that a manifest's code reads as the manifest does.
#pragma once

#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>

#include <string>

namespace weft {

/// A string that stays one for whoever reads it: in quotes where it would be a number, a truth value or nothing.
void put_text(YAML::Emitter& out, const std::string& text);
inline void put(YAML::Emitter& out, const char* key, const std::string& text) {
  out << YAML::Key << key << YAML::Value;
  put_text(out, text);
}
inline void put(YAML::Emitter& out, const char* key, const char* text) { put(out, key, std::string(text)); }
inline void put(YAML::Emitter& out, const char* key, int64_t number) { out << YAML::Key << key << YAML::Value << number; }
inline void put(YAML::Emitter& out, const char* key, int number) { put(out, key, int64_t{number}); }
inline void put(YAML::Emitter& out, const char* key, bool truth) { out << YAML::Key << key << YAML::Value << truth; }
/// Text of several lines, as lines where YAML can have them so.
void put_lines(YAML::Emitter& out, const char* key, const std::string& text);

/// A comment behind what was put last.
inline void remark(YAML::Emitter& out, const std::string& text) { out << YAML::Comment(text); }

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

}  // namespace weft
