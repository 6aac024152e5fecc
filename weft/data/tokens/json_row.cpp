#include "weft/data/tokens/json_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <vector>

#include "weft/base/file_kind.h"
#include "weft/base/printable.h"
#include "weft/base/utf8.h"

namespace weft {
namespace {

constexpr size_t kDeepestValue = 512;  ///< nested lists and objects

/// Fault of a row.
struct Wrong {
  std::string what;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Removes the leading digits of `text` and returns their number.
size_t take_digits(std::string_view& text) {
  const size_t count = static_cast<size_t>(std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
  text.remove_prefix(count);
  return count;
}

bool take_one(std::string_view& text, std::string_view of) {
  const bool is_there = !text.empty() && of.find(text[0]) != std::string_view::npos;
  if (is_there) text.remove_prefix(1);
  return is_there;
}

/// True for JSON numbers of any size.
bool is_json_number(std::string_view word) {
  take_one(word, "-");
  const bool begins_with_zero = word.starts_with('0');
  const size_t whole = take_digits(word);
  if (whole == 0 || (begins_with_zero && whole > 1)) return false;
  if (take_one(word, ".") && take_digits(word) == 0) return false;
  if (take_one(word, "eE")) {
    take_one(word, "+-");
    if (take_digits(word) == 0) return false;
  }
  return word.empty();
}

bool is_word(std::string_view word) {
  constexpr std::string_view kWords[] = {"true", "false", "null", "NaN", "Infinity", "-Infinity"};
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords) || is_json_number(word);
}

/// Scans a row once. Not nlohmann's parser, which stops at a NaN and reports neither place nor column.
class Scanner {
 public:
  explicit Scanner(std::string_view row) : row_(row), at_(row.starts_with("\xef\xbb\xbf") ? 3 : 0) {}

  std::string_view find(const std::string& column) {
    check_object();
    take('{');
    std::string_view found;
    for (bool more = !take('}'); more; more = !take('}')) {
      if (!found_key_.empty() && !take(',')) fail("',' or '}' is expected");
      found_key_ = key();
      const size_t begin = begin_of_next();
      skip_value();
      if (is(column)) found = row_.substr(begin, at_ - begin);
    }
    found_key_ = {};
    if (begin_of_next() < row_.size()) fail("the row should end; write one object per line");
    if (found.empty()) throw Wrong{fmt::format("it has no '{}'", column)};
    return found;
  }

