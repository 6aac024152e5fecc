#include "weft/checkpoint/weights/plain_pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "weft/base/error.h"

namespace weft {
namespace {

enum PickleOp : unsigned char {
  kNone = 'N',
  kTuple = 't',
  kLong1 = 0x8a,
  kEmptyDict = '}',
  kReduce = 'R',
  kBuild = 'b',
  kGlobal = 'c',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kNewObj = 0x81,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
};

constexpr std::string_view kOrderedDict = "ccollections\nOrderedDict\n";

/// Reads a pickle opcode by opcode.
class PickleReader {
 public:
  explicit PickleReader(std::string_view bytes) : bytes_(bytes) {}

  bool at_end() const { return at_ == bytes_.size(); }
  size_t at() const { return at_; }
  /// Returns the next opcode with its argument.
  std::string_view next() {
    const size_t begin = at_;
    take(1);
    skip_argument(static_cast<unsigned char>(bytes_[begin]));
    return bytes_.substr(begin, at_ - begin);
  }
  /// Takes these bytes if they come next.
  bool skip(std::string_view text) {
    if (bytes_.substr(at_, text.size()) != text) return false;
    at_ += text.size();
    return true;
  }

 private:
  void take(uint64_t count) {
    if (count > bytes_.size() - at_) throw InputError("its pickle is truncated");
    at_ += count;
  }
  template <class Length>
  void take_counted() {
    Length length = 0;
    const size_t begin = at_;
    take(sizeof length);
    std::memcpy(&length, bytes_.data() + begin, sizeof length);
    take(length);
  }
  void take_line() {
    const size_t end = bytes_.find('\n', at_);
    take(end == std::string_view::npos ? bytes_.size() + 1 : end + 1 - at_);
  }
  void skip_argument(unsigned char op) {
    switch (op) {
      case 0x80:  // PROTO
      case 'K':   // BININT1
      case kBinPut:
      case kBinGet:
        return take(1);
      case 'M':  // BININT2
        return take(2);
      case 'J':  // BININT
      case kLongBinPut:
      case kLongBinGet:
        return take(4);
      case 'G':   // BINFLOAT
      case 0x95:  // FRAME
        return take(8);
      case 'U':  // SHORT_BINSTRING
      case 'C':  // SHORT_BINBYTES
      case kLong1:
      case 0x8c:  // SHORT_BINUNICODE
        return take_counted<uint8_t>();
      case 'X':  // BINUNICODE
      case 'T':  // BINSTRING
      case 'B':  // BINBYTES
        return take_counted<uint32_t>();
      case 0x8d:  // BINUNICODE8
        return take_counted<uint64_t>();
      case kGlobal:
        take_line();
        return take_line();
      default:
        if (std::strchr("()}]tsuaeQRb.Nld", op) == nullptr && (op < 0x81 || op > 0x94) && op != 0) {
          throw InputError(fmt::format("its pickle has an opcode {:#04x}", op));
        }
    }
  }

  std::string_view bytes_;
  size_t at_ = 0;
};

/// True if LibTorch's unpickler knows a class or function by this name. Unknown ones make no objects.
bool is_known(std::string_view global) {
  constexpr std::string_view kModules[] = {"ctorch._utils\n", "ctorch._tensor\n", "ctorch.jit._pickle\n"};
  const auto is_of = [&](std::string_view module) { return global.starts_with(module); };
  return global == kOrderedDict || (is_of("ctorch\n") && global.ends_with("Storage\n")) ||
         std::any_of(std::begin(kModules), std::end(kModules), is_of);
}

/// Tracks how deep a pickle's values are nested and which are made by unknown classes or functions, on a stack that mirrors the
/// pickle machine's.
class PickleDepth {
 public:
  /// Returns true if the opcode names an unknown class or function, or works on a value made by one.
  bool visit(std::string_view op) {
    ++count_;
    const auto code = static_cast<unsigned char>(op[0]);
    switch (code) {
      case 0x80:  // PROTO
      case 0x95:  // FRAME
      case '.':   // STOP
        return false;
      case '(':  // MARK
        marks_.push_back(stack_.size());
        return false;
      case kBinPut:
      case kLongBinPut:
      case 0x94:  // MEMOIZE
        remember(code == 0x94 ? memo_.size() : index_of(op));
        return false;
      case kBinGet:
      case kLongBinGet: {
        const auto found = memo_.find(index_of(op));
        push(found == memo_.end() ? Value() : found->second);
        return false;
      }
      case kGlobal:
        return push({.depth = 0, .is_unknown = !is_known(op)});
      case kTuple:
      case 'l':  // LIST
      case 'd':  // DICT
        return push({pop_to_mark() + 1});
      case 'e':   // APPENDS
      case 'u':   // SETITEMS
      case 0x90:  // ADDITEMS
        return add(pop_to_mark());
      case 'a':  // APPEND
        return add(pop(1));
      case 's':  // SETITEM
        return add(pop(2));
      case 0x85:  // TUPLE1
      case 'Q':   // BINPERSID
        return push({pop(1) + 1});
      case kTuple2:
        return push({pop(2) + 1});
      case kReduce:
      case kBuild:
      case kNewObj: {
        const bool is_unknown = stack_.size() > 1 && stack_[stack_.size() - 2].is_unknown;
        return push({pop(2) + 1, is_unknown});
      }
      case kTuple3:
        return push({pop(3) + 1});
      default:
        return push({});
    }
  }

