// The hosts that a run is to be spread over, as a person writes them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// A host, and how many ranks it bears.
struct HostPlace {
  std::string host;  ///< as ssh takes it: a name of its configuration, an address, user@name
  int ranks = 1;
};

/// "a:4,b:4": host[:ranks], 1 rank where none is told; an IPv6 address in brackets. Throws InputError.
std::vector<HostPlace> parse_host_list(std::string_view text);

/// A file of hosts, one a line: "a:4", "a slots=4" (as Open MPI has it) or "a"; '#' begins a comment. Throws InputError that
/// names the line; `name` is the file's.
std::vector<HostPlace> parse_host_file(std::string_view text, const std::string& name);

/// What errors call a host: without the user.
std::string short_host_name(const std::string& host);

}  // namespace weft
