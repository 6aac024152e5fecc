// Records in a bucket, whose files cannot grow: FOLDER/records-2/metrics-000003.jsonl. A file's lines are in parts, of which
// only the last is written again. Each run that begins anew in the folder has the next records-N; the newest is read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// "records-2".
std::string records_name(int number);
/// The greatest N of records-N among names; 0: there is none.
int newest_records(const std::vector<std::string>& names);

/// "metrics-000003.jsonl" of "metrics.jsonl".
std::string part_name(std::string_view file, int number);
/// Numbers of a file's parts among names, rising.
std::vector<int> parts_among(const std::vector<std::string>& names, std::string_view file);

/// Bytes of the whole lines at the beginning of a text that fit into `room`.
size_t lines_within(std::string_view text, size_t room);

}  // namespace weft
