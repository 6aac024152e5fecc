#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <utility>

namespace weft::fuzz {
namespace {

using test::Random;

const std::vector<std::string> kNumbers = {"0",
                                           "-1",
                                           "1",
                                           "2",
                                           "3",
                                           "7",
                                           "16",
                                           "64",
                                           "1000",
                                           "65536",
                                           "1000000",
                                           "2147483647",
                                           "2147483648",
                                           "-2147483649",
                                           "4294967296",
                                           "9223372036854775807",
                                           "9223372036854775808",
                                           "-9223372036854775808",
                                           "99999999999999999999999",
                                           "1e6",
                                           "1e308",
                                           "1e-308",
                                           "1e400",
                                           "0.5",
                                           "-0.0",
                                           "nan",
                                           "inf",
                                           "-inf",
                                           "0x10",
                                           "1_000",
                                           "007",
                                           "+5",
                                           "1.",
                                           ".5",
                                           "\"1\"",
                                           "true",
                                           "[]",
                                           "{}",
                                           "''"};

const std::vector<std::string> kBytes = {std::string(1, '\0'),
                                         "\n",
                                         "\r\n",
                                         "\x1b[31m",
                                         "\xff\xfe",
                                         "\xc3",
                                         "\xe2\x80\xae",
                                         "\"",
                                         "\\",
                                         "#",
                                         "=",
                                         "[",
                                         "]",
                                         "{",
                                         "}",
                                         ",",
                                         ".",
                                         "-",
                                         " ",
                                         "\t",
                                         "%s%n",
                                         "\xf0\x9f\xa7\xb6",
                                         "\xed\xa0\x80",
                                         "\x7f",
                                         "\xc2\x85"};

struct Piece {
  size_t begin = 0, end = 0;
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-'; }

std::vector<Piece> pieces(const std::string& text, bool (*belongs)(char)) {
  std::vector<Piece> result;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && belongs(text[end])) ++end;
    if (end > i) result.push_back({i, end});
    i = end + 1;
  }
  return result;
}

std::vector<Piece> lines(const std::string& text) {
  return pieces(text, [](char c) { return c != '\n'; });
}

std::string of(const std::string& text, const Piece& piece) { return text.substr(piece.begin, piece.end - piece.begin); }

size_t place(const std::string& text, Random& random) {
  return static_cast<size_t>(random.below(static_cast<int>(text.size()) + 1));
}

void change_word(std::string& text, const std::vector<std::string>& words, Random& random) {
  const std::vector<Piece> all = pieces(text, is_word);
  if (all.empty()) return;
  const Piece piece = random.of(all);
  const bool number = std::isdigit(static_cast<unsigned char>(text[piece.begin])) != 0 || words.empty();
  const std::string word = number || random.one_in(4) ? any_number(random) : random.of(words);
  text.replace(piece.begin, piece.end - piece.begin, word);
}

void change_line(std::string& text, Random& random) {
  const std::vector<Piece> all = lines(text);
  if (all.empty()) return;
  const Piece piece = random.of(all), other = random.of(all);
  switch (random.below(3)) {
    case 0:
      text.erase(piece.begin, piece.end - piece.begin);
      return;
    case 1:
      text.insert(piece.begin, of(text, other) + "\n");
      return;
    default:
      text.replace(piece.begin, piece.end - piece.begin, of(text, other));
  }
}

void change_bytes(std::string& text, Random& random) {
  if (text.empty()) return;
  const size_t at = static_cast<size_t>(random.below(static_cast<int>(text.size())));
  switch (random.below(5)) {
    case 0:
      text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
      return;
    case 1:
      text[at] = static_cast<char>(random.below(256));
      return;
    case 2:
      text.insert(at, random.of(kBytes));
      return;
    case 3:
      text.erase(at, static_cast<size_t>(1 + random.below(8)));
      return;
    default:
      for (size_t i = at; i < std::min(text.size(), at + 4); ++i) text[i] = random.one_in(2) ? '\xff' : '\0';
  }
}

void splice(std::string& text, const std::string& other, Random& random) {
  const size_t from = place(other, random);
  const size_t count = static_cast<size_t>(random.below(200));
  const size_t at = place(text, random);
  text.replace(at, random.one_in(2) ? 0 : count, other.substr(from, count));
}

// Longer than expected on a line.
void lengthen(std::string& text, Random& random) {
  const size_t at = place(text, random);
  const std::string what = random.one_in(2) ? random.of(kBytes) : std::string(1, static_cast<char>('!' + random.below(90)));
  std::string run;
  for (int times = 1 << random.below(14); times > 0; --times) run += what;
  text.insert(at, run);
}

void change(std::string& text, const std::string& other, const std::vector<std::string>& words, Random& random) {
  const int choice = random.below(16);
  if (choice < 8) return change_word(text, words, random);
  if (choice < 10) return change_line(text, random);
  if (choice < 13) return change_bytes(text, random);
  if (choice == 13) return splice(text, other, random);
  if (choice == 14) return lengthen(text, random);
  text.resize(place(text, random));
}

// A number as in a binary field, in either byte order.
void change_field(std::string& text, Random& random) {
  const size_t width = random.of<size_t>({1, 2, 4, 8});
  const uint64_t value = random.of<uint64_t>({0,
                                              1,
                                              2,
                                              3,
                                              7,
                                              16,
                                              127,
                                              128,
                                              255,
                                              256,
                                              65535,
                                              65536,
                                              0x7fffffff,
                                              0x80000000,
                                              0xffffffff,
                                              0x7fffffffffffffff,
                                              0x8000000000000000,
                                              0xffffffffffffffff,
                                              text.size(),
                                              text.size() + 1});
  const bool is_big_endian = random.one_in(2);
  const size_t at = place(text, random);
  for (size_t i = 0; i < width && at + i < text.size(); ++i) {
    text[at + i] = static_cast<char>(value >> 8 * (is_big_endian ? width - 1 - i : i));
  }
}

void change_stretch(std::string& text, Random& random) {
  const size_t at = place(text, random), count = std::min(text.size() - at, static_cast<size_t>(1) << random.below(9));
  switch (random.below(3)) {
    case 0:
      text.erase(at, count);
      return;
    case 1:
      text.insert(at, text.substr(at, count));
      return;
    default:
      std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(at), count, random.one_in(2) ? '\0' : '\xff');
  }
}

}  // namespace

std::string any_number(Random& random) {
  if (random.one_in(3)) return std::to_string(random.below(20));
  if (random.one_in(6)) return std::to_string(random.below(1 << 30));
  return random.of(kNumbers);
}

std::string damaged(const std::string& good, const std::string& other, const std::vector<std::string>& words, Random& random) {
  std::string text = good;
  for (int times = random.one_in(3) ? 1 + random.below(4) : 1; times > 0; --times) change(text, other, words, random);
  return text;
}

std::string damaged_bytes(const std::string& good, const std::string& other, Random& random) {
  std::string text = good;
  for (int times = random.one_in(3) ? 1 + random.below(4) : 1; times > 0; --times) {
    const int choice = random.below(12);
    if (choice < 5) {
      change_bytes(text, random);
    } else if (choice < 9) {
      change_field(text, random);
    } else if (choice < 10) {
      change_stretch(text, random);
    } else if (choice < 11) {
      splice(text, other, random);
    } else {
      text.resize(place(text, random));
    }
  }
  return text;
}

}  // namespace weft::fuzz
