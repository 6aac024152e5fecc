#include "tests/fuzz/exported/zip_damage.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>

namespace weft::fuzz {
namespace {

using test::Random;

/// One record's fields, in the list at the archive's end or before its bytes.
struct ZipFields {
  std::string name = {};
  uint64_t version = 20, flags = 0, method = 0, sum = 0, packed = 0, size = 0, attributes = 0, offset = 0;
  std::string extra = {};
};

struct ZipEntry {
  std::string bytes;
  ZipFields local, listed;
  bool has_offset = false;  ///< listed.offset is set, not the true one
};

/// Differences of the archive's end from what is true.
struct ZipEnd {
  int64_t count = 0, bytes = 0, offset = 0;
  bool is_wide = false;  ///< a zip64 end
  std::string before = {}, after = {};
};

std::string number(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i);
  return text;
}

uint64_t sum_of(const std::string& bytes) {
  return crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
}

ZipEntry entry_of(const std::string& name, const std::string& bytes) {
  const ZipFields fields{.name = name, .sum = sum_of(bytes), .packed = bytes.size(), .size = bytes.size()};
  return {.bytes = bytes, .local = fields, .listed = fields};
}

std::string common_fields(const ZipFields& x) {
  return number(x.version, 2) + number(x.flags, 2) + number(x.method, 2) + number(0, 4) + number(x.sum, 4) +
         number(x.packed, 4) + number(x.size, 4) + number(x.name.size(), 2) + number(x.extra.size(), 2);
}

std::string written(const std::vector<ZipEntry>& entries, const ZipEnd& end) {
  constexpr uint64_t kUnix = 3 << 8;
  std::string zip = end.before, list;
  for (const ZipEntry& x : entries) {
    const uint64_t offset = x.has_offset ? x.listed.offset : zip.size();
    zip += "PK\3\4" + common_fields(x.local) + x.local.name + x.local.extra + x.bytes;
    list += "PK\1\2" + number(kUnix | 20, 2) + common_fields(x.listed) + number(0, 6) + number(x.listed.attributes, 4) +
            number(offset, 4) + x.listed.name + x.listed.extra;
  }
  const uint64_t count = entries.size() + static_cast<uint64_t>(end.count), at = zip.size() + static_cast<uint64_t>(end.offset),
                 bytes = list.size() + static_cast<uint64_t>(end.bytes), wide_at = zip.size() + list.size();
  zip += list;
  if (end.is_wide) {
    zip += "PK\6\6" + number(44, 8) + number(45, 2) + number(45, 2) + number(0, 8) + number(count, 8) + number(count, 8) +
           number(bytes, 8) + number(at, 8);
    zip += "PK\6\7" + number(0, 4) + number(wide_at, 8) + number(1, 4);
  }
  const uint64_t narrow = end.is_wide ? UINT32_MAX : at;
  return zip + "PK\5\6" + number(0, 4) + number(count, 2) + number(count, 2) + number(bytes, 4) + number(narrow, 4) +
         number(0, 2) + end.after;
}

uint64_t odd_number(uint64_t near, Random& random) {
  return random.of<uint64_t>(
      {0, 1, 7, near + 1, near - 1, near * 2, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff});
}

/// Raw deflate, as in zip archives.
std::string packed(const std::string& bytes) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

void pack(ZipEntry& entry, Random& random) {
  if (random.one_in(3))
    entry = entry_of(entry.listed.name, std::string(size_t{8} << 20, '\0'));  // a thousand times what is packed
  entry.bytes = packed(entry.bytes);
  for (ZipFields* fields : {&entry.local, &entry.listed}) {
    fields->method = random.one_in(6) ? 12 : 8;
    fields->packed = entry.bytes.size();
    if (random.one_in(6)) fields->size = odd_number(fields->size, random);
  }
}

void change_field(ZipEntry& entry, Random& random) {
  ZipFields& x = random.one_in(3) ? entry.local : entry.listed;
  uint64_t& field = *random.of<uint64_t*>({&x.version, &x.flags, &x.method, &x.sum, &x.packed, &x.size, &x.size});
  field = odd_number(field, random);
  if (random.one_in(3)) entry.local = entry.listed = x;
}

void change_name(ZipEntry& entry, Random& random) {
  const std::string long_name(static_cast<size_t>(random.below(1 << 16)), 'a');
  const std::string name = random.of<std::string>({"", "/", "net/", "x", "net/models/model.json", "net/../../../etc/passwd",
                                                   "/etc/passwd", "net/models/", std::string("net/a\0b", 7), "net/\xff\xfe\xc3",
                                                   "net/\x1b[31m\n", "net\\models\\model.json", long_name});
  entry.listed.name = name;
  if (!random.one_in(3)) entry.local.name = name;
}

/// A zip64 field, whole or cut.
void widen(ZipEntry& entry, Random& random) {
  ZipFields& x = random.one_in(3) ? entry.local : entry.listed;
  const std::string numbers = number(random.one_in(2) ? x.size : UINT64_MAX - odd_number(0, random), 8) +
                              number(random.one_in(2) ? x.packed : odd_number(x.packed, random), 8) +
                              number(odd_number(0, random) << 16, 8);
  const auto bytes = random.of<size_t>({8, 16, 24, 4, 0});
  x.extra = number(1, 2) + number(random.one_in(4) ? odd_number(bytes, random) : bytes, 2) + numbers.substr(0, bytes);
  if (!random.one_in(4)) x.size = UINT32_MAX;
  if (random.one_in(2)) x.packed = UINT32_MAX;
  if (random.one_in(2)) {
    entry.has_offset = true;
    x.offset = UINT32_MAX;
  }
}

void change_end(ZipEnd& end, Random& random) {
  int64_t& field = *random.of<int64_t*>({&end.count, &end.bytes, &end.offset});
  field = random.of<int64_t>({1, -1, 100, -100, 65535, INT32_MAX, INT64_MAX, INT64_MIN});
  end.is_wide = random.one_in(2);
}

void change(std::vector<ZipEntry>& entries, ZipEnd& end, Random& random) {
  const auto place = [&] { return entries.begin() + random.below(static_cast<int>(entries.size())); };
  if (entries.empty()) return;
  switch (random.below(13)) {
    case 0:
      entries.erase(place());
      return;
    case 1: {
      const ZipEntry copy = *place();
      entries.insert(place(), copy);
      return;
    }
    case 2:
      std::iter_swap(place(), place());
      return;
    case 3:
      return pack(*place(), random);
    case 4:
      return change_name(*place(), random);
    case 5:
      return widen(*place(), random);
    case 6:
      return change_end(end, random);
    case 7: {  // a link, a folder, a device
      const uint64_t kind = random.of<uint64_t>({0120777, 0040755, 0020666, 0010666});
      place()->listed.attributes = kind << 16;
      return;
    }
    case 8: {
      ZipEntry& entry = *place();
      entry.has_offset = true;
      entry.listed.offset = odd_number(static_cast<uint64_t>(random.below(4000)), random);
      return;
    }
    case 9:
      end.before = std::string(static_cast<size_t>(random.below(100)), 'P');
      end.after = std::string(static_cast<size_t>(random.below(100)), 'K');
      return;
    case 10:
      for (int i = random.below(3000); i > 0; --i) entries.push_back(entry_of("net/" + std::to_string(i), ""));
      return;
    default:
      return change_field(*place(), random);
  }
}

std::vector<ZipEntry> entries_of(const Members& records) {
  std::vector<ZipEntry> entries;
  for (const auto& [name, bytes] : records) entries.push_back(entry_of("net/" + name, bytes));
  return entries;
}

}  // namespace

std::string zip_of(const Members& records) { return written(entries_of(records), {}); }

std::string damaged_zip(const Members& records, Random& random) {
  std::vector<ZipEntry> entries = entries_of(records);
  ZipEnd end;
  for (int times = 1 + random.below(3); times > 0; --times) change(entries, end, random);
  return written(entries, end);
}

}  // namespace weft::fuzz
