#include "weft/launch/kubernetes/yaml_text.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace weft {
namespace {

/// Words that YAML 1.1, which Kubernetes reads, does not read as strings.
constexpr std::array<std::string_view, 9> kTaken = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"};

bool is_safe(const std::string& text) {
  if (text.empty()) return false;
  const bool is_option = text.starts_with("--");
  if (!is_option && std::isalpha(static_cast<unsigned char>(text[0])) == 0 && text[0] != '/') return false;
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::find(kTaken.begin(), kTaken.end(), lower) == kTaken.end();
}

}  // namespace

void put_text(YAML::Emitter& out, const std::string& text, const std::string& comment) {
  if (!is_safe(text)) out << YAML::DoubleQuoted;
  out << text;
  remark(out, comment);
}

void put_lines(YAML::Emitter& out, const std::string& key, const std::string& text) {
  // Reads the text back to see whether a literal block would change it: leading blanks, a missing or repeated final line end,
  // control characters.
  YAML::Emitter trial;
  trial << YAML::Literal << text;
  bool whole = text.ends_with('\n') && text.find('\t') == std::string::npos && text.find('\r') == std::string::npos;
  try {
    whole = whole && YAML::Load(std::string(trial.c_str()) + "\n").as<std::string>() == text;
  } catch (const YAML::Exception&) {
    whole = false;
  }
  out << YAML::Key;
  put_text(out, key);
  out << YAML::Value;
  if (whole) {
    out << YAML::Literal << text;
  } else {
    out << YAML::DoubleQuoted << text;
  }
}

}  // namespace weft