 private:
  struct Value {
    int depth = 0;
    bool is_unknown = false;
  };
  static uint32_t index_of(std::string_view op) {
    uint32_t index = 0;
    std::memcpy(&index, op.data() + 1, std::min(sizeof index, op.size() - 1));
    return index;
  }
  bool push(Value value) {
    constexpr int kDeepest = 64;
    if (value.depth > kDeepest) throw InputError("its pickle is nested too deeply");
    stack_.push_back(value);
    return value.is_unknown;
  }
  int pop(size_t count) {
    int deepest = 0;
    for (; count > 0 && !stack_.empty(); --count, stack_.pop_back()) deepest = std::max(deepest, stack_.back().depth);
    return deepest;
  }
  int pop_to_mark() {
    if (marks_.empty()) throw InputError("its pickle ends a list or dict that was never begun");
    const size_t mark = std::min(marks_.back(), stack_.size());
    marks_.pop_back();
    return pop(stack_.size() - mark);
  }
  /// Adds a value of that depth to the value on top of the stack.
  bool add(int depth) {
    const bool is_unknown = !stack_.empty() && stack_.back().is_unknown;
    return push({std::max(pop(1), depth + 1), is_unknown});
  }
  void remember(size_t index) {
    // Picklers number memo entries consecutively; the unpickler allocates that many.
    if (index > count_) throw InputError("its pickle has a memo index that is too large");
    memo_[index] = stack_.empty() ? Value() : stack_.back();
  }

  std::vector<Value> stack_;
  std::vector<size_t> marks_;
  std::map<size_t, Value> memo_;
  size_t count_ = 0;
};

/// Positions of the opcodes that name or use unknown classes or functions.
std::set<size_t> unknown_places(std::string_view pickle) {
  PickleReader reader(pickle);
  PickleDepth depth;
  std::set<size_t> places;
  while (!reader.at_end()) {
    const size_t at = reader.at();
    if (depth.visit(reader.next())) places.insert(at);
  }
  return places;
}

/// Replacement for an opcode at one of these positions: None for a name, a tuple for a value made by it or put into it.
std::string as_tuple(unsigned char code) {
  if (code == kGlobal) return {kNone};
  if (code == 's') return {static_cast<char>(kTuple3)};                  // SETITEM
  const bool takes_marked = code == 'u' || code == 'e' || code == 0x90;  // SETITEMS, APPENDS, ADDITEMS
  return takes_marked ? std::string{kTuple, static_cast<char>(kTuple2)} : std::string{static_cast<char>(kTuple2)};
}

/// Returns an integer in as many bytes as LibTorch's unpickler reads; None for a longer one.
std::string as_long(std::string_view op) {
  constexpr size_t kBytes = 8, kHead = 2;
  const size_t bytes = op.size() - kHead;
  if (bytes > kBytes) return {kNone};
  const bool is_negative = bytes > 0 && (op.back() & 0x80) != 0;
  return std::string{static_cast<char>(kLong1), kBytes} + std::string(op.substr(kHead)) +
         std::string(kBytes - bytes, is_negative ? '\xff' : '\0');
}

constexpr std::string_view kCall = ")R";

}  // namespace

std::string with_plain_dicts(std::string_view pickle) {
  const std::set<size_t> unknown = unknown_places(pickle);
  PickleReader reader(pickle);
  std::string out;
  std::set<std::string> ordered;  // BINPUT and LONG_BINPUT arguments of the class
  while (!reader.at_end()) {
    const bool is_unknown = unknown.count(reader.at()) > 0;
    const std::string_view op = reader.next();
    const auto code = static_cast<unsigned char>(op[0]);
    if (op == kOrderedDict) {
      while (true) {
        if (reader.skip(kCall)) break;
        const std::string_view memo = reader.next();
        const auto put = static_cast<unsigned char>(memo[0]);
        if (put != kBinPut && put != kLongBinPut) throw InputError("it uses OrderedDict in an unknown way");
        ordered.insert(std::string(memo.substr(1)));
      }
      out += static_cast<char>(kEmptyDict);
    } else if ((code == kBinGet || code == kLongBinGet) && ordered.count(std::string(op.substr(1))) > 0) {
      if (!reader.skip(kCall)) throw InputError("it uses OrderedDict in an unknown way");
      out += static_cast<char>(kEmptyDict);
    } else if (is_unknown) {
      out += as_tuple(code);
    } else if (code == kLong1) {
      out += as_long(op);
    } else if (code == kBuild) {
      out += static_cast<char>(kTuple2);
    } else {
      out += op;
    }
  }
  return out;
}

}  // namespace weft