 private:
  size_t begin_of_next() { return at_ = std::min(row_.find_first_not_of(" \t\r\n", at_), row_.size()); }
  char peek() const {
    if (at_ < row_.size()) return row_[at_];
    throw Wrong{fmt::format("it is truncated{}", within())};
  }
  /// Takes `c` after blanks, if it is next.
  bool take(char c) {
    begin_of_next();
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  std::string within() const { return found_key_.empty() ? "" : fmt::format(", within {}", shortened(found_key_, 100)); }
  [[noreturn]] void fail(const std::string& what) const {
    const char c = peek();
    const std::string there = c == '\'' ? "an apostrophe" : fmt::format("'{}'", printable(std::string_view(&c, 1)));
    throw Wrong{fmt::format("it is not JSON{}: {} at byte {}, where {}", within(), there, at_, what)};
  }

  /// Rejects a row that is not an object, and says what it is.
  void check_object() {
    begin_of_next();
    const char first = peek();
    const bool is_wide = row_.size() > 3 && (first == '\0' || row_.substr(at_).starts_with(std::string_view("{\0", 2)));
    if (is_wide) throw Wrong{"it is text in UTF-16 or UTF-32; convert the file to UTF-8 (iconv -f UTF-16 -t UTF-8)"};
    if (first == '{') return;
    const FileKind kind = file_kind(row_);
    if (kind && kind.what != "text") throw Wrong{fmt::format("it is {}; {}", kind.what, kind.advice)};
    if (first == '[') throw Wrong{"it is an array, not an object; write one object per line (jq -c '.[]')"};
    const size_t begin = at_;
    skip_value();
    const std::string_view value = row_.substr(begin, at_ - begin);
    throw Wrong{fmt::format("it is {}, not an object", first == '"' ? "text" : is_json_number(value) ? "a number" : value)};
  }

  /// Takes a key and its colon; returns it as written, with quotes.
  std::string_view key() {
    const size_t begin = begin_of_next();
    if (peek() != '"') fail("a key in double quotes is expected");
    skip_string();
    const std::string_view key = row_.substr(begin, at_ - begin);
    if (!take(':')) fail("':' is expected");
    return key;
  }

  bool is(const std::string& column) const {
    if (found_key_.find('\\') == std::string_view::npos) return found_key_.substr(1, found_key_.size() - 2) == column;
    const nlohmann::json key = nlohmann::json::parse(found_key_, nullptr, false);
    return key.is_string() && key.get_ref<const std::string&>() == column;
  }

  /// Skips a value. Open lists and objects are kept in a list, not on the stack, which a deep row would overflow.
  void skip_value() {
    std::vector<char> ends;  // closing brackets of open lists and objects
    do {
      begin_of_next();
      const char c = peek();
      if (c == '"') {
        skip_string();
      } else if (c == '[' || c == '{') {
        ++at_;
        ends.push_back(c == '[' ? ']' : '}');
        if (ends.size() >= kDeepestValue) throw Wrong{fmt::format("it nests deeper than {} levels{}", kDeepestValue, within())};
        if (take(ends.back())) {
          ends.pop_back();
        } else {
          if (c == '{') key();
          continue;
        }
      } else {
        skip_word();
      }
      skip_ends(ends);
    } while (!ends.empty());
  }

  /// After a value of a list or object, skips closing brackets and the comma before the next value.
  void skip_ends(std::vector<char>& ends) {
    while (!ends.empty() && take(ends.back())) ends.pop_back();
    if (ends.empty()) return;
    if (!take(',')) fail(fmt::format("',' or '{}' is expected", ends.back()));
    if (ends.back() == '}') key();
  }

  void skip_word() {
    const size_t begin = at_;
    const auto belongs = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '+' || c == '-' || c == '.';
    };
    while (at_ < row_.size() && belongs(row_[at_])) ++at_;
    if (is_word(row_.substr(begin, at_ - begin))) return;
    if (at_ > begin) peek();  // it may be truncated
    at_ = begin;
    fail("a value is expected");
  }

  void skip_string() {
    ++at_;
    while (peek() != '"') {
      const auto c = static_cast<unsigned char>(row_[at_]);
      if (c >= 0x80) {
        skip_character();
      } else if (c == '\\') {
        skip_escape();
      } else {
        if (c < 0x20) fail("text must continue; escape control characters");
        ++at_;
      }
    }
    ++at_;
  }

  void skip_escape() {
    ++at_;
    const char c = peek();
    if (std::string_view("\"\\/bfnrtu").find(c) == std::string_view::npos) fail("a valid escape is expected");
    ++at_;
    for (int digit = 0; c == 'u' && digit < 4; ++digit, ++at_) {
      if (std::isxdigit(static_cast<unsigned char>(peek())) == 0) fail("a hexadecimal digit is expected");
    }
  }

  /// Skips a multi-byte character.
  void skip_character() {
    const size_t bytes = first_character(row_.substr(at_)).bytes;
    at_ += bytes;
    if (bytes > 0) return;
    throw Wrong{fmt::format("byte 0x{:02x} at {}{} is not UTF-8; convert the file (if it is Latin-1: iconv -f LATIN1 -t UTF-8)",
                            static_cast<unsigned char>(row_[at_]), at_, within())};
  }

  const std::string_view row_;
  size_t at_;
  std::string_view found_key_;  ///< key of the current value, with quotes
};

}  // namespace

JsonValue find_json_value(std::string_view row, const std::string& column) {
  try {
    return {.text = Scanner(row).find(column), .wrong = {}};
  } catch (const Wrong& wrong) {
    return {.text = {}, .wrong = wrong.what};
  }
}

}  // namespace weft
