// Lists of hosts that a run is spread over, as written by users.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// A host and its number of ranks.
struct HostPlace {
  std::string host;  ///< as given to ssh: a name of its configuration, an address, user@name
  int ranks = 1;
};

/// Parses "a:4,b:4": host[:ranks], by default 1 rank; an IPv6 address in brackets. Throws InputError.
std::vector<HostPlace> parse_host_list(std::string_view text);

/// Parses a file of hosts, one per line: "a:4", "a slots=4" (as in Open MPI) or "a"; '#' begins a comment. Throws InputError
/// with the line; `name` is the file's.
std::vector<HostPlace> parse_host_file(std::string_view text, const std::string& name);

/// Host name in errors: without the user.
std::string short_host_name(const std::string& host);

}  // namespace weft
