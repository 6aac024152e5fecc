#include "weft/checkpoint/weights/plain_pickle.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <set>

#include "weft/base/error.h"

namespace weft {
namespace {

enum PickleOp : unsigned char {
  kEmptyTuple = ')',
  kEmptyDict = '}',
  kReduce = 'R',
  kBuild = 'b',
  kGlobal = 'c',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kTuple2 = 0x86,
};

/// Reads a pickle opcode by opcode.
class PickleReader {
 public:
  explicit PickleReader(std::string_view bytes) : bytes_(bytes) {}

  bool at_end() const { return at_ == bytes_.size(); }
  /// The next opcode with its argument.
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
    if (count > bytes_.size() - at_) throw InputError("its pickle is cut off");
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
      case 'U':   // SHORT_BINSTRING
      case 'C':   // SHORT_BINBYTES
      case 0x8a:  // LONG1
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

constexpr std::string_view kOrderedDict = "ccollections\nOrderedDict\n";
constexpr std::string_view kCall = ")R";

}  // namespace

std::string with_plain_dicts(std::string_view pickle) {
  PickleReader reader(pickle);
  std::string out;
  std::set<std::string> ordered;  // BINPUT and LONG_BINPUT arguments under which the class was remembered
  while (!reader.at_end()) {
    const std::string_view op = reader.next();
    const auto code = static_cast<unsigned char>(op[0]);
    if (op == kOrderedDict) {
      while (true) {
        if (reader.skip(kCall)) break;
        const std::string_view memo = reader.next();
        const auto put = static_cast<unsigned char>(memo[0]);
        if (put != kBinPut && put != kLongBinPut) throw InputError("it uses OrderedDict in a way that is unknown");
        ordered.insert(std::string(memo.substr(1)));
      }
      out += static_cast<char>(kEmptyDict);
    } else if ((code == kBinGet || code == kLongBinGet) && ordered.count(std::string(op.substr(1))) > 0) {
      if (!reader.skip(kCall)) throw InputError("it uses OrderedDict in a way that is unknown");
      out += static_cast<char>(kEmptyDict);
    } else if (code == kBuild) {
      out += static_cast<char>(kTuple2);
    } else {
      out += op;
    }
  }
  return out;
}

}  // namespace weft
