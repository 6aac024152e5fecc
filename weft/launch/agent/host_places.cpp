#include "weft/launch/agent/host_places.h"

#include <fmt/format.h>

#include <sstream>

#include "weft/base/error.h"
#include "weft/base/parse_number.h"

namespace weft {

namespace {

constexpr int kMostHostRanks = 1 << 16;

int parse_host_ranks(std::string_view text, std::string_view place) {
  const auto ranks = parse_number<int>(text);
  if (!ranks || *ranks < 1 || *ranks > kMostHostRanks) {
    throw InputError(fmt::format("{}: '{}' is not a number of ranks; write HOST:RANKS, as in a:4", place, text));
  }
  return *ranks;
}

HostPlace parse_place(std::string_view text) {
  HostPlace place;
  std::string_view host = text;
  const size_t bracket = text.find(']'), colon = text.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon != std::string_view::npos) {
    host = text.substr(0, colon);
    place.ranks = parse_host_ranks(text.substr(colon + 1), text);
  }
  place.host = host;
  if (const size_t open = place.host.find('['); open != std::string::npos && place.host.back() == ']') {
    place.host.pop_back();
    place.host.erase(open, 1);
  }
  // ssh would read it as an option.
  if (place.host.empty() || place.host.front() == '-') throw InputError(fmt::format("'{}' is not a host", text));
  return place;
}

void check_hosts(const std::vector<HostPlace>& hosts, const std::string& where) {
  if (hosts.empty()) throw InputError(where + " names no host");
  for (size_t i = 0; i < hosts.size(); ++i) {
    for (size_t other = 0; other < i; ++other) {
      if (hosts[i].host != hosts[other].host) continue;
      throw InputError(fmt::format("{}: host {} appears twice; list it once, with all its ranks", where, hosts[i].host));
    }
  }
}

}  // namespace

std::vector<HostPlace> parse_host_list(std::string_view text) {
  std::vector<HostPlace> hosts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    hosts.push_back(parse_place(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  check_hosts(hosts, "--hosts");
  return hosts;
}

std::vector<HostPlace> parse_host_file(std::string_view text, const std::string& name) {
  std::vector<HostPlace> hosts;
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    try {
      HostPlace place = parse_place(word);
      while (words >> word) {
        if (!word.starts_with("slots=")) throw InputError(fmt::format("'{}' is not slots=RANKS", word));
        place.ranks = parse_host_ranks(word.substr(6), place.host);
      }
      hosts.push_back(place);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}, line {}: {}", name, number, error.what()));
    }
  }
  check_hosts(hosts, name);
  return hosts;
}

std::string short_host_name(const std::string& host) { return host.substr(host.rfind('@') + 1); }

}  // namespace weft
